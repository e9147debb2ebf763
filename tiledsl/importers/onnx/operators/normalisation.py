"""Normalisation of rows."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

from tiledsl import tile
from tiledsl.importers.onnx.call import Call
from tiledsl.importers.onnx.operators.floats import in_floats
from tiledsl.importers.onnx.register import operator


@operator("LayerNormalization", since=17)
def layer_normalization(
    x: Any, scale: Any, bias: Any = None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1, node: Call
) -> Any:
    axes = tuple(range(axis % x.ndim, x.ndim))
    wide = x.to(tile.f32) if x.dtype.bits < 32 else x
    mean = tile.mean(wide, axis=axes, keepdims=True)
    centred = wide - mean
    inverse = tile.rsqrt(tile.mean(centred * centred, axis=axes, keepdims=True) + epsilon)
    y = centred * inverse * scale.to(wide.dtype)
    y = (y if bias is None else y + bias.to(wide.dtype)).to(x.dtype)
    return (y, mean, inverse)[: node.outputs]


@operator("RMSNormalization", since=23)
def rms_normalization(x: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
    axes = tuple(range(axis % x.ndim, x.ndim))

    def formula(x: Any, scale: Any) -> Any:
        return x * tile.rsqrt(tile.mean(x * x, axis=axes, keepdims=True) + epsilon) * scale

    return in_floats(formula, x, scale).to(scale.dtype)


@operator("GroupNormalization", since=21)
def group_normalization(
    x: Any, scale: Any, bias: Any, *, epsilon: float = 1e-5, num_groups: int, stash_type: int = 1
) -> Any:
    shape = (1, -1, *(1,) * (x.ndim - 2))
    n, c = x.shape[:2]

    def formula(x: Any, scale: Any, bias: Any) -> Any:
        groups = x.reshape((n, num_groups, c // num_groups, *x.shape[2:]))
        axes = tuple(range(2, groups.ndim))
        centred = groups - tile.mean(groups, axis=axes, keepdims=True)
        spread = tile.mean(centred * centred, axis=axes, keepdims=True)
        return (centred * tile.rsqrt(spread + epsilon)).reshape(x.shape) * scale.reshape(shape) + bias.reshape(shape)

    return in_floats(formula, x, scale, bias)


@operator("MeanVarianceNormalization", since=9)
def mean_variance_normalization(x: Any, *, axes: Any = (0, 2, 3)) -> Any:
    def formula(x: Any) -> Any:
        centred = x - tile.mean(x, axis=tuple(axes), keepdims=True)
        return centred / (tile.sqrt(tile.mean(centred * centred, axis=tuple(axes), keepdims=True)) + 1e-9)

    return in_floats(formula, x)

"""Random numbers: Philox, by the seed of the node. Without one, by the number of the node."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

from tiledsl import tile
from tiledsl.importers.onnx.call import Call
from tiledsl.importers.onnx.operators.casts import dtype_of
from tiledsl.importers.onnx.register import operator
from tiledsl.ir.dtypes import f32


def _numbers(word: Any, shape: Any, seed: float | None, node: Call) -> Any:
    offsets: Any = 0
    for axis, size in enumerate(shape):
        offsets = offsets * size + tile.arange(size).reshape(tuple(-1 if i == axis else 1 for i in range(len(shape))))
    number = node.node.number if seed is None else int(seed * 1009) & 0x7FFFFFFF
    return word(number, offsets)


@operator("RandomUniformLike", since=1)
def uniform_like(
    x: Any, *, dtype: int | None = None, high: float = 1.0, low: float = 0.0, seed: float | None = None, node: Call
) -> Any:
    value = low + (high - low) * _numbers(tile.rand, x.shape, seed, node)
    return value.to(x.dtype if dtype is None else dtype_of(dtype))


@operator("RandomNormalLike", since=1)
def normal_like(
    x: Any, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float | None = None, node: Call
) -> Any:
    value = mean + scale * _numbers(tile.randn, x.shape, seed, node)
    return value.to(x.dtype if dtype is None else dtype_of(dtype))


@operator("RandomUniform", since=1)
def uniform(
    *, shape: Any, dtype: int = 1, high: float = 1.0, low: float = 0.0, seed: float | None = None, node: Call
) -> Any:
    return (low + (high - low) * _numbers(tile.rand, shape, seed, node)).to(dtype_of(dtype))


@operator("RandomNormal", since=1)
def normal(
    *, shape: Any, dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float | None = None, node: Call
) -> Any:
    return (mean + scale * _numbers(tile.randn, shape, seed, node)).to(dtype_of(dtype))


@operator("Bernoulli", since=15)
def bernoulli(x: Any, *, dtype: int | None = None, seed: float | None = None, node: Call) -> Any:
    drawn = _numbers(tile.rand, x.shape, seed, node) < x.to(f32)
    return drawn.to(x.dtype if dtype is None else dtype_of(dtype))


@operator("Multinomial", since=7)
def multinomial(x: Any, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None, node: Call) -> Any:
    """Of logarithms of probabilities: where one is largest after -log(-log(u)) is added, for u of (0, 1)."""
    batch, classes = x.shape
    drawn = _numbers(tile.rand, (batch, sample_size, classes), seed, node)
    noisy = x.to(f32)[:, None, :] - tile.log(-tile.log(drawn))
    return tile.argmax(noisy, axis=2).to(dtype_of(dtype))

"""Quantised tensors: integers with a scale and a zero point."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from tiledsl import ops, tile
from tiledsl.importers.onnx.call import Call
from tiledsl.importers.onnx.model import Array
from tiledsl.importers.onnx.operators.casts import converted, dtype_of
from tiledsl.importers.onnx.operators.images import by_rank, padding, pairs_of
from tiledsl.importers.onnx.register import operator
from tiledsl.ir.dtypes import DType, from_numpy, to_numpy


def _limits(dtype: DType) -> tuple[float, float]:
    if dtype.is_signed:
        return -float(1 << (dtype.bits - 1)), float((1 << (dtype.bits - 1)) - 1)
    return 0.0, float((1 << dtype.bits) - 1)


def _spread(scale: Any, x: Any, axis: int, block: int) -> Any:
    """A scale (or zero point) for each element: one for all, for each slice along an axis, or for each block of it."""
    if not scale.ndim or (scale.shape == (1,) and x.ndim != 1):
        return scale.reshape(())
    at = axis % x.ndim
    if scale.ndim == 1 and (x.ndim != 1 or not block):
        return scale.reshape(tuple(-1 if i == at else 1 for i in range(x.ndim)))
    size = block or -(-x.shape[at] // scale.shape[at])
    if isinstance(x.shape[at], int) and isinstance(size, int):
        return scale[(slice(None),) * at + (tile.arange(x.shape[at]) // size,)]
    wide = scale.reshape((*scale.shape[: at + 1], 1, *scale.shape[at + 1 :]))
    wide = tile.broadcast_to(wide, (*scale.shape[: at + 1], size, *scale.shape[at + 1 :]))
    whole = wide.reshape((*scale.shape[:at], scale.shape[at] * size, *scale.shape[at + 1 :]))
    return whole[(slice(None),) * at + (slice(0, x.shape[at]),)]


def quantised(x: Any, scale: Any, zero: Any, dtype: DType) -> Any:
    """round(x / scale) + zero, within the limits of `dtype`; scales are of one shape with `x`, or broadcast to it."""
    wide = tile.f64 if x.dtype == tile.f64 else tile.f32
    low, high = _limits(dtype)
    value = tile.round(x.to(wide) / scale.to(wide))
    value = value if zero is None else value + zero.to(wide)
    return tile.clip(value, low, high).to(dtype)


def dequantised(x: Any, scale: Any, zero: Any) -> Any:
    """(x - zero) * scale in f32."""
    value = x.to(tile.f32)
    value = value if zero is None else value - zero.to(tile.f32)
    return value * scale.to(tile.f32)


@operator("QuantizeLinear", since=10, kind="values")
def quantize(
    x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0,
    precision: int = 0, saturate: int = 1, node: Call,
) -> Any:  # fmt: skip
    kind = output_dtype or None
    target: Any = dtype_of(kind) if kind else tile.u8 if zero is None else node.dtype(zero)
    if not isinstance(target, DType):
        target = from_numpy(target) or target
    if isinstance(target, DType) and target.is_integer:

        def formula(x: Any, scale: Any, *zeros: Any) -> Any:
            parts = [_spread(part, x, axis, block_size) for part in (scale, *zeros)]
            return quantised(x, parts[0], parts[1] if zeros else None, target)

        return node.formula(formula, x, scale, *(() if zero is None else (zero,)))
    numpy_dtype = to_numpy(target) if isinstance(target, DType) else target

    def run(x: Array, scale: Array, *zeros: Array) -> list[Array]:
        return [
            _quantised_on_host(x, scale, zeros[0] if zeros else None, numpy_dtype, axis, block_size, bool(saturate))
        ]

    items = [x, scale] if zero is None else [x, scale, zero]
    return tuple(node.host(run, items, 1))


def _quantised_on_host(
    x: Array, scale: Array, zero: Array | None, dtype: Any, axis: int, block: int, saturate: bool
) -> Array:
    wide = x.astype(np.float32) / _spread_on_host(scale.astype(np.float32), x, axis, block)
    if np.dtype(dtype).name in ("int4", "uint4", "int2", "uint2"):
        info = ml_dtypes.iinfo(dtype)
        offset = 0 if zero is None else _spread_on_host(zero.astype(np.float32), x, axis, block)
        return np.clip(np.rint(wide) + offset, float(info.min), float(info.max)).astype(np.int8).astype(dtype)
    offset = 0 if zero is None else _spread_on_host(zero.astype(np.float32), x, axis, block)
    return converted(wide + offset, dtype, saturate)


def _spread_on_host(scale: Array, x: Array, axis: int, block: int) -> Array:
    if scale.ndim == 0 or scale.size == 1:
        return scale.reshape(())
    at = axis % x.ndim
    if scale.ndim == 1:
        return scale.reshape(tuple(-1 if i == at else 1 for i in range(x.ndim)))
    size = block or -(-x.shape[at] // scale.shape[at])
    return np.repeat(scale, size, axis=at)[(slice(None),) * at + (slice(0, x.shape[at]),)]


@operator("DequantizeLinear", since=10, kind="values")
def dequantize(
    x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0, node: Call
) -> Any:
    dtype = node.dtype(x)
    target = dtype_of(output_dtype) if output_dtype else node.dtype(scale)
    ours = target if isinstance(target, DType) else from_numpy(target)
    if x.array is not None and x.array.ndim and _packed_dtype(dtype) is not None and ours is not None:
        return _of_packed(x, scale, zero, axis, block_size, ours, node)
    if isinstance(dtype, DType) or from_numpy(dtype) is not None:

        def formula(x: Any, scale: Any, *zeros: Any) -> Any:
            parts = [_spread(part, x, axis, block_size) for part in (scale, *zeros)]
            return dequantised(x, parts[0], parts[1] if zeros else None).to(target)

        return node.formula(formula, x, scale, *(() if zero is None else (zero,)))
    numpy_dtype = to_numpy(target) if isinstance(target, DType) else target

    def run(x: Array, scale: Array, *zeros: Array) -> list[Array]:
        offset = _spread_on_host(zeros[0].astype(np.float32), x, axis, block_size) if zeros else 0
        value = (x.astype(np.float32) - offset) * _spread_on_host(scale.astype(np.float32), x, axis, block_size)
        return [value.astype(numpy_dtype)]

    return tuple(node.host(run, [x, scale] if zero is None else [x, scale, zero], 1))


def _packed_dtype(dtype: Any) -> DType | None:
    """Ours, of integers of 4 bits."""
    return {"int4": tile.i4, "uint4": tile.u4}.get("" if isinstance(dtype, DType) else np.dtype(dtype).name)


def _of_packed(x: Any, scale: Any, zero: Any, axis: int, block: int, target: DType, node: Call) -> Any:
    """Weights of 4 bits that the model holds: they stay packed, two to a byte, and are unpacked where they are read."""
    array: Array = x.array
    packed_dtype, size = _packed_dtype(array.dtype), array.shape[-1]
    assert packed_dtype is not None
    held = np.int8 if packed_dtype.is_signed else np.uint8
    bits = np.pad(array.astype(held).view(np.uint8) & 15, ((0, 0),) * (array.ndim - 1) + ((0, size % 2),))
    packed = node.known(bits[..., 0::2] | bits[..., 1::2] << 4)
    packed.name = x.name

    def formula(x: Any, scale: Any, *zeros: Any) -> Any:
        values = ops.unpack(x, packed_dtype, size)
        parts = [_spread(part, values, axis, block) for part in (scale, *zeros)]
        return dequantised(values, parts[0], parts[1] if zeros else None).to(target)

    if zero is None:
        return node.formula(formula, packed, scale)
    known = zero if zero.array is None else node.known(zero.array.astype(held))
    return node.formula(formula, packed, scale, known)


@operator("DynamicQuantizeLinear", since=11)
def dynamic_quantize(x: Any) -> Any:
    """8 bits whose scale spans the values of the tensor, and 0."""
    high, low = tile.maximum(tile.max(x), 0.0), tile.minimum(tile.min(x), 0.0)
    scale = (high - low) / 255.0
    zero = tile.clip(tile.round(-low / scale), 0.0, 255.0).to(tile.u8)
    return quantised(x, scale, zero, tile.u8), scale, zero


def _centred(x: Any, zero: Any, axis: int, dtype: Any) -> Any:
    """8-bit integers less their zero point: exact in f32, as are sums of a great many of their products."""
    wide = x.to(dtype)
    if zero is None:
        return wide
    offset = zero.to(dtype)
    if zero.ndim == 1 and zero.shape[0] != 1:
        offset = offset.reshape(tuple(-1 if i == axis % x.ndim else 1 for i in range(x.ndim)))
    elif zero.ndim <= 1:
        offset = offset.reshape(())
    return wide - offset


def _product(a: Any, b: Any) -> Any:
    """A product of centred integers as i32: in f32 where each sum is exact there, else in f64."""
    exact = isinstance(a.shape[-1], int) and a.shape[-1] * 255 * 255 < 1 << 24
    dtype = tile.f32 if exact else tile.f64
    return (a.to(dtype) @ b.to(dtype)).to(tile.i32)


@operator("MatMulInteger", since=10)
def matmul_integer(a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    return _product(_centred(a, a_zero, -2, tile.f32), _centred(b, b_zero, -1, tile.f32))


def _factor(scale: Any, rank: int) -> Any:
    return scale.to(tile.f32).reshape((-1,) if scale.ndim == 1 and scale.shape[0] != 1 else ())


@operator("QLinearMatMul", since=10)
def qlinear_matmul(
    a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any
) -> Any:
    product = _product(_centred(a, a_zero, -2, tile.f32), _centred(b, b_zero, -1, tile.f32))
    rows = a_scale.to(tile.f32).reshape((-1, 1) if a_scale.ndim == 1 and a_scale.shape[0] != 1 else ())
    real = product.to(tile.f32) * rows * _factor(b_scale, 1)
    return quantised(real, y_scale.reshape(()), y_zero.reshape(()), y_zero.dtype)


def _convolved(
    node: Call, x: Any, w: Any, x_zero: Any, w_zero: Any, auto_pad: str, dilations: Any, group: int, pads: Any,
    strides: Any,
) -> Any:  # fmt: skip
    """A convolution of centred 8-bit integers, as i32."""
    exact = math.prod(w.shape[1:]) * 255 * 255 < 1 << 24
    dtype = tile.f32 if exact else tile.f64
    convolution = by_rank(node, x, {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d})
    rank = x.ndim - 2
    steps, spread = strides or (1,) * rank, dilations or (1,) * rank
    pairs = pairs_of(node, auto_pad, pads, x.shape[2:], w.shape[2:], steps, spread)
    left, right = _centred(x, x_zero, 1, dtype), _centred(w, w_zero, 0, dtype)
    return convolution(left, right, None, tuple(steps), padding(pairs), tuple(spread), group).to(tile.i32)


@operator("ConvInteger", since=10)
def conv_integer(
    x: Any, w: Any, x_zero: Any = None, w_zero: Any = None, *, auto_pad: str = "NOTSET", dilations: Any = None,
    group: int = 1, kernel_shape: Any = None, pads: Any = None, strides: Any = None, node: Call,
) -> Any:  # fmt: skip
    return _convolved(node, x, w, x_zero, w_zero, auto_pad, dilations, group, pads, strides)


@operator("QLinearConv", since=10)
def qlinear_conv(
    x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any, y_scale: Any, y_zero: Any, bias: Any = None,
    *, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1, kernel_shape: Any = None, pads: Any = None,
    strides: Any = None, node: Call,
) -> Any:  # fmt: skip
    total = _convolved(node, x, w, x_zero, w_zero, auto_pad, dilations, group, pads, strides)
    shape = (-1, *(1,) * (x.ndim - 2))
    if bias is not None:
        total = total + bias.reshape(shape)
    scale = w_scale.to(tile.f32)
    scale = scale.reshape(shape) if w_scale.ndim == 1 and w_scale.shape[0] != 1 else scale.reshape(())
    real = total.to(tile.f32) * x_scale.to(tile.f32).reshape(()) * scale
    return quantised(real, y_scale.reshape(()), y_zero.reshape(()), y_zero.dtype)

"""Quantised tensors: integers of 8 or 4 bits, and a scale for each group of neighbours along an axis.

Of 4 bits two are in a byte, neighbours along the last axis, the first in the low half: [..., K] is
u8[..., (K + 1) // 2].
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import ml_dtypes

from tiledsl import tile
from tiledsl.frontend.trace.array_types import as_dtype
from tiledsl.ir.dtypes import DType, i8, to_numpy, u8
from tiledsl.ir.types import format_shape
from tiledsl.ops.checks import (
    as_tensor,
    axis_of,
    refuse,
    refuse_option,
    refuse_rank,
    refuse_shapes,
    require_float,
    text_of,
)

QUANTISED = ("i8", "u8", "i4", "u4")


def _dtype(name: str, dtype: Any) -> DType:
    found = as_dtype(dtype)
    if found is None or found.name not in QUANTISED:
        refuse_option(name, "dtype", dtype, "tile.i8, tile.u8, tile.i4 or tile.u4", "name one of these four")
    return found


def _limits(dtype: DType) -> tuple[int, int]:
    return (-(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1) if dtype.is_signed else (0, (1 << dtype.bits) - 1)


def _held_in(dtype: DType) -> DType:
    return i8 if dtype.is_signed else u8


def _group(name: str, group: Any, size: Any) -> Any:
    if group is None:
        return max(size, 1) if isinstance(size, int) else size
    if not isinstance(group, int) or isinstance(group, bool) or group < 1:
        refuse_option(name, "group", group, "an int from 1 on", "give the elements that share a scale, as 128")
    return group


@tile.kernel
def pack(q: Any) -> Any:
    """Integers of 4 bits, [..., K] in any integer dtype, as u8[..., (K + 1) // 2]: two to a byte, the first low.

    Of each the low 4 bits count. What fills the last byte of an odd K is 0.
    """
    q = as_tensor(q)
    if not q.dtype.is_integer:
        refuse("ops-dtype", q, name="ops.pack", text=text_of(q), dtype=q.dtype, expected="integers", fix="round first")
    if q.ndim == 0:
        refuse_option("ops.pack", "q", "a scalar", "a tensor with an axis", "give it an axis: `q.reshape((1,))`")
    bits, size = q.to(tile.u8) & 15, q.shape[-1]
    one_more = ((0, 0),) * (q.ndim - 1) + ((0, 1),)
    if not isinstance(size, int):  # whether it is odd is not known, so neighbours are looked up
        pair, bits = 2 * tile.arange((size + 1) // 2), tile.pad(bits, one_more)
        low, high = bits[..., pair], bits[..., pair + 1]
    else:
        low, high = bits[..., 0::2], bits[..., 1::2]
        high = tile.pad(high, one_more) if size % 2 else high
    return low | (high << 4)


@tile.kernel
def unpack(packed: Any, dtype: Any = tile.i4, size: Any = None) -> Any:
    """The integers of `dtype` (tile.i4 or tile.u4) in u8[..., B]: i8 or u8 of [..., size], by default 2 * B.

    Raises TileTypeError for another dtype, TileShapeError where `size` does not take B bytes.
    """
    packed, found = as_tensor(packed), _dtype("ops.unpack", dtype)
    if found.bits != 4:
        refuse_option("ops.unpack", "dtype", dtype, "tile.i4 or tile.u4", "integers of 8 bits are not packed")
    if packed.dtype not in (i8, u8):
        refuse(
            "ops-dtype", packed, name="ops.unpack", text=text_of(packed), dtype=packed.dtype,
            expected="bytes (u8 or i8)", fix="give bytes, as `ops.pack` does",
        )  # fmt: skip
    bytes_ = packed.shape[-1]
    length = 2 * bytes_ if size is None else size
    if isinstance(length, int) and isinstance(bytes_, int) and (length + 1) // 2 != bytes_:
        refuse_option("ops.unpack", "size", size, f"{2 * bytes_ - 1} or {2 * bytes_}", "two are in a byte")
    i, held = tile.arange(length), _held_in(found)
    return tile.nibble(packed[..., i // 2].to(held), i.to(held))


def _integers(name: str, q: Any, dtype: DType, size: Any) -> Any:
    """Quantised values, which `size` along their last axis, as integers of 8 bits."""
    if dtype.bits == 4:
        return unpack(q, dtype, size)
    if q.dtype != dtype:
        fix = f"give {dtype}, or `dtype=tile.{q.dtype}`"
        refuse("ops-dtype", q, name=name, text=text_of(q), dtype=q.dtype, expected=str(dtype), fix=fix)
    return q


def _spread(part: Any, axis: int, group: Any, size: Any, rank: int) -> Any:
    """A scale or a zero point for each element along an axis, in f32; they may be one for all of the axis."""
    if part.ndim == rank - 1:
        return part.reshape((*part.shape[:axis], 1, *part.shape[axis:])).to(tile.f32)
    return part[(slice(None),) * axis + (tile.arange(size) // group,)].to(tile.f32)


def _require_groups(name: str, part: Any, q: Any, shape: tuple[Any, ...], axis: int, group: Any) -> None:
    """Raises TileShapeError unless there is one of `part` for each group of a tensor of that shape."""
    count = 1 if group is None else -(-shape[axis] // group)
    one, each = (*shape[:axis], *shape[axis + 1 :]), (*shape[:axis], count, *shape[axis + 1 :])
    if tuple(part.shape) != each and not (count == 1 and tuple(part.shape) == one):
        reason = f"there is one for each group of {shape[axis] if group is None else group} along axis {axis}"
        refuse_shapes(name, part, q, reason, f"give it the shape {format_shape(each)}, or another `group`")


def _scales(wide: Any, dtype: DType) -> Any:
    """Scales in the dtype of what is quantised: at least its smallest normal number, whose neighbours are close; 1 for
    groups of zeros."""
    finfo: Any = ml_dtypes.finfo  # its stubs are generic
    least = float(finfo(to_numpy(dtype)).smallest_normal)
    return tile.where(wide == 0, 1.0, tile.maximum(wide, least)).to(dtype)


@tile.kernel
def quantise(x: Any, dtype: Any = tile.i8, group: Any = None, axis: int = -1, symmetric: bool = True) -> Any:
    """Integers and their scales: (q, scales), or (q, scales, zeros) if not `symmetric`.

    `x` is [..., K, ...] of floats with K along `axis`; q is x / scale + zero, rounded to the nearest even, of `dtype`
    (tile.i8, tile.u8, tile.i4, tile.u4), of 4 bits packed along its last axis (see `ops.pack`). `group`: how many
    neighbours along `axis` share a scale, all of them by default; the last group may be shorter. Scales have the
    dtype of `x`, zeros are i8 or u8 (unpacked): [..., ceil(K / group), ...]. Symmetric scales map the largest
    magnitude to 127 or 7; others the range that holds 0 to that of the dtype. A group of zeros has the scale 1.
    Raises TileTypeError for a symmetric unsigned dtype, a group that is no positive int, or integers.
    """
    name = "ops.quantise"
    x, found = as_tensor(x), _dtype(name, dtype)
    require_float(name, x)
    at = axis_of(name, x, axis)
    if symmetric and not found.is_signed:
        refuse_option(name, "symmetric", symmetric, "False for an unsigned dtype", "take a signed one, or zero points")
    size, (low, high) = x.shape[at], _limits(found)
    number = _group(name, group, size)
    wide = x.to(tile.f32)
    if group is None:
        parts = wide.reshape((*x.shape[:at], 1, size, *x.shape[at + 1 :]))
    else:
        whole = -(-size // number) * number
        padded = tile.pad(wide, tuple((0, whole - size if i == at else 0) for i in range(x.ndim)))
        parts = padded.reshape((*x.shape[:at], whole // number, number, *x.shape[at + 1 :]))
    if symmetric:
        scales = _scales(tile.max(tile.abs(parts), axis=at + 1) / high, x.dtype)
        q = tile.round(wide / _spread(scales, at, number, size, x.ndim))
        q = tile.clip(q, -high, high).to(_held_in(found))
        return (pack(q) if found.bits == 4 else q), scales
    least, most = tile.minimum(tile.min(parts, axis=at + 1), 0.0), tile.maximum(tile.max(parts, axis=at + 1), 0.0)
    scales = _scales((most - least) / (high - low), x.dtype)
    zeros = tile.clip(tile.round(-least / scales.to(tile.f32)) + low, low, high)
    q = tile.round(wide / _spread(scales, at, number, size, x.ndim)) + _spread(zeros, at, number, size, x.ndim)
    q = tile.clip(q, low, high).to(_held_in(found))
    return (pack(q) if found.bits == 4 else q), scales, zeros.to(_held_in(found))


@tile.kernel
def dequantise(
    q: Any, scales: Any, zeros: Any = None, dtype: Any = None, group: Any = None, axis: int = -1, size: Any = None
) -> Any:
    """(q - zero) * scale in the dtype of `scales`, computed in f32 and rounded once: what `quantise` was given, nearly.

    `q`: i8 or u8 of [..., K, ...], or packed integers of 4 bits; then `dtype` is tile.i4 or tile.u4, and `size` how
    many there are along the last axis (by default two in each byte). `scales` and `zeros` (integers or floats, or one
    number): [..., ceil(K / group), ...]; without the axis where all of it is one group.
    Raises TileTypeError or TileShapeError for what does not fit.
    """
    name = "ops.dequantise"
    q, scales = as_tensor(q), as_tensor(scales)
    require_float(name, scales)
    values = _integers(name, q, _dtype(name, q.dtype if dtype is None else dtype), size)
    at = axis_of(name, values, axis)
    return _real(name, q, values, scales, zeros, at, group).to(scales.dtype)


def _real(name: str, q: Any, values: Any, scales: Any, zeros: Any, axis: int, group: Any) -> Any:
    """(values - zeros) * scales in f32."""
    length = values.shape[axis]
    number = _group(name, group, length)
    _require_groups(name, scales, q, values.shape, axis, group)
    real = values.to(tile.f32)
    if zeros is not None and not isinstance(zeros, Real):
        zeros = as_tensor(zeros)
        _require_groups(name, zeros, q, values.shape, axis, group)
        real = real - _spread(zeros, axis, number, length, values.ndim)
    elif zeros:
        real = real - float(zeros)
    return real * _spread(scales, axis, number, length, values.ndim)


@tile.kernel
def quantised_linear(
    x: Any, weight: Any, scales: Any, zeros: Any = None, bias: Any = None, dtype: Any = None, group: Any = None
) -> Any:
    """y[..., N] = sum over k of x[..., k] * (q[n, k] - zero) * scale, plus bias[n], in the dtype of `x`.

    `x` is [..., K] of floats, `weight` i8 or u8 [N, K], or u8 [N, (K + 1) // 2] with `dtype` tile.i4 or tile.u4: packed
    as by `ops.pack`. `scales` are [N, ceil(K / group)] floats, or [N] (no group); `zeros` are as many, or one number;
    `bias` is [N]. Weights are computed in f32 and rounded to the dtype of `x` where matrix instructions take them; the
    sum is in f32. Raises TileTypeError or TileShapeError for what does not fit.
    """
    name = "ops.quantised_linear"
    x, weight, scales = as_tensor(x), as_tensor(weight), as_tensor(scales)
    require_float(name, x)
    require_float(name, scales)
    found = _dtype(name, weight.dtype if dtype is None else dtype)
    if weight.ndim != 2:
        refuse_rank(name, weight, "[out, in]", "give a weight of rank 2")
    size = x.shape[-1] if x.ndim else 0
    if weight.shape[1] != (size if found.bits == 8 else (size + 1) // 2):
        packed = "two to a byte" if found.bits == 4 else "one to a byte"
        reason = f"weights of {found} are {packed}"
        refuse_shapes(name, x, weight, reason, "give `dtype` as the weights are: tile.i4 and tile.u4 are packed")
    values = _integers(name, weight, found, size)
    if scales.ndim == 1 and zeros is None and group is None:
        _require_groups(name, scales, weight, values.shape, 1, None)
        y = tile.dot(x, values.to(x.dtype).mT) * scales.to(x.dtype)
    else:
        y = tile.dot(x, _real(name, weight, values, scales, zeros, 1, group).to(x.dtype).mT)
    if bias is not None:
        bias = as_tensor(bias)
        if tuple(bias.shape) != (weight.shape[0],):
            refuse_shapes(name, bias, weight, "there is one bias for each row of the weight", "give it [out]")
        y = y + bias.to(y.dtype)
    return y.to(x.dtype)

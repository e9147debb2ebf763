"""Sums of rows of a table, and counts (`EmbeddingBag`, `histc`)."""

from __future__ import annotations

from typing import Any

from tiledsl import ops, tile
from tiledsl.importers.torch.operators.folds import norm_of
from tiledsl.importers.torch.register import aten
from tiledsl.ir.dtypes import bool_, i64
from tiledsl.ops.checks import as_tensor, widened


@aten("embedding_bag", "default", "padding_idx")
@aten("_embedding_bag")
@aten("_embedding_bag_forward_only")
def embedding_bag(
    weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False,
    per_sample_weights: Any = None, include_last_offset: bool = False, padding_idx: Any = -1, *,
    deterministic: bool = False,
) -> Any:  # fmt: skip
    """The sum, mean or maximum of the rows of each bag, which begins at its offset; also which bag a row is of, and
    how many rows a bag has. Those at `padding_idx` do not count, and a bag of nothing gives zeros."""
    weight, indices, offsets = as_tensor(weight), as_tensor(indices), as_tensor(offsets)
    bags = offsets.shape[0] - (1 if include_last_offset else 0)
    bag = ops.searchsorted(offsets, tile.arange(indices.shape[0]), True) - 1
    bag = tile.where(bag < bags, bag, bags - 1)
    held = bag
    if padding_idx is not None and padding_idx >= 0:
        held = tile.where(indices == padding_idx, bags, bag)  # outside: dropped
    rows = widened(tile.take(weight, indices, axis=0))
    if per_sample_weights is not None:
        rows = rows * as_tensor(per_sample_weights)[:, None]
    nothing = tile.zeros((bags, weight.shape[1]), rows.dtype)
    counts = ops.index_put(tile.zeros((bags,), i64), (held,), tile.ones(indices.shape, i64), True)
    if mode == 2:
        places = tile.broadcast_to(held[:, None], rows.shape)
        y = ops.scatter(nothing, places, rows, 0, reduce="max", include_self=False)
    else:
        y = ops.index_put(nothing, (held,), rows, True, deterministic=deterministic)
    if mode == 1:
        y = y / tile.maximum(counts, 1)[:, None].to(y.dtype)
    return y.to(weight.dtype), bag, counts, counts


@aten("embedding_renorm")
def embedding_renorm(weight: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    """The table with the rows that are read scaled down to a norm of at most `max_norm`."""
    weight = as_tensor(weight)
    wide = widened(weight)
    size = norm_of(tile.abs(wide), float(norm_type), (1,), True)
    nothing = tile.zeros((weight.shape[0],), i64)
    indices = as_tensor(indices).flatten()
    read = ops.index_put(nothing, (indices,), tile.ones(indices.shape, i64), True) > 0
    scaled = wide * (max_norm / (size + 1e-7))
    return tile.where(read[:, None] & (size > max_norm), scaled, wide).to(weight.dtype)


def _counted(x: Any, bins: int, low: Any, high: Any, weight: Any = None) -> Any:
    """How many elements are in each of the bins from `low` to `high`; the last has its upper end."""
    place = tile.floor((x - low) / ((high - low) / bins)).to(i64)
    place = tile.where(x == high, bins - 1, tile.minimum(place, bins - 1))
    place = tile.where((x >= low) & (x <= high), place, bins)  # outside: dropped
    added = tile.ones(x.shape, x.dtype) if weight is None else weight
    return ops.index_put(tile.zeros((bins,), x.dtype), (place,), added, True)


def _ends(x: Any, low: Any, high: Any, margin: float) -> tuple[Any, Any]:
    """The ends that are given; those of the elements if they are the same, and `margin` to each side of one value."""
    if low == high:
        low, high = tile.min(x), tile.max(x)
        alike = low == high
        return tile.where(alike, low - margin, low), tile.where(alike, high + margin, high)
    return low, high


@aten("histc")
def histc(x: Any, bins: int = 100, min: Any = 0, max: Any = 0) -> Any:
    x = as_tensor(x)
    wide = widened(x.flatten())
    return _counted(wide, bins, *_ends(wide, min, max, 1.0)).to(x.dtype)


@aten("histogram", "bin_ct")
def histogram(x: Any, bins: int = 100, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    """The counts and the ends of the bins."""
    x = as_tensor(x)
    wide = widened(x.flatten())
    first, last = (0, 0) if range is None else range
    low, high = _ends(wide, first, last, 0.5)
    step = (high - low) / bins
    counts = _counted(wide, bins, low, high, None if weight is None else widened(as_tensor(weight).flatten()))
    if density:
        counts = counts / (tile.sum(counts) * step)
    turns = tile.arange(bins + 1).to(wide.dtype)
    edges = tile.where(turns == bins, high, turns * step + low)
    return counts.to(x.dtype), edges.to(x.dtype)


@aten("fake_quantize_per_tensor_affine", "default", "tensor_qparams")
def fake_quantize(x: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Any:
    return fake_quantize_cachemask(x, scale, zero_point, quant_min, quant_max)[0]


@aten("fake_quantize_per_tensor_affine_cachemask")
def fake_quantize_cachemask(x: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Any:
    """Rounded to steps of `scale` and back again; also which elements were within the range."""
    x = as_tensor(x)
    wide = widened(x)
    scale = scale if isinstance(scale, float) else as_tensor(scale).to(wide.dtype)
    zero = zero_point if isinstance(zero_point, int) else as_tensor(zero_point).to(wide.dtype)
    steps = tile.round(wide * (1.0 / scale)) + zero
    kept = tile.minimum(tile.maximum(steps, float(quant_min)), float(quant_max))
    mask = (steps >= quant_min) & (steps <= quant_max)
    return ((kept - zero) * scale).to(x.dtype), mask.to(bool_)


@aten("fake_quantize_per_channel_affine")
def fake_quantize_per_channel(
    x: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int
) -> Any:  # fmt: skip
    return fake_quantize_per_channel_cachemask(x, scale, zero_point, axis, quant_min, quant_max)[0]


@aten("fake_quantize_per_channel_affine_cachemask")
def fake_quantize_per_channel_cachemask(
    x: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int
) -> Any:
    x = as_tensor(x)
    shape = tuple(-1 if i == axis % x.ndim else 1 for i in range(x.ndim))
    scale, zero = as_tensor(scale).reshape(shape), as_tensor(zero_point).reshape(shape)
    return fake_quantize_cachemask(x, scale, zero, quant_min, quant_max)

"""Transposed convolutions: each element of an image adds the weights, times itself, to the result.

With a stride of s, element q * s + r of the result sees the weights r, r + s, r + 2 * s ... alone, and all residues r
see the same window of the image. So it is one convolution without a stride, with s times the channels, whose results
are put beside each other: nothing is multiplied with zeros between elements, and there is no condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiledsl import tile
from tiledsl.ops.checks import as_tensor, refuse_option, refuse_rank, refuse_shapes, require_float
from tiledsl.ops.images.axes import image_axes, is_channels_first, padded, padding_of, per_axis
from tiledsl.ops.images.convolution import checked_groups, in_groups, out_of_groups, with_bias


@tile.kernel
def conv_transpose1d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: Any = 1,
    dilation: Any = 1, *, layout: Any = None,
) -> Any:  # fmt: skip
    """`conv_transpose2d` of one axis: `x` is [N, C, W], `weight` [C, K / groups, R]; of `layout="NWC"` [N, W, C] and
    [C, R, K / groups]."""
    name = "ops.conv_transpose1d"
    return _transposed(name, 1, x, weight, bias, stride, padding, output_padding, groups, dilation, layout)


@tile.kernel
def conv_transpose2d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: Any = 1,
    dilation: Any = 1, *, layout: Any = None,
) -> Any:  # fmt: skip
    """y[n, k, h * stride + r * dilation - padding, ...] += x[n, c, h, w] * weight[c, k, r, s], and bias[k].

    `x` is [N, C, H, W], `weight` [C, K / groups, R, S], the result [N, K, P, Q] with P = (H - 1) * stride + dilation *
    (R - 1) + 1 - padding + output_padding. `layout="NHWC"`: [N, H, W, C], [C, R, S, K / groups] and [N, P, Q, K].
    `bias` is [K]. `padding` is taken away from the result (a negative one adds zeros): an int, a pair, or two pairs
    (before, after); `output_padding` is more of the result at its end. All floats of one dtype; summed in f32 for
    narrow floats and rounded once. Raises TileShapeError if sizes do not fit.
    """
    name = "ops.conv_transpose2d"
    return _transposed(name, 2, x, weight, bias, stride, padding, output_padding, groups, dilation, layout)


@tile.kernel
def conv_transpose3d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: Any = 1,
    dilation: Any = 1, *, layout: Any = None,
) -> Any:  # fmt: skip
    """`conv_transpose2d` of three axes: `x` is [N, C, D, H, W], `weight` [C, K / groups, T, R, S]; of
    `layout="NDHWC"` [N, D, H, W, C] and [C, T, R, S, K / groups]."""
    name = "ops.conv_transpose3d"
    return _transposed(name, 3, x, weight, bias, stride, padding, output_padding, groups, dilation, layout)


def _transposed(
    name: str, rank: int, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: Any,
    dilation: Any, layout: Any,
) -> Any:  # fmt: skip
    x, weight = as_tensor(x), as_tensor(weight)
    first = is_channels_first(name, layout, rank)
    axes = image_axes(name, x, layout, rank)
    require_float(name, x)
    if weight.ndim != rank + 2:
        sizes = {1: "R", 2: "R, S", 3: "T, R, S"}[rank]
        expected = f"[C, K / groups, {sizes}]" if first else f"[C, {sizes}, K / groups]"
        refuse_rank(name, weight, expected, f"give a weight of rank {rank + 2}")
    if not first:
        weight = weight.transpose((0, rank + 1, *range(1, rank + 1)))
    channels = x.shape[1 if first else -1]
    groups = checked_groups(name, groups, channels, "input")
    if channels != weight.shape[0]:
        reason = f"{channels} channels are not the {weight.shape[0]} of the weight"
        refuse_shapes(name, x, weight, reason, "the weight has the channels of `x` on its first axis")
    steps = per_axis(name, "stride", stride, 1, rank)
    dilations = per_axis(name, "dilation", dilation, 1, rank)
    extra = per_axis(name, "output_padding", output_padding, 0, rank)
    image = [x.shape[axis] for axis in axes]
    sizes = weight.shape[2:]
    cuts = padding_of(name, padding, image, sizes, steps, dilations, least=None)
    extents = [d * (size - 1) + 1 for d, size in zip(dilations, sizes)]
    results = [
        (n - 1) * s + extent - sum(cut) + more
        for n, s, extent, cut, more in zip(image, steps, extents, cuts, extra)
    ]  # fmt: skip
    if any(isinstance(n, int) and n < 1 for n in results):
        refuse_option(name, "padding", padding, "less than the whole result", "take less of it away")
    taps, spread = _by_residue(weight, steps, dilations)
    source, parts = x, (weight.shape[0], weight.shape[1])
    source_axes = axes
    if groups > 1:
        source, parts = in_groups(x, groups, first), (groups, weight.shape[0] // groups, weight.shape[1])
        source_axes = tuple(axis + first for axis in axes)
    taps = taps.reshape((*parts, *taps.shape[2:]))
    counts = taps.shape[len(parts) :: 2]
    widths: list[tuple[Any, Any]] = []
    for s, d, count, extent, (low, high), more in zip(steps, spread, counts, extents, cuts, extra):
        widths.append(((count - 1) * d - low // s, (extent - high + more - 1) // s))
    windows = tile.window(padded(source, source_axes, tuple(widths), 0), tuple(counts), source_axes, 1, spread)
    y = tile.einsum(_form(rank, first, groups > 1), windows, taps)
    y = _interleaved(y, source_axes, first)
    kept = [slice(None)] * y.ndim
    for axis, length, s, (low, _) in zip(source_axes, results, steps, cuts):
        kept[axis] = slice(low % s, low % s + length)
    y = with_bias(name, y[tuple(kept)], bias, weight, groups, first)
    return out_of_groups(y.to(x.dtype), groups, first)


def _by_residue(weight: Any, steps: Sequence[int], dilations: Sequence[int]) -> tuple[Any, tuple[int, ...]]:
    """Weights [C, K, R, S] as [C, K, taps, residues, taps, residues], the last tap first, and the steps between taps.

    Where there is a stride the holes of a dilation are written as zeros.
    """
    shape: list[Any] = list(weight.shape[:2])
    spread: list[int] = []
    for axis, (s, d) in enumerate(zip(steps, dilations), 2):
        size = weight.shape[axis]
        if s > 1 and d > 1:
            weight = _with_holes(weight, axis, d)
            size = weight.shape[axis]
        count = -(-size // s)
        if count * s != size:
            weight = tile.pad(weight, tuple((0, count * s - size if i == axis else 0) for i in range(weight.ndim)))
        shape += [count, s]
        spread.append(d if s == 1 else 1)
    weight = weight.reshape(tuple(shape))
    backwards = tuple(slice(None, None, -1) if i >= 2 and i % 2 == 0 else slice(None) for i in range(weight.ndim))
    return weight[backwards], tuple(spread)


def _with_holes(x: Any, axis: int, step: int) -> Any:
    """`x` with `step - 1` zeros between the elements of an axis."""
    size = x.shape[axis]
    apart = tile.pad(x[..., None], ((0, 0),) * x.ndim + ((0, step - 1),))
    order = (*range(axis + 1), x.ndim, *range(axis + 1, x.ndim))
    joined = apart.transpose(order).reshape((*x.shape[:axis], size * step, *x.shape[axis + 1 :]))
    return joined[tuple(slice(0, (size - 1) * step + 1) if i == axis else slice(None) for i in range(x.ndim))]


def _form(rank: int, first: bool, grouped: bool) -> str:
    """The product, by axes; of the result, each position is followed by its residue."""
    positions, within, residues, group = "pqo"[:rank], "rst"[:rank], "uvw"[:rank], "g " if grouped else ""
    weights = " ".join(a + " " + b for a, b in zip(within, residues))
    result = " ".join(a + " " + b for a, b in zip(positions, residues))
    places, inside = " ".join(positions), " ".join(within)
    if first:
        return f"n {group}c {places} {inside}, {group}c k {weights} -> n {group}k {result}"
    return f"n {places} {group}c {inside}, {group}c k {weights} -> n {result} {group}k"


def _interleaved(y: Any, axes: Sequence[int], first: bool) -> Any:
    """Each position with its residue as one axis."""
    start = axes[0]
    rank = len(axes)
    sizes = y.shape[start : start + 2 * rank]
    merged = [sizes[2 * i] * sizes[2 * i + 1] for i in range(rank)]
    return y.reshape((*y.shape[:start], *merged, *y.shape[start + 2 * rank :]))

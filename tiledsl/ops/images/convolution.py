"""Convolutions of images of one, two and three axes."""

from __future__ import annotations

from typing import Any

from tiledsl import tile
from tiledsl.ops.checks import as_tensor, refuse_option, refuse_rank, refuse_shapes, require_float
from tiledsl.ops.images.axes import SPATIAL, image_axes, is_channels_first, outside, padded, padding_of, per_axis

_POSITIONS, _WITHIN = "pqo", "rst"
"""Names of the axes of positions, and of those within a window, in products."""


@tile.kernel
def conv1d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: Any = 1, *,
    layout: Any = None,
) -> Any:  # fmt: skip
    """`conv2d` of one axis: `x` is [N, C, W] and `weight` [K, C / groups, R]; [N, W, C] and [K, R, C / groups]
    of `layout="NWC"`."""
    return convolve("ops.conv1d", 1, x, weight, bias, stride, padding, dilation, groups, layout)


@tile.kernel
def conv2d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: Any = 1, *,
    layout: Any = None,
) -> Any:  # fmt: skip
    """y[n, k, p, q] = bias[k] + sum over c, r, s of x[n, c, p * stride + r * dilation, ...] * weight[k, c, r, s].

    `layout="NCHW"` (the default): `x` is [N, C, H, W], `weight` [K, C / groups, R, S], the result [N, K, P, Q].
    `layout="NHWC"`: `x` is [N, H, W, C], `weight` [K, R, S, C / groups], the result [N, P, Q, K]. `bias` is [K].
    P = (H + padding - dilation * (R - 1) - 1) // stride + 1. `stride` and `dilation` are ints or pairs (height, width);
    `padding` (zeros around `x`) an int, a pair, two pairs (before, after), "valid" (none) or "same" (P = ceil(H /
    stride)). Output channels K / groups * g on see the input channels C / groups * g on.
    All floats of one dtype; summed in f32 for narrow floats, bias included, and rounded once to that dtype.
    Raises TileShapeError if sizes do not fit.
    """
    return convolve("ops.conv2d", 2, x, weight, bias, stride, padding, dilation, groups, layout)


@tile.kernel
def conv3d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: Any = 1, *,
    layout: Any = None,
) -> Any:  # fmt: skip
    """`conv2d` of three axes: `x` is [N, C, D, H, W] and `weight` [K, C / groups, T, R, S]; [N, D, H, W, C] and
    [K, T, R, S, C / groups] of `layout="NDHWC"`."""
    return convolve("ops.conv3d", 3, x, weight, bias, stride, padding, dilation, groups, layout)


def convolve(
    name: str, rank: int, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: Any,
    layout: Any,
) -> Any:  # fmt: skip
    """A convolution of `rank` axes: the product of the windows with the weights."""
    x, weight = as_tensor(x), as_tensor(weight)
    first = is_channels_first(name, layout, rank)
    axes = image_axes(name, x, layout, rank)
    require_float(name, x)
    if weight.ndim != rank + 2:
        refuse_rank(name, weight, weight_text(rank, first), f"give a weight of rank {rank + 2}")
    inner, outer = weight.shape[1 if first else -1], weight.shape[0]
    groups = checked_groups(name, groups, outer, "output")
    channels = x.shape[1 if first else -1]
    if channels != inner * groups:
        reason = f"{channels} channels are not {groups} groups of {inner}"
        refuse_shapes(name, x, weight, reason, f"the layout is {layout or 'NC' + SPATIAL[rank]}: see the weight's")
    sizes = weight.shape[2:] if first else weight.shape[1:-1]
    steps = per_axis(name, "stride", stride, 1, rank)
    dilations = per_axis(name, "dilation", dilation, 1, rank)
    widths = padding_of(name, padding, [x.shape[axis] for axis in axes], sizes, steps, dilations)
    if outside(x, axes, widths, sizes, dilations) is not None:
        refuse_shapes(name, x, weight, "the window is larger than the padded image", "pad it, or use a smaller window")
    source = x
    if groups > 1:
        source = in_groups(source, groups, first)
        weight = weight.reshape((groups, outer // groups, *weight.shape[1:]))
        axes = tuple(axis + first for axis in axes)
    source = padded(source, axes, widths, 0)
    windows = tile.window(source, tuple(sizes), axes, steps, dilations)
    y = with_bias(name, tile.einsum(_form(rank, first, groups > 1), windows, weight), bias, weight, groups, first)
    return out_of_groups(y.to(x.dtype), groups, first)


def _form(rank: int, first: bool, grouped: bool) -> str:
    """The product, by axes: "n c p q r s, k c r s -> n k p q" of images with channels first."""
    positions, within, group = " ".join(_POSITIONS[:rank]), " ".join(_WITHIN[:rank]), "g " if grouped else ""
    if first:
        return f"n {group}c {positions} {within}, {group}k c {within} -> n {group}k {positions}"
    return f"n {positions} {group}c {within}, {group}k {within} c -> n {positions} {group}k"


def weight_text(rank: int, first: bool) -> str:
    """The shape of weights, for messages."""
    sizes = {1: "R", 2: "R, S", 3: "T, R, S"}[rank]
    return f"[K, C / groups, {sizes}]" if first else f"[K, {sizes}, C / groups]"


def checked_groups(name: str, groups: Any, channels: Any, which: str) -> int:
    """The number of groups. Raises TileTypeError unless it divides the channels."""
    if not isinstance(groups, int) or groups < 1 or channels % groups:
        refuse_option(name, "groups", groups, f"a divisor of the {channels} {which} channels", "use 1 for one group")
    return groups


def in_groups(x: Any, groups: int, first: bool) -> Any:
    """Images with an axis of groups before that of the channels."""
    at = 1 if first else x.ndim - 1
    return x.reshape((*x.shape[:at], groups, x.shape[at] // groups, *x.shape[at + 1 :]))


def out_of_groups(y: Any, groups: int, first: bool) -> Any:
    """Images with groups and channels as one axis again."""
    if groups == 1:
        return y
    at = 1 if first else y.ndim - 2
    return y.reshape((*y.shape[:at], y.shape[at] * y.shape[at + 1], *y.shape[at + 2 :]))


def with_bias(name: str, y: Any, bias: Any, weight: Any, groups: int, first: bool) -> Any:
    """The sums plus the bias of each channel, which are one axis, or two where there are groups."""
    if bias is None:
        return y
    bias = as_tensor(bias)
    grouped = groups > 1
    at = 1 if first else y.ndim - 1 - grouped
    parts = y.shape[at : at + 1 + grouped]
    outer = parts[0] * parts[-1] if grouped else parts[0]
    if bias.shape != (outer,):
        refuse_shapes(name, bias, weight, "there is one bias for each output channel", f"give it [{outer}]")
    return y + bias.to(y.dtype).reshape((*parts, *((1,) * (y.ndim - at - len(parts)))))

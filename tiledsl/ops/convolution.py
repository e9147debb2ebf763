"""Convolutions of images."""

from __future__ import annotations

from typing import Any

from tiledsl import tile
from tiledsl.ops.checks import as_tensor, refuse_option, refuse_rank, refuse_shapes, require_float
from tiledsl.ops.images import image_axes, padded, padding_of, strides_of

_FORMS = {
    ("NCHW", False): "n c p q r s, k c r s -> n k p q",
    ("NHWC", False): "n p q c r s, k r s c -> n p q k",
    ("NCHW", True): "n g c p q r s, g k c r s -> n g k p q",
    ("NHWC", True): "n p q g c r s, g k r s c -> n p q g k",
}
"""The product by layout, and whether there are groups."""


@tile.kernel
def conv2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: Any = 1,
    *,
    layout: str = "NCHW",
) -> Any:
    """y[n, k, p, q] = bias[k] + sum over c, r, s of x[n, c, p * stride + r * dilation, ...] * weight[k, c, r, s].

    `layout="NCHW"`: `x` is [N, C, H, W], `weight` [K, C / groups, R, S], the result [N, K, P, Q].
    `layout="NHWC"`: `x` is [N, H, W, C], `weight` [K, R, S, C / groups], the result [N, P, Q, K]. `bias` is [K].
    P = (H + padding - dilation * (R - 1) - 1) // stride + 1. `stride` and `dilation` are ints or pairs (height, width);
    `padding` (zeros around `x`) an int, a pair, two pairs (before, after), "valid" (none) or "same" (P = ceil(H /
    stride)). Output channels K / groups * g on see the input channels C / groups * g on.
    All floats of one dtype; summed in f32 for narrow floats, bias included, and rounded once to that dtype.
    Raises TileShapeError if sizes do not fit.
    """
    name = "ops.conv2d"
    x, weight = as_tensor(x), as_tensor(weight)
    axes = image_axes(name, x, layout)
    require_float(name, x)
    if weight.ndim != 4:
        expected = "[K, C / groups, R, S]" if layout == "NCHW" else "[K, R, S, C / groups]"
        refuse_rank(name, weight, expected, "give a weight of rank 4")
    channels, inner = (x.shape[1], weight.shape[1]) if layout == "NCHW" else (x.shape[3], weight.shape[3])
    outer = weight.shape[0]
    if not isinstance(groups, int) or groups < 1 or outer % groups:
        refuse_option(name, "groups", groups, f"a divisor of the {outer} output channels", "use 1 for one group")
    if channels != inner * groups:
        reason = f"{channels} channels are not {groups} groups of {inner}"
        refuse_shapes(name, x, weight, reason, f"the layout is {layout}; the weight has C / groups channels")
    sizes = weight.shape[2:] if layout == "NCHW" else weight.shape[1:3]
    steps, dilations = strides_of(name, "stride", stride), strides_of(name, "dilation", dilation)
    widths = padding_of(name, padding, [x.shape[axis] for axis in axes], sizes, steps, dilations)
    for axis, size, step, width in zip(axes, sizes, dilations, widths):
        length = x.shape[axis] + sum(width)
        if isinstance(length, int) and length < (size - 1) * step + 1:
            reason = "the window is larger than the padded image"
            refuse_shapes(name, x, weight, reason, "pad it, or use a smaller window")
    source = x
    if groups > 1:
        parts = (groups, inner)
        source = x.reshape((*x.shape[:1], *parts, *x.shape[2:]) if layout == "NCHW" else (*x.shape[:3], *parts))
        weight = weight.reshape((groups, outer // groups, *weight.shape[1:]))
        axes = (3, 4) if layout == "NCHW" else axes
    source = padded(source, axes, widths, 0)
    windows = tile.window(source, tuple(sizes), axes, steps, dilations)
    y = tile.einsum(_FORMS[layout, groups > 1], windows, weight)
    if bias is not None:
        bias = as_tensor(bias)
        if bias.shape != (outer,):
            refuse_shapes(name, bias, weight, "there is one bias for each output channel", f"give it [{outer}]")
        parts = (groups, outer // groups) if groups > 1 else (outer,)
        y = y + bias.to(y.dtype).reshape((*parts, 1, 1) if layout == "NCHW" else parts)
    y = y.to(x.dtype)
    if groups > 1:
        y = y.reshape((y.shape[0], outer, *y.shape[3:]) if layout == "NCHW" else (*y.shape[:3], outer))
    return y

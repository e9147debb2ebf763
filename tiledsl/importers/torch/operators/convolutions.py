"""Convolutions of one to three axes, their transposes and their gradients."""

from __future__ import annotations

from typing import Any

from tiledsl import ops, tile
from tiledsl.importers.torch.operators.pooling import each
from tiledsl.importers.torch.register import aten
from tiledsl.ops.checks import as_tensor

_FORWARD = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}
_TRANSPOSED = {1: ops.conv_transpose1d, 2: ops.conv_transpose2d, 3: ops.conv_transpose3d}


def _widths(padding: Any, rank: int) -> Any:
    """A pair for each axis, unless it is a word."""
    return padding if isinstance(padding, str) else tuple((width, width) for width in each(padding, rank))


@aten("conv1d", "default", "padding")
@aten("conv2d", "default", "padding")
@aten("conv3d", "default", "padding")
def conv(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    x, weight = as_tensor(x), as_tensor(weight)
    rank = weight.ndim - 2
    if x.ndim == rank + 1:  # without a batch
        return conv(x[None], weight, bias, stride, padding, dilation, groups)[0]
    return _FORWARD[rank](x, weight, bias, each(stride, rank), _widths(padding, rank), each(dilation, rank), groups)


@aten("conv_transpose1d")
@aten("conv_transpose2d", "input")
@aten("conv_transpose3d", "input")
def conv_transpose(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Any:  # fmt: skip
    x, weight = as_tensor(x), as_tensor(weight)
    rank = weight.ndim - 2
    if x.ndim == rank + 1:
        return conv_transpose(x[None], weight, bias, stride, padding, output_padding, groups, dilation)[0]
    return _TRANSPOSED[rank](
        x, weight, bias, each(stride, rank), _widths(padding, rank), each(output_padding, rank), groups,
        each(dilation, rank),
    )  # fmt: skip


@aten("convolution")
@aten("_convolution")
def convolution(
    x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, output_padding: Any,
    groups: int, *_: Any,
) -> Any:  # fmt: skip
    if transposed:
        return conv_transpose(x, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv(x, weight, bias, stride, padding, dilation, groups)


@aten("convolution_backward")
def convolution_backward(
    grad: Any, x: Any, weight: Any, bias_sizes: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int, output_mask: Any,
) -> Any:  # fmt: skip
    """The gradients of the image (a transposed convolution, or a plain one), the weight and the bias."""
    grad, x, weight = as_tensor(grad), as_tensor(x), as_tensor(weight)
    rank = weight.ndim - 2
    steps, widths, spread = each(stride, rank), each(padding, rank), each(dilation, rank)
    of_x: Any = None
    if output_mask[0] and transposed:
        of_x = conv(grad, weight, None, steps, widths, spread, groups)
    elif output_mask[0]:
        # what a plain convolution leaves over at the end has no share in it
        left = [
            n - ((m - 1) * s - 2 * p + d * (r - 1) + 1)
            for n, m, s, p, d, r in zip(x.shape[2:], grad.shape[2:], steps, widths, spread, weight.shape[2:])
        ]
        of_x = conv_transpose(grad, weight, None, steps, widths, left, groups, spread)
    of_weight: Any = None
    if output_mask[1]:
        image, result = (grad, x) if transposed else (x, grad)
        of_weight = _of_weight(image, result, weight, steps, widths, spread, groups)
    axes = (0, *range(2, grad.ndim))
    of_bias = tile.sum(grad, axes).to(grad.dtype) if output_mask[2] else None
    return of_x, of_weight, of_bias


def _of_weight(image: Any, result: Any, weight: Any, steps: Any, widths: Any, spread: Any, groups: int) -> Any:
    """The sum over all positions of what the window holds times what comes of it: [K, C / groups, R, S]."""
    rank = weight.ndim - 2
    sizes = weight.shape[2:]
    parts = [v.reshape((v.shape[0], groups, v.shape[1] // groups, *v.shape[2:])) for v in (image, result)]
    padded = tile.pad(parts[0], (*((0, 0),) * 3, *((width, width) for width in widths)))
    windows = tile.window(padded, sizes, tuple(range(3, 3 + rank)), steps, spread)
    counts = parts[1].shape[3:]
    windows = windows[(slice(None),) * 3 + tuple(slice(0, n) for n in counts)]
    at, within = " ".join("pqo"[:rank]), " ".join("rst"[:rank])
    total = tile.einsum(f"n g c {at} {within}, n g k {at} -> g k c {within}", windows, parts[1])
    return total.reshape(weight.shape).to(weight.dtype)

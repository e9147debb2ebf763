"""Convolutions."""

from __future__ import annotations

from typing import Any

from tiledsl import ops
from tiledsl.frontend.trace.trace_shapes import entries_of
from tiledsl.importers.torch.register import aten
from tiledsl.ops.checks import as_tensor, refuse_option


def _each(value: Any, count: int) -> list[Any]:
    """One number for each axis, of a list that may have one for all."""
    entries = list(entries_of(value))
    return entries * count if len(entries) == 1 else entries


@aten("conv1d", "default", "padding")
@aten("conv2d", "default", "padding")
@aten("conv3d", "default", "padding")
def conv(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    x, weight = as_tensor(x), as_tensor(weight)
    if x.ndim == weight.ndim - 1:  # without a batch
        return conv(x[None], weight, bias, stride, padding, dilation, groups)[0]
    count = weight.ndim - 2
    if count == 1:
        widths = padding if isinstance(padding, str) else [0, _each(padding, 1)[0]]
        steps, spread = [1, _each(stride, 1)[0]], [1, _each(dilation, 1)[0]]
        return ops.conv2d(x[:, :, None], weight[:, :, None], bias, steps, widths, spread, groups)[:, :, 0]
    if count == 3:
        refuse_option("conv3d", "weight", "of three axes", "one or two", "there is none yet")
    widths = padding if isinstance(padding, str) else _each(padding, count)
    return ops.conv2d(x, weight, bias, _each(stride, count), widths, _each(dilation, count), groups)


@aten("convolution")
@aten("_convolution")
def convolution(
    x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, output_padding: Any,
    groups: int, *_: Any,
) -> Any:  # fmt: skip
    if transposed:
        refuse_option("convolution", "transposed", transposed, "False", "there is none yet")
    return conv(x, weight, bias, stride, padding, dilation, groups)

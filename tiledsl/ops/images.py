"""What ops of images have in common: layouts, strides, padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from tiledsl import tile
from tiledsl.ops.checks import pair, refuse_option, refuse_rank

Widths = tuple[tuple[int, int], tuple[int, int]]
"""What is added before and after the rows, and before and after the columns."""


def image_axes(name: str, x: Any, layout: str) -> tuple[int, int]:
    """The axes of height and width. Raises TileShapeError unless `x` is a batch of images."""
    if layout not in ("NCHW", "NHWC"):
        refuse_option(name, "layout", layout, '"NCHW" or "NHWC"', 'use "NCHW"')
    if x.ndim != 4:
        refuse_rank(name, x, f"{layout}", "give one axis each for batch, channels, height and width: `x[None]`")
    return (2, 3) if layout == "NCHW" else (1, 2)


def strides_of(name: str, parameter: str, value: Any) -> tuple[int, int]:
    """Steps along height and width, 1 or more."""
    return pair(name, parameter, value, 1)


def padding_of(
    name: str, padding: Any, image: Sequence[Any], sizes: Sequence[int], strides: Sequence[int],
    dilations: Sequence[int],
) -> Widths:  # fmt: skip
    """The widths that `padding` says: an int, a pair, two pairs, "valid" or "same"."""
    if isinstance(padding, str):
        if padding not in ("valid", "same"):
            _refuse(name, padding)
        if padding == "valid":
            return (0, 0), (0, 0)
        found: list[tuple[int, int]] = []
        for length, size, stride, dilation in zip(image, sizes, strides, dilations):
            total = max((-(-length // stride) - 1) * stride + (size - 1) * dilation + 1 - length, 0)
            found.append((total // 2, total - total // 2))
        return found[0], found[1]
    entries: Any = padding
    if isinstance(padding, (tuple, list)) and all(isinstance(e, (tuple, list)) for e in cast("Sequence[Any]", padding)):
        if len(entries) != 2 or any(len(e) != 2 or any(not isinstance(n, int) or n < 0 for n in e) for e in entries):
            _refuse(name, entries)
        return tuple(entries[0]), tuple(entries[1])
    height, width = pair(name, "padding", padding, 0)
    return (height, height), (width, width)


def _refuse(name: str, padding: Any) -> None:
    expected = 'an int, a pair, two pairs (before, after), "valid" or "same"'
    refuse_option(name, "padding", padding, expected, "give one int for all sides")


def padded(x: Any, axes: tuple[int, int], widths: Widths, value: float) -> Any:
    """`x` with `value` around height and width."""
    each = [(0, 0)] * x.ndim
    for axis, width in zip(axes, widths):
        each[axis] = width
    return tile.pad(x, tuple(each), value)

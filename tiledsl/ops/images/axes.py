"""What ops of images have in common: layouts, strides, padding.

An image has one to three axes of its own (width; height and width; depth, height and width), beside its batch and its
channels. What there is for each axis is an int, or one for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from tiledsl import tile
from tiledsl.ops.checks import refuse_option, refuse_rank

Widths = tuple[tuple[Any, Any], ...]
"""What is added before and after each axis of an image."""

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
COUNTS = {1: "one of them in a tuple", 2: "two of them", 3: "three of them"}


def layouts_of(rank: int) -> tuple[str, str]:
    """The names of both layouts: channels before the axes of the image, or after them."""
    return f"NC{SPATIAL[rank]}", f"N{SPATIAL[rank]}C"


def is_channels_first(name: str, layout: str | None, rank: int) -> bool:
    """Which of both layouts it is; None means channels first. Raises TileTypeError for another one."""
    first, last = layouts_of(rank)
    if layout not in (None, first, last):
        refuse_option(name, "layout", layout, f'"{first}" or "{last}"', f'use "{first}"')
    return layout != last


def image_axes(name: str, x: Any, layout: str | None, rank: int) -> tuple[int, ...]:
    """The axes of the image. Raises TileShapeError unless `x` is a batch of images."""
    first = is_channels_first(name, layout, rank)
    if x.ndim != rank + 2:
        expected = layouts_of(rank)[not first]
        refuse_rank(name, x, expected, "give one axis each for batch and channels, beside the image's: `x[None]`")
    return tuple(range(2, rank + 2) if first else range(1, rank + 1))


def per_axis(name: str, parameter: str, value: Any, least: int | None, rank: int) -> tuple[int, ...]:
    """One int for all axes of an image, or one for each; none below `least`. Raises TileTypeError."""
    values = cast("Any", (value,) * rank if isinstance(value, int) else value)
    fits = isinstance(values, (tuple, list)) and len(cast("Any", values)) == rank
    if not fits or not all(isinstance(v, int) and (least is None or v >= least) for v in cast("Any", values)):
        least_text = "an int" if least is None else f"an int from {least} on"
        refuse_option(name, parameter, value, f"{least_text}, or {COUNTS[rank]}", "give one for each axis of the image")
    return tuple(cast("Sequence[int]", values))


def padding_of(
    name: str, padding: Any, image: Sequence[Any], sizes: Sequence[int], strides: Sequence[int],
    dilations: Sequence[int], *, least: int | None = 0,
) -> Widths:  # fmt: skip
    """The widths that `padding` says: an int, one for each axis, a pair for each axis, "valid" or "same"."""
    rank = len(image)
    if isinstance(padding, str):
        if padding not in ("valid", "same"):
            _refuse(name, padding, rank)
        if padding == "valid":
            return ((0, 0),) * rank
        found: list[tuple[int, int]] = []
        for length, size, stride, dilation in zip(image, sizes, strides, dilations):
            total = max((-(-length // stride) - 1) * stride + (size - 1) * dilation + 1 - length, 0)
            found.append((total // 2, total - total // 2))
        return tuple(found)
    entries: Any = padding
    if isinstance(padding, (tuple, list)) and all(isinstance(e, (tuple, list)) for e in cast("Sequence[Any]", padding)):
        numbers = [n for e in entries for n in e]
        fits = len(entries) == rank and all(len(e) == 2 for e in entries)
        if not fits or not all(isinstance(n, int) and (least is None or n >= least) for n in numbers):
            _refuse(name, entries, rank)
        return tuple((before, after) for before, after in entries)
    return tuple((n, n) for n in per_axis(name, "padding", padding, least, rank))


def _refuse(name: str, padding: Any, rank: int) -> None:
    pairs = {1: "an int, a pair in a tuple (before, after)", 2: "an int, a pair, two pairs (before, after)"}
    expected = f'{pairs.get(rank, "an int, three, three pairs (before, after)")}, "valid" or "same"'
    refuse_option(name, "padding", padding, expected, "give one int for all sides")


def padded(x: Any, axes: Sequence[int], widths: Widths, value: float) -> Any:
    """`x` with `value` around the axes of the image; a negative width takes elements away."""
    each: list[tuple[Any, Any]] = [(0, 0)] * x.ndim
    kept = [slice(None)] * x.ndim
    for axis, (before, after) in zip(axes, widths):
        cut = [max(-n, 0) if isinstance(n, int) else 0 for n in (before, after)]
        kept[axis] = slice(cut[0], x.shape[axis] - cut[1])
        each[axis] = before + cut[0], after + cut[1]
    if any(entry != slice(None) for entry in kept):
        x = x[tuple(kept)]
    return tile.pad(x, tuple(each), value)


def outside(x: Any, axes: Sequence[int], widths: Widths, sizes: Sequence[Any], dilations: Sequence[int]) -> Any:
    """The length of the first padded axis in which no window lies; None if all have one, as far as is known."""
    for axis, size, step, width in zip(axes, sizes, dilations, widths):
        length = x.shape[axis] + sum(width)
        if isinstance(length, int) and length < (size - 1) * step + 1:
            return length
    return None

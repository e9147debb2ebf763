"""What is put around tensors: a number, or their own elements."""

from __future__ import annotations

from typing import Any, cast

from tiledsl import tile
from tiledsl.frontend.trace.trace_shapes import entries_of
from tiledsl.ops.checks import as_tensor, refuse_option
from tiledsl.ops.images.axes import padded

MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


@tile.kernel
def pad(x: Any, widths: Any, value: Any = 0, *, mode: str = "constant") -> Any:
    """`x` with something around it. `widths` is one int, one pair, or a pair for each axis, as in NumPy.

    A negative width takes elements away. `mode`: "constant" puts `value` there, "edge" the nearest element
    (PyTorch's "replicate"), "reflect" the elements mirrored at the first and the last, "symmetric" mirrored at the
    border, with those two, "wrap" (PyTorch's "circular") the elements of the other end. All but the first go on for as
    long as they are asked to. Raises TileTypeError for other widths and modes.
    """
    name = "ops.pad"
    x = as_tensor(x)
    if mode not in MODES:
        refuse_option(name, "mode", mode, ", ".join(f'"{m}"' for m in MODES), 'use "constant"')
    if mode == "constant" and not _negative(widths):
        return tile.pad(x, widths, value)
    pairs = _pairs(name, widths, x.ndim)
    if mode == "constant":
        return padded(x, range(x.ndim), pairs, value)
    for axis, (low, high) in enumerate(pairs):
        if (low, high) != (0, 0):
            size = x.shape[axis]
            at = tile.arange(low + size + high) - low
            x = tile.take(x, _inside(at, size, mode), axis=axis)
    return x


def _inside(at: Any, size: Any, mode: str) -> Any:
    """The coordinates whose elements stand at coordinates that may lie outside."""
    if mode == "edge":
        return tile.minimum(tile.maximum(at, 0), size - 1)
    if mode == "wrap":
        return at % size
    if mode == "symmetric":
        at = at % (2 * size)
        return tile.minimum(at, 2 * size - 1 - at)
    if size == 1:
        return at * 0
    at = at % (2 * (size - 1))
    return tile.minimum(at, 2 * (size - 1) - at)


def _negative(widths: Any) -> bool:
    if isinstance(widths, (tuple, list)):
        return any(_negative(entry) for entry in cast("Any", widths))
    return isinstance(widths, int) and widths < 0


def _pairs(name: str, widths: Any, rank: int) -> tuple[tuple[Any, Any], ...]:
    """A pair for each axis, from what NumPy takes."""
    entries = entries_of(widths)
    if isinstance(widths, int):
        return ((widths, widths),) * rank
    if len(entries) == 2 and not any(isinstance(entry, (tuple, list)) for entry in entries):
        return ((entries[0], entries[1]),) * rank
    pairs = [entries_of(entry) for entry in entries]
    if any(len(pair) != 2 for pair in pairs) or len(pairs) not in (1, rank):
        refuse_option(name, "widths", widths, f"an int, a pair, or {rank} pairs", "give (before, after) for each axis")
    return tuple((low, high) for low, high in pairs * (rank if len(pairs) == 1 else 1))

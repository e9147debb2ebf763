"""Pictures of layouts as text: one cell for each element of a tile, or of a buffer in shared memory.

>>> from tiledsl.ir.layouts.layout import local, spatial
>>> print((local(2, 1) * spatial(2, 4) * local(1, 2)).show())
thread:slot of [4, 8] in local(2, 1) * spatial(2, 4) * local(1, 2)
     0    1    2    3    4    5    6    7
0  0:0  0:1  1:0  1:1  2:0  2:1  3:0  3:1
1  4:0  4:1  5:0  5:1  6:0  6:1  7:0  7:1
2  0:2  0:3  1:2  1:3  2:2  2:3  3:2  3:3
3  4:2  4:3  5:2  5:3  6:2  6:3  7:2  7:3
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from tiledsl.ir.dtypes import DType
from tiledsl.ir.layouts.buffer_layout import BANK_BYTES, BANKS, SharedLayout
from tiledsl.ir.layouts.layout import RegisterLayout

MOST_SLICES = 4
"""How many matrices of a tile of higher rank are drawn."""
LISTED = 4
"""How many threads that hold copies are listed one by one."""
Cell = Callable[[tuple[int, ...]], str]


def picture(layout: RegisterLayout, most: int = 32) -> str:
    """For each element the threads that hold it and their slot: `5:1`, with copies `0,8:1` or `0-3:1`.

    At most `most` rows and columns are drawn; of a rank above 2, the first matrices.
    """
    cell = thread_and_slot(layout)
    return f"thread:slot of {list(layout.shape)} in {layout}\n{_draw(layout.shape, cell, most)}"


def thread_and_slot(layout: RegisterLayout) -> Cell:
    """What gives the text of an element: who holds it, and where."""
    copies = [0]
    unit = 1
    for digit in reversed(layout.thread_digits):
        if digit.axis is None:
            copies = [copy + unit * value for value in range(digit.size) for copy in copies]
        unit *= digit.size

    def cell(coordinates: tuple[int, ...]) -> str:
        thread, slot = layout.place(coordinates)
        return f"{_threads([thread + copy for copy in copies])}:{slot}"

    return cell


def shared_picture(
    layout: SharedLayout, shape: Sequence[int], dtype: DType, banks: bool = False, most: int = 32
) -> str:
    """For each element of a buffer its byte offset, or the bank that it is in."""

    def cell(coordinates: tuple[int, ...]) -> str:
        offset = layout.offset(shape, dtype, coordinates)
        return str(offset // BANK_BYTES % BANKS if banks else offset)

    what = "bank" if banks else "byte offset"
    return f"{what} of {dtype} {list(shape)} in {layout}\n{_draw(tuple(shape), cell, most)}"


def _threads(threads: list[int]) -> str:
    """`5`, `0-3`, `0,8` or `0,8,..56`; the threads are in order."""
    first, last = threads[0], threads[-1]
    if len(threads) == 1:
        return str(first)
    if last - first == len(threads) - 1:
        return f"{first}-{last}"
    if len(threads) <= LISTED:
        return ",".join(map(str, threads))
    return f"{first},{threads[1]},..{last}"


def _draw(shape: tuple[int, ...], cell: Cell, most: int) -> str:
    if len(shape) <= 2:
        return "\n".join(_matrix(shape, (), cell, most))
    lines: list[str] = []
    for number, outer in enumerate(product(*map(range, shape[:-2]))):
        if number == MOST_SLICES:
            lines.append("...")
            break
        lines.append(f"[{', '.join(map(str, outer))}, :, :]")
        lines += _matrix(shape[-2:], outer, cell, most)
    return "\n".join(lines)


def _matrix(shape: tuple[int, ...], outer: tuple[int, ...], cell: Cell, most: int) -> Iterator[str]:
    """The lines of one matrix, or of one row where the rank is 1."""
    rows = shape[:-1]
    columns = range(min(shape[-1], most))
    heads: list[tuple[int, ...]] = [(row,) for row in range(min(rows[0], most))] if rows else [()]
    cells = [[cell((*outer, *head, column)) for column in columns] for head in heads]
    width = max(len(text) for row in cells for text in (*row, str(columns[-1])))
    margin = max(len(str(number)) for head in heads for number in head) if rows else 0
    more = "  ..." if shape[-1] > most else ""
    yield " " * margin + "".join(f"  {column:>{width}}" for column in columns) + more
    for head, row in zip(heads, cells):
        label = str(head[0]) if head else ""
        yield f"{label:>{margin}}" + "".join(f"  {text:>{width}}" for text in row) + more
    if rows and rows[0] > most:
        yield "..."

"""Drawings of layouts: SVG with a cell for each element of a tile, coloured by the thread or the bank that has it.

The texts in the cells are those of `pictures`. Of a tile of higher rank the first matrix is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from itertools import product
from typing import TypeAlias

from tiledsl.ir.dtypes import DType
from tiledsl.ir.layouts.buffer_layout import BANK_BYTES, BANKS, SharedLayout
from tiledsl.ir.layouts.layout import WARP, RegisterLayout
from tiledsl.ir.layouts.pictures import thread_and_slot

LETTER = 6
"""Width of a letter, in pixels."""
ROW = 18
"""Height of a cell."""
MARGIN = 30
"""Room for the numbers of rows; those of columns and the title stand above."""

Coordinates: TypeAlias = "tuple[int, ...]"


def register_drawing(layout: RegisterLayout, most: int = 32) -> str:
    """Who holds each element: `thread:slot`. A thread has one colour; the next warps have it paler.

    At most `most` rows and columns are drawn.
    """

    def colour(coordinates: Coordinates) -> str:
        thread, _ = layout.place(coordinates)
        return _colour(thread % WARP, WARP, thread // WARP)

    title = f"thread:slot of {list(layout.shape)} in {layout}"
    return _drawing(title, layout.shape, thread_and_slot(layout), colour, most)


def shared_drawing(layout: SharedLayout, shape: Sequence[int], dtype: DType, most: int = 32) -> str:
    """The byte offset of each element of a buffer; a bank has one colour.

    At most `most` rows and columns are drawn.
    """

    def offset(coordinates: Coordinates) -> int:
        return int(layout.offset(shape, dtype, coordinates))

    def colour(coordinates: Coordinates) -> str:
        return _colour(offset(coordinates) // BANK_BYTES % BANKS, BANKS, 0)

    title = f"byte offset of {dtype} {list(shape)} in {layout}, a colour for each bank"
    return _drawing(title, tuple(shape), lambda coordinates: str(offset(coordinates)), colour, most)


def _colour(number: int, count: int, paler: int) -> str:
    """One of `count` colours, all light enough for dark letters."""
    return f"hsl({360 * number // count},70%,{min(72 + 6 * paler, 92)}%)"


def _drawing(
    title: str, shape: Coordinates, text: Callable[[Coordinates], str], colour: Callable[[Coordinates], str], most: int
) -> str:
    outer = (0,) * max(0, len(shape) - 2)
    rows, columns = (1, *shape)[-2:] if shape else (1, 1)
    if outer:
        title += f"; here [{', '.join(map(str, outer))}, :, :]"
    if max(rows, columns) > most:
        title += f"; the first {min(rows, most)} rows and {min(columns, most)} columns"
    cells = {
        (i, j): (*outer, i, j)[-len(shape) :] if shape else ()
        for i, j in product(range(min(rows, most)), range(min(columns, most)))
    }
    wide = LETTER * max(len(text(place)) for place in cells.values()) + 8
    width = max(MARGIN + wide * min(columns, most), LETTER * len(title)) + 8
    height = 2 * ROW + ROW * min(rows, most) + 4
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title, quote=True)}" font-family="ui-monospace, monospace" font-size="10">',
        f'<text x="4" y="12" fill="#6e7781">{escape(title)}</text>',
    ]
    for j in range(min(columns, most)):
        lines.append(_label(MARGIN + wide * j + wide / 2, ROW + 12, j))
    for i in range(min(rows, most)):
        lines.append(_label(MARGIN / 2, 2 * ROW + ROW * i + 12, i))
    for (i, j), place in cells.items():
        x, y = MARGIN + wide * j, 2 * ROW + ROW * i
        lines.append(
            f'<rect x="{x}" y="{y}" width="{wide}" height="{ROW}" fill="{colour(place)}" stroke="#fff"/>'
            f'<text x="{x + wide / 2:g}" y="{y + 12}" text-anchor="middle" fill="#1b1f24">{escape(text(place))}</text>'
        )
    return "\n".join([*lines, "</svg>"])


def _label(x: float, y: float, number: int) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="middle" fill="#6e7781">{number}</text>'

"""The layout in which coordinates that a tile is gathered at are needed: each thread has those of its own elements.

    y[t, d] = w[i[t], d]         rows of 32 threads: each of these has the coordinate of its row

Loaded so, all threads of a row ask for the same element, which is one access of a warp. In a layout of their own
coordinates would go through shared memory, and threads would meet, before the first row can be asked for.
"""

from __future__ import annotations

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.types import Shape, TileType


def gather_axis(op: ops.Load | ops.Store | ops.Atomic) -> int:
    """The first tile axis of the coordinates that are gathered at."""
    number = 0
    for index in op.indices:
        if isinstance(index, Value) and is_tile_index(index):
            return number
        if not (isinstance(index, Value) and isinstance(index.type, TileType)):
            number += 1
    return number


def is_tile_index(index: object) -> bool:
    """Whether a subscript is a tile of coordinates."""
    return isinstance(index, Value) and isinstance(index.type, TileType) and bool(index.type.shape)


def is_loaded(index: object) -> bool:
    """Whether coordinates are data, or computed of data."""
    seen, work = set[Value](), [index] if isinstance(index, Value) else []
    while work:
        value = work.pop()
        if value.op is None or value in seen:
            continue
        if isinstance(value.op, ops.Load):
            return True
        seen.add(value)
        work += value.op.operands
    return False


def gather_rank(op: ops.Load | ops.Store | ops.Atomic) -> int:
    """How many axes of a tile the coordinates have that it is gathered at."""
    return max((len(i.shape) for i in op.indices if isinstance(i, Value) and is_tile_index(i)), default=0)


def coordinate_layout(layout: RegisterLayout, at: int, rank: int, shape: Shape) -> RegisterLayout:
    """The layout of coordinates of a shape that are repeated over all axes of a tile in `layout`; the axes of all that
    are gathered at, `rank` of them, begin at axis `at`."""
    others = [axis for axis in range(layout.rank) if not at <= axis < at + rank]
    own = layout.reduced(others) if others else layout
    missing = rank - len(shape)
    narrow = own.reduced(list(range(missing))) if missing else own
    units = [a for a, dim in enumerate(shape) if dim == 1 and narrow.shape[a] != 1]
    return narrow.reduced(units, keepdims=True) if units else narrow

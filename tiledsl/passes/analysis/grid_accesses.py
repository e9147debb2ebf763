"""The accesses of one grid to the tensors that it writes: where they lie, and in which programs they happen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, Union

from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.tile_ops import Atomic, For, Grid, If, Load, Range, Store, While
from tiledsl.ir.types import Slice, TensorType, TileType, Whole
from tiledsl.passes.analysis.grid_flow import NO_AXES, Axes, GridFlow, Stretch
from tiledsl.passes.analysis.grid_places import Place

Accessing: TypeAlias = Union[Load, Store, Atomic]


@dataclass(frozen=True, eq=False)
class Access:
    """A load, store or atomic. `order`: its place in the text of the grid.

    `pinned`: axes on which it may depend whether it happens, and at which of the coordinates that are not known.
    Two programs that do not differ along them do the same.
    """

    op: Accessing
    order: int
    place: Place
    axes: Axes
    """On which the place may depend."""
    pinned: Axes
    branches: tuple[Block, ...]
    """Those of the branches that it stands in, from the outermost."""
    loops: frozenset[Op]

    def may_happen_with(self, other: Access) -> bool:
        """Whether one happens wherever the other does, as far as branches are concerned."""
        short, long = sorted((self.branches, other.branches), key=len)
        return long[: len(short)] == short

    def is_before(self, other: Access) -> bool:
        """Whether a program is done with this when it comes to the other."""
        return self.order < other.order and not self.loops & other.loops


def accesses_of(flow: GridFlow) -> dict[Value, list[Access]]:
    """The accesses to each tensor that the grid writes, in order."""
    found: dict[Value, list[Access]] = {tensor: [] for tensor in flow.written}
    for order, op in enumerate(flow.grid.body.walk()):
        if isinstance(op, (Load, Store, Atomic)) and op.tensor in found:
            found[op.tensor].append(_access(flow, op, order))
    return found


def _access(flow: GridFlow, op: Accessing, order: int) -> Access:
    pinned = NO_AXES
    branches: list[Block] = []
    loops: set[Op] = set()
    partial = False
    for block, around in enclosing(op):
        match around:
            case If():
                pinned |= flow.may_of([around.condition])
                branches.insert(0, block)
            case Range() | For() | While():
                last = around.condition.terminator if isinstance(around, While) else None
                pinned |= flow.may_of(around.operands if last is None else last.operands)
                loops.add(around)
                partial = partial or bool(branches)  # not in every turn of the loop
            case _:
                pass
    place, unknown = _place(flow, op, partial)
    axes = frozenset(part.axis for part in place if isinstance(part, Stretch) and part.axis is not None)
    return Access(op, order, place, axes | unknown, pinned | unknown, tuple(branches), frozenset(loops))


def enclosing(op: Op) -> Iterator[tuple[Block, Op]]:
    """The ops around an op up to its grid, each with the body that it stands in, from the innermost."""
    block = op.parent
    while block is not None and block.parent is not None and not isinstance(block.parent, Grid):
        yield block, block.parent
        block = block.parent.parent


def _place(flow: GridFlow, op: Accessing, partial: bool) -> tuple[Place, Axes]:
    """Where an access lies, and on which axes it may depend what is not known of that."""
    type_ = op.tensor.type
    assert isinstance(type_, TensorType)
    tiles = sum(isinstance(i, Value) and isinstance(i.type, TileType) and bool(i.type.shape) for i in op.indices)
    taken: set[Value] = set()
    place: list[Stretch | int] = []
    unknown = NO_AXES
    for subscript, dim in zip(op.indices, type_.shape):
        if isinstance(subscript, Whole):
            place.append(Stretch(0, dim - 1))
        elif isinstance(subscript, Slice):
            place.append(Stretch(subscript.start, subscript.stop - 1))
        else:
            stretch = flow.stretches.get(subscript)
            is_tile = isinstance(subscript.type, TileType) and bool(subscript.type.shape)
            # what goes together along several axes is no rectangle
            together = stretch is None or (is_tile and tiles > 1) or bool(stretch.loops & taken)
            if stretch is None or together or (partial and stretch.loops):
                place.append(flow.number(subscript))
                unknown |= flow.may_of([subscript])
            else:
                place.append(stretch)
                taken |= stretch.loops
    return tuple(place), unknown

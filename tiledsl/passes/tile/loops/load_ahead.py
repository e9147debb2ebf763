"""Long straight programs ask for what they read before they need it: no compiler moves a load over a store.

    %a0 = tile.load(%a, [%0, %b])            %a0 = tile.load(%a, [%0, %b])
    ... 20 ops ...                           %a1 = tile.load(%a, [%1, %b])
    %a1 = tile.load(%a, [%1, %b])      =>    ... 20 ops ...
    ... 20 ops ...                           ... 20 ops ...

Before: any TILE form. After: the same form. In the body of a grid that has no loops, `LEAST_OPS` ops or more, and loads
behind stores, each load of a tensor that the grid does not write goes to where the load so many before it is first
used: as many as keep the number of tiles below `MOST_LIVE`. All of them go to the front where these are few.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir.core import Block, Module, Op, Value
from tiledsl.ir.tile_ops import Constant, For, Grid, If, Load, Range, Size, Store, While
from tiledsl.ir.verifier import Form
from tiledsl.passes.analysis.effects import tensors_written
from tiledsl.passes.analysis.live_tiles import number_of_live_tiles
from tiledsl.passes.manager import PassContext

LEAST_OPS = 48
"""Of a program of fewer the compiler of machine code finds an order by itself."""
AHEAD = (256, 128, 64, 32, 16, 8)
"""How many loads are under way at once: the most of these that there is room for."""
MOST_LIVE = 192
"""Tiles that are there at once, where there is one register of a thread for each: of 255, less what else it holds."""


@dataclass(frozen=True)
class LoadAhead:
    """Moves loads of what a grid does not write towards the front of a long program."""

    name: ClassVar[str] = "load-ahead"
    requires: ClassVar[Form] = Form.TILE
    gives: ClassVar[Form] = Form.TILE

    def run(self, module: Module, context: PassContext) -> Module:
        for grid in [op for op in module.entry.body.ops if isinstance(op, Grid)]:
            if len(grid.body.ops) < LEAST_OPS or any(isinstance(op, (For, Range, While, If)) for op in grid.body.ops):
                continue
            written = tensors_written([grid])
            order = _ordered(grid.body, written)
            if order is not None:
                grid.body.ops[:] = order
                context.remark(self.name, grid.location, "loads are asked for before what is computed")
        return module


def _ordered(block: Block, written: frozenset[Value]) -> list[Op] | None:
    """The ops in another order; None where nothing would be gained: the first store is behind all loads."""
    movable = [op for op in block.ops if _may_move(op, block, written)]
    stored = next((place for place, op in enumerate(block.ops) if isinstance(op, Store)), len(block.ops))
    if len(movable) < 2 or block.index(movable[-1]) < stored:
        return None
    before = number_of_live_tiles(block.ops)
    for ahead in AHEAD:
        order = _with_loads_ahead(block, movable, ahead)
        if number_of_live_tiles(order) <= max(MOST_LIVE, before):
            return order
    return None


def _may_move(op: Op, block: Block, written: frozenset[Value]) -> bool:
    """Whether an op is a load that depends on nothing but numbers and what is known outside of the block."""
    if not isinstance(op, Load) or not op.result.shape or op.tensor in written:
        return False
    made = [value.op for value in op.operands if value.op is not None and value.op.parent is block]
    return all(isinstance(one, (Constant, Size)) for one in made)


def _with_loads_ahead(block: Block, movable: list[Op], ahead: int) -> list[Op]:
    """Numbers first; then each load before the first use of the load that is so many before it."""
    places = {op: place for place, op in enumerate(block.ops)}
    numbers = [op for op in block.ops if isinstance(op, (Constant, Size))]
    first_uses = [
        min((places[user] for user in op.result.users if user in places), default=places[op]) for op in movable
    ]
    moved: dict[int, list[Op]] = {}
    for number, op in enumerate(movable):
        place = first_uses[number - ahead] if number >= ahead else -1
        moved.setdefault(min(place, places[op]), []).append(op)
    order = [*numbers, *moved.get(-1, ())]
    gone = {*numbers, *movable}
    for place, op in enumerate(block.ops):
        order += moved.get(place, ())
        if op not in gone:
            order.append(op)
    return order

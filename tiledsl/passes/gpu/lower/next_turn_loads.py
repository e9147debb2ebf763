"""Small loads of a loop with a ring, asked for one turn before they are needed: several threads read each element.

    for k in tile.range(K):                              %x_next = load x[block 0]
        acc += x[k] * w[k, n]         =>                 for i in ...:  carries %x, the tile of this turn
                                                             wait; begin to copy block i + 3 of w
                                                             %x_next = load x[block i + 1]
                                                             acc += %x * stage of w

Where memory has much under way for the ring, any load waits as long as that takes to come: thousands of clocks. These
cannot be in the ring, in which each thread copies for itself what it reads, 4 bytes at least: they wait in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.dtypes import DType, bool_
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.passes.analysis.quotients import quotient_of, repeated
from tiledsl.passes.gpu.layouts.infer_layouts import tile_axes
from tiledsl.passes.gpu.lower.lower_memory import load_as, row_alignment
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.lower.place_blocks import Turns
from tiledsl.passes.gpu.lower.repeated_loads import load_repeated, repeated_along
from tiledsl.passes.gpu.products.known_ahead import indices_known_ahead, is_known_ahead

MOST_BYTES = 48
"""Of a thread, that such loads keep in registers for the next turn."""
MOST_BYTES_OF_ROLES = 80
"""The same of a thread that multiplies by warpgroups: what it computes of these is written to shared memory at once."""


class NextTurnLoads:
    """Those of one loop: tiles that it carries from the turn that asks for them to the turn that uses them."""

    def __init__(
        self, state: Lowering, loop: ops.Range, turns: Turns, in_ring: Sequence[ops.Load], room: int = MOST_BYTES
    ) -> None:
        self.state, self.turns = state, turns
        self._layouts = _small_loads(state, loop, turns, in_ring, room)
        self.loads = tuple(self._layouts)
        self._next: list[Value] = []

    def first(self) -> list[Value]:
        """Before the loop: the tiles of its first turn, zeros where it has none."""
        if not self.loads:
            return []
        state, turns = self.state, self.turns
        then, otherwise = Block(), Block()
        with state.scope(then):
            loaded = self._load(state.constant(0))
            state.emit(ops.Yield, values=loaded)
        with state.scope(otherwise):
            empty = [_empty(state, tile) for tile in loaded]
            state.emit(ops.Yield, values=empty)
        there = state.builder.map("lt", state.constant(0), turns.count)
        found = state.emit(
            ops.If, types=[tile.tile for tile in loaded], name=[f"{op.result.name}_next" for op in self.loads],
            condition=there, then=then, otherwise=otherwise,
        )  # fmt: skip
        return list(found.results)

    def of_first(self) -> list[Value]:
        """The same before a loop that has a turn."""
        return self._load(self.state.constant(0))

    def enter(self, tiles: Sequence[Value]) -> None:
        """In a turn: the tiles that it carries are those of its loads."""
        for (op, layout), tile in zip(self._layouts.items(), tiles):
            self.state.define(op.result, _as_wide(self.state, op, tile, layout))
            self.state.kept.add(op.result)

    def leave(self) -> None:
        """Behind the turns: their loads are loads again, for whoever goes through the loop next."""
        self.state.kept.difference_update(op.result for op in self.loads)

    def ask(self, number: Value) -> None:
        """In turn `number`: loads what the next one needs. The last turn asks for its own once more."""
        if not self.loads:
            return
        state = self.state
        last = state.arithmetic("sub", self.turns.count, 1)
        following = state.builder.map("minimum", state.arithmetic("add", number, 1), last)
        self._next = self._load(following)

    def following(self) -> list[Value]:
        """At the end of a turn: the tiles for the next one."""
        return self._next

    def _load(self, number: Value) -> list[Value]:
        state, turns = self.state, self.turns
        place = turns.place(state, turns.start_of(state, number))
        with state.elsewhere(turns.argument, place):
            return [_as_loaded(load_as(state, op, layout)) for op, layout in self._layouts.items()]


def _as_loaded(tile: Value) -> Value:
    """What a load reads, without what only repeats it."""
    while isinstance(tile.op, (ops.Broadcast, ops.Reshape)):
        tile = tile.op.source
    return tile


def _as_wide(state: Lowering, op: ops.Load, tile: Value, layout: RegisterLayout) -> Value:
    """The tile of a load, in its layout, from what it reads."""
    if tile.shape and tile.layout == layout:
        return tile
    if tile.shape:
        axis = next(axis for axis in range(len(op.result.shape)) if axis not in tile_axes(op))
        if tile.layout.rank == layout.rank:
            return repeated_along(state, tile, layout, axis)
        tile = state.reshaped(tile, tile.layout.expanded(axis))
    return state.filled(tile, layout)


def _empty(state: Lowering, tile: Value) -> Value:
    zero = _zero(state, tile.dtype)
    return state.filled(zero, tile.layout) if tile.shape else zero


def _zero(state: Lowering, dtype: DType) -> Value:
    return state.constant(0.0 if dtype.is_float else False if dtype == bool_ else 0, dtype)


def _small_loads(
    state: Lowering, loop: ops.Range, turns: Turns, in_ring: Sequence[ops.Load], room: int
) -> dict[ops.Load, RegisterLayout]:
    """What can be asked for a turn before, and in which layout."""
    inside, found = set[Op](loop.body.walk()), dict[ops.Load, RegisterLayout]()
    for op in loop.body.ops:
        if not isinstance(op, ops.Load) or op in in_ring or not op.result.shape or op.tensor in state.written:
            continue
        layout = state.inference.of(op.result) or _layout_of_users(state, op)
        if layout is None or op.result.tile.level != "register":
            continue
        bytes_: int | None = layout.slots * op.result.dtype.bytes
        if not is_known_ahead(loop, op, inside):
            bytes_ = _bytes_along_a_quotient(state, loop, inside, turns, op, layout)
        if bytes_ is not None and bytes_ <= room and not isinstance(op.other, Value):
            found[op] = layout
            room -= bytes_
    return found


def _layout_of_users(state: Lowering, op: ops.Load) -> RegisterLayout | None:
    """Of a tile that is made in any layout: that of what is computed of it, where there is one."""
    wanted, pending = set[RegisterLayout](), [op.result]
    while pending:
        for user in pending.pop().users:
            if not isinstance(user, (ops.Cast, ops.Map)):
                return None
            layout = state.inference.of(user.results[0])
            if layout is None:
                pending.append(user.results[0])
            else:
                wanted.add(layout)
    return wanted.pop() if len(wanted) == 1 else None


def _bytes_along_a_quotient(
    state: Lowering, loop: ops.Range, inside: set[Op], turns: Turns, op: ops.Load, layout: RegisterLayout
) -> int | None:
    """What a thread reads by a load that goes along a quotient of the loop's own coordinates, and is lowered from where
    the block begins: the quotients of another turn need not be there. None for other loads."""
    quotient, block = repeated(op), loop.body.arguments[0]
    if quotient is None or quotient.block is not block:
        return None
    others = [index for index in op.indices if quotient_of(index) is None]
    if not indices_known_ahead(loop, others, inside):
        return None
    with state.trial(), state.elsewhere(block, turns.place(state, turns.start)):
        made = load_repeated(state, op, layout, row_alignment(state, op.tensor))
        loaded = None if made is None else _as_loaded(made)
        if loaded is None or not isinstance(loaded.op, gpu.Load):
            return None
        slots = loaded.layout.slots // min(loaded.op.repeat, loaded.op.vector) if loaded.shape else 1
        return slots * op.result.dtype.bytes

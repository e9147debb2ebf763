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
from tiledsl.passes.gpu.lower.lower_memory import load_as
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.lower.place_blocks import Turns
from tiledsl.passes.gpu.products.known_ahead import is_known_ahead

MOST_BYTES = 32
"""Of a thread, that such loads keep in registers for the next turn."""


class NextTurnLoads:
    """Those of one loop: tiles that it carries from the turn that asks for them to the turn that uses them."""

    def __init__(self, state: Lowering, loop: ops.Range, turns: Turns, in_ring: Sequence[ops.Load]) -> None:
        self.state, self.turns = state, turns
        self.loads = _small_loads(state, loop, in_ring)
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
            empty = [state.filled(_zero(state, tile.dtype), tile.layout) for tile in loaded]
            state.emit(ops.Yield, values=empty)
        there = state.builder.map("lt", state.constant(0), turns.count)
        found = state.emit(
            ops.If, types=[tile.tile for tile in loaded], name=[f"{op.result.name}_next" for op in self.loads],
            condition=there, then=then, otherwise=otherwise,
        )  # fmt: skip
        return list(found.results)

    def enter(self, tiles: Sequence[Value]) -> None:
        """In a turn: the tiles that it carries are those of its loads."""
        for op, tile in zip(self.loads, tiles):
            self.state.define(op.result, tile)
            self.state.kept.add(op.result)

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
            return [load_as(state, op, state.layout(op.result)) for op in self.loads]


def _zero(state: Lowering, dtype: DType) -> Value:
    return state.constant(0.0 if dtype.is_float else False if dtype == bool_ else 0, dtype)


def _small_loads(state: Lowering, loop: ops.Range, in_ring: Sequence[ops.Load]) -> list[ops.Load]:
    inside, found, room = set[Op](loop.body.walk()), list[ops.Load](), MOST_BYTES
    for op in loop.body.ops:
        if not isinstance(op, ops.Load) or op in in_ring or not op.result.shape or op.tensor in state.written:
            continue
        layout = state.inference.of(op.result)
        if layout is None or op.result.tile.level != "register":
            continue
        bytes_ = layout.slots * op.result.dtype.bytes
        if bytes_ <= room and is_known_ahead(loop, op, inside) and not isinstance(op.other, Value):
            found.append(op)
            room -= bytes_
    return found

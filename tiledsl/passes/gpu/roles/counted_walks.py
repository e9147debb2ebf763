"""Programs that take their blocks from a counter in global memory: whoever is free makes the next one.

    %counter = tile.empty(%132) {shape = [1], dtype = i32, scratch = true}      filled anew in each run

    the role that loads                                those that multiply
    number = program                                   number = program
    while number < all blocks:                         while number < all blocks:
        load the block                                     make the block
        %next = gpu.atomic(%counter, 1) {fn = add}         wait until a slot is full
        wait until a slot is empty                         number = what is in it
        write %next to it; say that it is full             say that it is empty
        number = what it wrote                             next slot
        next slot

The first block of each program is known, so the counter begins with the number of programs. It is asked once the loads
of a block have begun, while they are waited for: nobody waits for the counter unless a block is shorter than the ring.
Blocks are the same ones whoever makes them, so results do not depend on the order. The slots are a ring like those of
operands: barriers within the role that loads are put there by `insert-barriers`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Value
from tiledsl.ir.dtypes import i32, i64
from tiledsl.ir.gpu import async_ops
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.layout import WARP, replicate
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.roles.block_walks import BlockWalk
from tiledsl.passes.gpu.roles.rings import Position, Ring, following, resume

SLOTS = 2
"""Numbers of blocks that are on their way to those who multiply."""


class CountedWalk(BlockWalk):
    """The blocks of a grid as programs take them, those with the longest loops first."""

    def __init__(self, state: Lowering, op: ops.Grid, consumers: int) -> None:
        """At the function's level, where the counter is made. `consumers`: threads of a block that multiply."""
        super().__init__(state, op)
        self.consumers = consumers
        first = state.constant(state.grid.programs, i32)
        self.counter = state.emit(ops.Empty, name="counter", fill=first, shape=(1,), dtype=i32, scratch=True).result

    def begin(self, arguments: Sequence[Value]) -> None:
        """In the body of the launch: what all roles know, and the slots."""
        state = self.state
        self._arguments = arguments
        self.total = self._count()
        self.slots = state.buffer((SLOTS,), i32, SharedLayout((0,)), "taken")
        self.full = state.emit(async_ops.Mbarriers, name="full_taken", count=SLOTS, arrivals=1).result
        self.empty = state.emit(
            async_ops.Mbarriers, name="empty_taken", count=SLOTS, arrivals=self.consumers // WARP
        ).result  # fmt: skip

    def each(self, rings: Sequence[Ring], make: Callable[[], None]) -> None:
        """Makes every block that the program gets, in a role that multiplies; `rings` go on from block to block."""

        def after(slot: Position) -> Value:
            number = self._read(slot)
            self.state.emit(
                async_ops.MbarrierArrive, barriers=self.empty, index=slot.stage, by="warp", scope="block"
            )  # fmt: skip
            return number

        self._take(rings, make, after)

    def each_to_load(self, rings: Sequence[Ring], threads: int, load: Callable[[], None]) -> None:
        """The same in the role of `threads` that loads: it takes the blocks."""
        state = self.state
        layout = replicate(threads, 1)

        def after(slot: Position) -> Value:
            one = state.filled(state.constant(1, i32), layout)
            ticket = state.emit(
                gpu.Atomic, name="ticket", tensor=self.counter, indices=[state.constant(0)], value=one, extents=[],
                fn="add", axes=(0,),
            ).result  # fmt: skip
            other = state.builder.map("xor", slot.parity, state.constant(1, i32))
            state.emit(async_ops.MbarrierWait, barriers=self.empty, index=slot.stage, parity=other)
            state.emit(gpu.Write, buffer=self.slots, value=ticket, offsets=[slot.stage], places=(0,), vector=1)
            state.emit(async_ops.MbarrierArrive, barriers=self.full, index=slot.stage, by="role")
            return self._read(slot)

        self._take(rings, load, after)

    def _read(self, slot: Position) -> Value:
        """The number in a slot, once it is full."""
        state = self.state
        state.emit(async_ops.MbarrierWait, barriers=self.full, index=slot.stage, parity=slot.parity)
        return state.emit(
            gpu.Read, name="next", buffer=self.slots, offsets=[slot.stage], places=(), shape=(), layout=None
        ).result  # fmt: skip

    def _take(self, rings: Sequence[Ring], act: Callable[[], None], after: Callable[[Position], Value]) -> None:
        """Goes through blocks until there are no more; `after` each of them it gets the number of the next one."""
        state, zero = self.state, self.state.constant(0, i32)
        initial = [state.builder.cast(self._arguments[0], i32), zero, zero]
        names = ["number", "slot", "slot_parity"]
        for ring in rings:
            initial += ring.position.values
            names += ["stage", "parity"]
        condition, body = Block(), Block()
        for value, name in zip(initial, names):
            condition.add_argument(value.type, name)
            body.add_argument(value.type, name)
        with state.scope(condition):
            total = state.builder.cast(self.total, i32)
            state.emit(ops.Yield, values=[state.builder.map("lt", condition.arguments[0], total)])
        with state.scope(body):
            number, stage, parity, *positions = body.arguments
            resume(rings, positions)
            self._place(self._starts_of(state.builder.cast(number, i64)))
            act()
            slot = Position(stage, parity)
            taken = after(slot)
            slot = following(state, slot, SLOTS)
            state.emit(ops.Yield, values=[taken, *slot.values, *(v for ring in rings for v in ring.position.values)])
        loop = state.emit(
            ops.While, types=[value.tile for value in initial], name=names, initial=initial, condition=condition,
            body=body,
        )  # fmt: skip
        resume(rings, loop.results[3:])

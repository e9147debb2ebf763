"""Products that feed on each other by two roles: one makes scores and what they weigh, the other one sums.

    scores                                          sums
    wait for k[j]; s = q k[j]; give k[j] back
    p, w of s
    wait until the slot is empty                    wait until the slot is full
    write p and w to it; it is full         =>      acc * w; wait for v[j]; acc += p v[j]
                                                    give v[j] back; the slot is empty

So a turn's scores are multiplied, and what is computed of them goes on, while the sums of the turn before are: of
values as wide as two warpgroups have registers for too. What scores' role finds that sums need behind the loop goes the
same way, once. A ring that both roles read (`c[b, j, :]` as keys, `c[b, j, :512]` as values) is given back by both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Value
from tiledsl.ir.dtypes import i32, i64
from tiledsl.ir.gpu import async_ops
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.gpu.warpgroup_instructions import WARPGROUP
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.layout import WARP
from tiledsl.ir.types import scalar
from tiledsl.passes.gpu.layouts.shared_accesses import (
    matrix_method,
    shared_layout,
    staged_layout,
    static_shape,
    whole_vector,
)
from tiledsl.passes.gpu.lower.lowering import Lowering, Staged
from tiledsl.passes.gpu.lower.place_blocks import Turns
from tiledsl.passes.gpu.plan import GridPlan
from tiledsl.passes.gpu.products.apart_products import Apart
from tiledsl.passes.gpu.roles.products.back_to_back_loops import BackToBackLoop
from tiledsl.passes.gpu.roles.products.warpgroup_products import remark_product
from tiledsl.passes.gpu.roles.rings import Position, Ring, following, operand_layout

SLOTS = 1
"""Turns whose left operands stand in shared memory: sums have read one when the next is there."""


def grid_of_scores(grid: GridPlan) -> GridPlan:
    """The plan of a grid, as the one warpgroup that makes scores sees it."""
    return replace(grid, threads=WARPGROUP, warps=(WARPGROUP // WARP, 1))


class Handover:
    """Shared memory through which the role of scores gives that of sums what it made, and who has told whom. It is made
    in the body of the launch."""

    def __init__(self, state: Lowering, apart: Apart) -> None:
        """`state`: of the role of sums."""
        self.lefts = {left: self._of_left(state, left) for left in apart.parts.lefts}
        self.rows = {value: self._of_rows(state, value, SLOTS) for value in apart.rows}
        self.ends = {value: self._of_rows(state, value, 1) for value in apart.ends}
        scores, sums = WARPGROUP // WARP, state.grid.threads // WARP
        self.full = self._mbarriers(state, "full_scores", SLOTS, scores)
        self.empty = self._mbarriers(state, "empty_scores", SLOTS, sums)
        self.ended = self._mbarriers(state, "ended_scores", 1, scores) if self.ends else None

    @staticmethod
    def _mbarriers(state: Lowering, name: str, count: int, arrivals: int) -> Value:
        return state.emit(async_ops.Mbarriers, name=name, count=count, arrivals=arrivals).result

    @staticmethod
    def _of_left(state: Lowering, left: Value) -> Value:
        sizes = state.capacities.shape(left.shape)
        layout = staged_layout(operand_layout(tuple(sizes), 1, left.dtype.bytes))
        return state.buffer((SLOTS, *sizes), left.dtype, layout, left.name or "left")

    @staticmethod
    def _of_rows(state: Lowering, value: Value, slots: int) -> Value:
        shape = (slots, *state.capacities.shape(value.shape))
        return state.buffer(shape, value.dtype, SharedLayout((0, 1)), value.name or "rows")

    @staticmethod
    def write(state: Lowering, buffer: Value, value: Value, slot: Value) -> None:
        """Writes a tile to a slot."""
        shared, shape = shared_layout(buffer), static_shape(buffer)
        places = tuple(range(1, len(shape)))
        method = matrix_method(value.layout, shared, shape, value.dtype, places) if len(places) == 2 else "plain"
        vector = whole_vector(value.layout, shared, shape, value.dtype, places) if method == "plain" else 1
        offsets = [slot, *[state.constant(0) for _ in places]]
        state.emit(gpu.Write, buffer=buffer, value=value, offsets=offsets, places=places, vector=vector, method=method)

    @staticmethod
    def read(state: Lowering, buffer: Value, value: Value, slot: Value) -> None:
        """Defines what has an element for each row as what stands in a slot."""
        offsets = [slot, state.constant(0)]
        layout = state.layout(value)
        state.define(value, state.read(buffer, layout, offsets=offsets, places=(1,), name=value.name))

    def write_ends(self, state: Lowering) -> None:
        """By the role of scores, behind the loop."""
        if self.ended is None:
            return
        first = state.constant(0, i32)
        for value, buffer in self.ends.items():
            self.write(state, buffer, state.tile(value, state.layout(value)), state.constant(0, i32))
        state.emit(async_ops.MbarrierArrive, barriers=self.ended, index=first, by="warp")

    def read_ends(self, state: Lowering) -> None:
        """By the role of sums, behind the loop."""
        if self.ended is None:
            return
        first = state.constant(0, i32)
        state.emit(async_ops.MbarrierWait, barriers=self.ended, index=first, parity=first)
        for value, buffer in self.ends.items():
            self.read(state, buffer, value, first)


@dataclass(frozen=True)
class Side:
    """One of the two roles of a grid."""

    apart: Apart
    handover: Handover
    is_scores: bool

    def lower_loop(self, state: Lowering, op: ops.Range, turns: Turns, rings: Sequence[Ring]) -> None:
        """Its part of all turns. Raises TileResourceError (`plan-specialised`) where products have no room."""
        kind = _Scores if self.is_scores else _Sums
        kind(state, op, self, turns, rings).lower()

    def skip(self, state: Lowering, grid: ops.Grid) -> None:
        """Leaves out what the other role makes of the grid's ops. What sums take of others is made as they need it."""
        of_sums = self.apart.of_sums
        if self.is_scores:
            state.skipped = set(of_sums)
            return
        loop = self.apart.loop
        state.skipped = {
            op
            for op in grid.body.ops
            if op is not loop and op not in of_sums and (not op.results or any(v.shape for v in op.results))
        }


class _Half(BackToBackLoop):
    """The turns of one role."""

    def __init__(self, state: Lowering, op: ops.Range, side: Side, turns: Turns, rings: Sequence[Ring]) -> None:
        super().__init__(state, op, side.apart.parts, turns, rings)
        self.apart, self.handover = side.apart, side.handover

    def _each(
        self, values: Sequence[Value], names: Sequence[str], turn: Callable[[Sequence[Value]], Sequence[Value]]
    ) -> Sequence[Value]:
        """All turns of what carries `values`; what they come to."""
        state, op = self.state, self.op
        zero = state.constant(0, i32)
        position = Position(zero, zero)
        carried = [*values, *self._positions(), *position.values]
        every = [*names, *["stage", "parity"] * len(self.rings), "slot", "phase"]
        body = Block([(scalar(i64), f"{op.body.arguments[0].name}_number")])
        for value, name in zip(carried, every):
            body.add_argument(value.type, name)
        number, *inside = body.arguments
        count = len(values)
        with state.scope(body):
            self._place(inside[count:-2])
            self.position = Position(*inside[-2:])
            self._enter(number)
            made = turn(inside[:count])
            after = following(state, self.position, SLOTS)
            state.emit(ops.Yield, values=[*made, *self._positions(), *after.values])
        loop = state.emit(
            ops.For, types=[v.tile for v in carried], name=every, start=state.constant(0), stop=self.turns.count,
            step=state.constant(1), initial=carried, body=body,
        )  # fmt: skip
        self._place(loop.results[count:-2])
        return loop.results[:count]


class _Scores(_Half):
    def lower(self) -> None:
        """All turns; what the loop gives beside sums is defined, and given away where sums need it."""
        state, op = self.state, self.op
        for dot in self.parts.scores:
            remark_product(state, dot, self.plans[dot])
        initial = [self._as_carried(number, op.initial[number]) for number in self.others]
        results = self._each(initial, [self.arguments[n].name for n in self.others], self._scores)
        for number, result in zip(self.others, results):
            state.define(op.results[number], result)

    def _scores(self, others: Sequence[Value]) -> list[Value]:
        state, handover = self.state, self.handover
        for number, value in zip(self.others, others):
            state.define(self.arguments[number], value)
        self._load_first()
        self._wait(self.parts.scores)
        self._land_scores(self._begin_scores())
        given = self._ahead()
        lefts = self._lefts()
        slot, phase = self.position.values
        other = state.builder.map("xor", phase, state.constant(1, i32))
        state.emit(async_ops.MbarrierWait, barriers=handover.empty, index=slot, parity=other)
        for buffer, left in zip(handover.lefts.values(), lefts):
            handover.write(state, buffer, left, slot)
        for value, buffer in handover.rows.items():
            handover.write(state, buffer, state.tile(value, state.layout(value)), slot)
        state.emit(async_ops.MbarrierArrive, barriers=handover.full, index=slot, by="warp")
        return given


class _Sums(_Half):
    def lower(self) -> None:
        """All turns; the sums are defined."""
        state, op, sums = self.state, self.op, self.parts.sums
        for one in sums:
            remark_product(state, one.dot, self.plans[one.dot])
            state.remark(one.dot, "its left operand is computed by a warpgroup of its own, a turn ahead")
        initial = [state.tile(op.initial[one.number], self.plans[one.dot].accumulator) for one in sums]
        results = self._each(initial, [self.arguments[one.number].name for one in sums], self._sums)
        for one, result in zip(sums, results):
            state.define(op.results[one.number], result)
        self.handover.read_ends(state)

    def _sums(self, accs: Sequence[Value]) -> list[Value]:
        state, handover = self.state, self.handover
        slot, phase = self.position.values
        state.emit(async_ops.MbarrierWait, barriers=handover.full, index=slot, parity=phase)
        for left, buffer in handover.lefts.items():
            state.staged[left] = Staged(buffer, (1, 2), slot)
        for value, buffer in handover.rows.items():
            handover.read(state, buffer, value, slot)
        scaled = self._behind(accs)
        self._wait(self._sum_dots)
        none = [None for _ in self.parts.lefts]
        landed = self._land_sums(self._begin_sums(scaled, none), [])
        state.emit(async_ops.MbarrierArrive, barriers=handover.empty, index=slot, by="warp")
        return landed

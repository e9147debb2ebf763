"""Loops of a role whose products have company: operands that are computed, or tiles that something else reads too.

    for k in tile.range(K):                              left = x * g of block 0
        left = x[m, k] * g[k]                            for k in 0 ...:
        acc = tile.dot(left, b[k, n], acc)          =>       begin acc += left b[k]
                                                             wait for block k + 1; left = x * g of it
                                                             wait for acc; give block k back
                                                         acc += left b[last]

    for k in tile.range(K):                              for k in 0 ...:
        acc = tile.dot(a[m, k], b[k, n], acc)                wait for block k
        total = total + tile.sum(a[m, k], axis=1)   =>       begin acc += a[k] b[k]
                                                             total += sum of a[k]
                                                             wait for the product before; give block k - 1 back

What a turn computes goes on beside products: the operands of the next turn, and all that no product takes. So nothing
but the products may take what they give, and there are at least two stages: two blocks are looked at at once. Where
right operands alone are computed, products queue behind each other:

    for k in 0 ...:
        begin acc += a[k] right[slot]
        wait for the product before; give block k - 1 back
        wait for block k + 1; write right of it to the other slot, when all are done with that

What threads load of computed operands themselves, since TMA cannot bring it (nibbles, a scale for each group), they ask
for a turn before they compute, and have it in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.gpu import async_ops
from tiledsl.ir.types import scalar
from tiledsl.passes.analysis.sizes import constant_of
from tiledsl.passes.analysis.splats import number_of
from tiledsl.passes.gpu.layouts.operand_sources import depends_on
from tiledsl.passes.gpu.layouts.select_wgmma import plan_product
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.lower.next_turn_loads import MOST_BYTES_OF_ROLES, NextTurnLoads
from tiledsl.passes.gpu.lower.place_blocks import Turns, define_place
from tiledsl.passes.gpu.plans.product_plans.footprint import COMPUTED_SLOTS
from tiledsl.passes.gpu.products.promoted_sums import is_promoted
from tiledsl.passes.gpu.products.streamed_loads import source_load
from tiledsl.passes.gpu.roles.computed_operands import define_right_operand, right_buffer, write_right_operand
from tiledsl.passes.gpu.roles.products.warpgroup_products import (
    first_sums,
    left_operand,
    multiply,
    remark_product,
    sum_of_loop,
)
from tiledsl.passes.gpu.roles.rings import FedLoop, Ring
from tiledsl.passes.tile.loops.carried_values import carried_arguments, yielded


@dataclass(frozen=True)
class Company:
    """The products of such a loop, by which of its carried values each goes on, and all else that it does."""

    dots: tuple[ops.Dot, ...]
    numbers: tuple[int, ...]
    others: tuple[Op, ...]

    @property
    def is_split(self) -> bool:
        """Whether threads make planes of the operands."""
        return self.dots[0].precision == "split"


def company_of(loop: ops.Range, rings: Sequence[Ring]) -> Company | None:
    """How a loop of a role can be lowered so; None if it cannot."""
    if not rings or any(ring.stages < 2 for ring in rings):
        return None
    dots = [op for op in loop.body.ops if isinstance(op, ops.Dot)]
    others = tuple(op for op in loop.body.ops if not isinstance(op, (ops.Dot, ops.Yield)))
    if any(op.bodies or op.effect in ("write", "control") for op in others):
        return None
    split = {dot.precision == "split" for dot in dots}
    if len(split) != 1 or (any(map(is_promoted, dots)) and not split.pop()):
        return None
    arguments, given = carried_arguments(loop, loop.body), yielded(loop.body)
    numbers = tuple(number for number, value in enumerate(given) if value.op in dots)
    in_order = tuple(value.op for value in given if isinstance(value.op, ops.Dot) and value.op in dots)
    sums = [arguments[number] for number in numbers]
    if not dots or len(set(in_order)) != len(in_order) or len(in_order) != len(dots):
        return None
    if any(dot.acc is not value or len(value.users) != 1 for dot, value in zip(in_order, sums)):
        return None
    reached: set[Value] = {*sums, *(dot.result for dot in dots)}
    operands = [value for dot in dots for value in (dot.a, dot.b)]
    rest = [value for number, value in enumerate(given) if number not in numbers]
    if any(depends_on(value, loop.body, reached) for value in (*operands, *rest)):
        return None
    return Company(in_order, numbers, others)


def lower_company(state: Lowering, op: ops.Range, company: Company, turns: Turns, rings: Sequence[Ring]) -> None:
    """Such a loop. Raises TileResourceError (`plan-specialised`) where its products have no room."""
    PreparedLoop(state, op, company, turns, rings).lower()


class PreparedLoop:
    """Lowers such a loop."""

    def __init__(self, state: Lowering, op: ops.Range, company: Company, turns: Turns, rings: Sequence[Ring]) -> None:
        self.state = state
        self.op = op
        self.dots = company.dots
        self.numbers = company.numbers
        self.others = company.others
        self.turns = turns
        self.fed = FedLoop(rings)
        self.rings = rings
        self.plans = [plan_product(dot, state.capacities, state.grid) for dot in self.dots]
        self.arguments = carried_arguments(op, op.body)
        self.rest = [number for number in range(len(self.arguments)) if number not in self.numbers]
        self.computed = [dot for dot in self.dots if source_load(dot.a) is None]
        self.rights = {dot.b: n for n, dot in enumerate(self.dots) if source_load(dot.b) is None}
        self.buffers: list[Value] = []
        in_ring = [stream.op for ring in rings for stream in ring.streams]
        self.small = NextTurnLoads(state, op, turns, in_ring, MOST_BYTES_OF_ROLES)
        """What comes a turn before it is computed with."""
        self.from_zero = [number_of(op.initial[number]) == 0 for number in self.numbers]

    def lower(self) -> None:
        """All turns; what the loop gives is defined."""
        state = self.state
        for dot, plan in zip(self.dots, self.plans):
            remark_product(state, dot, plan)
        if not self.computed and not self.rights:
            self._define(self._turns_of_stages())
            return
        for dot in self.dots:
            if dot in self.computed or dot.b in self.rights:
                which = "left" if dot in self.computed else "right"
                state.remark(dot, f"its {which} operand is computed a turn ahead, beside the product before")
        self.buffers = [right_buffer(state, self.dots[n], self.plans[n], COMPUTED_SLOTS) for n in self.rights.values()]
        start, stop = constant_of(self.op.start), constant_of(self.op.stop)
        if start is not None and stop is not None and stop > start:
            self._define(self._turns_of_prepared())
            return
        before = self.fed.carried()
        then, otherwise = Block(), Block()
        with state.scope(then):
            made = self._turns_of_prepared()
            state.emit(ops.Yield, values=made)
        self.fed.leave(before)
        with state.scope(otherwise):
            state.emit(ops.Yield, values=[*self._totals(self._first_sums()), *self._begins(), *before])
        condition = state.builder.map("gt", self.turns.count, state.constant(0))
        branch = state.emit(
            ops.If, types=[v.tile for v in made], name=[v.name for v in made], condition=condition, then=then,
            otherwise=otherwise,
        )  # fmt: skip
        self._define(branch.results)

    def _define(self, results: Sequence[Value]) -> None:
        """Says what the loop gives: the sums, the other values, where the rings are."""
        count = len(self.numbers)
        for number, value in zip([*self.numbers, *self.rest], results):
            self.state.define(self.op.results[number], value)
        self.fed.leave(results[count + len(self.rest) :])

    # What both kinds of turns are made of

    def _first_sums(self) -> list[Value]:
        initial = [self.op.initial[number] for number in self.numbers]
        return [first_sums(self.state, *one, None) for one in zip(initial, self.dots, self.plans)]

    def _totals(self, totals: Sequence[Value]) -> list[Value]:
        """What the loop gives of its products."""
        starts = [self.op.initial[number] for number in self.numbers]
        return [sum_of_loop(self.state, *one, None) for one in zip(starts, self.dots, self.plans, totals)]

    def _begins(self) -> list[Value]:
        """What is carried at first beside the sums."""
        return [self._as_carried(number, self.op.initial[number]) for number in self.rest]

    def _as_carried(self, number: int, value: Value) -> Value:
        state, result = self.state, self.op.results[number]
        return state.tile(value, state.layout(result)) if result.shape else state.scalar(value)

    def _compute(self, number: Value, values: Sequence[Value]) -> list[Value]:
        """All of turn `number` but its products, whose blocks are there; what is carried on of it."""
        state = self.state
        place = self.turns.place(state, self.turns.start_of(state, number))
        define_place(state, self.turns.argument, place)
        for carried, value in zip(self.rest, values):
            state.define(self.arguments[carried], value)
        for op in self.others:
            state.lower_op(op)
        given = yielded(self.op.body)
        return [self._as_carried(carried, given[carried]) for carried in self.rest]

    def _lefts(self) -> list[Value]:
        """The left operands that are computed, in registers, each once."""
        found: dict[Value, Value] = {}
        for dot, plan in zip(self.dots, self.plans):
            if dot in self.computed and dot.a not in found:
                with self.state.builder.at(dot.location):
                    left = left_operand(self.state, dot, plan)
                assert left is not None
                found[dot.a] = left
        return list(found.values())

    def _multiply(self, sums: Sequence[Value], lefts: Sequence[Value], later: Value | None) -> list[Value]:
        """Begins the products of the turn whose blocks are defined. `later`: whether it is not the first turn; None
        where that is known."""
        state = self.state
        names = list(dict.fromkeys(dot.a for dot in self.computed))
        with state.builder.at(self.dots[0].location):
            state.emit(async_ops.WgmmaFence)
            products = [
                multiply(
                    state, dot, plan, lefts[names.index(dot.a)] if dot in self.computed else None, acc,
                    later if from_zero else None,
                )
                for dot, plan, acc, from_zero in zip(self.dots, self.plans, sums, self.from_zero)
            ]  # fmt: skip
            state.emit(async_ops.WgmmaCommit)
        return products

    def _loop(
        self, carried: Sequence[Value], stop: Value, turn: Callable[[Value, Sequence[Value]], Sequence[Value]]
    ) -> list[Value]:
        """Turns from 0 to `stop` of what carries that."""
        state = self.state
        body = Block([(scalar(i64), f"{self.op.body.arguments[0].name}_number")])
        for value in carried:
            body.add_argument(value.type, value.name)
        number, *inside = body.arguments
        with state.scope(body):
            state.emit(ops.Yield, values=turn(number, inside))
        loop = state.emit(
            ops.For, types=[v.tile for v in carried], name=[v.name for v in carried], start=state.constant(0),
            stop=stop, step=state.constant(1), initial=carried, body=body,
        )  # fmt: skip
        return list(loop.results)

    # Operands that are computed

    def _write_rights(self, slot: Value) -> None:
        """The right operands that are computed, each once, in shared memory."""
        for number, buffer in zip(self.rights.values(), self.buffers):
            with self.state.builder.at(self.dots[number].location):
                write_right_operand(self.state, self.dots[number], buffer, slot)

    def _ask_first(self) -> list[Value]:
        """What the first turn computes with is there from here on; what the second one will, is asked for."""
        self.small.enter(self.small.of_first())
        self.small.ask(self.state.constant(0))
        return self.small.following()

    def _place(self, slot: Value) -> None:
        """Where the operands of the turn at hand stand."""
        for ring in self.rings:
            ring.define(self.state)
        for number, buffer in zip(self.rights.values(), self.buffers):
            define_right_operand(self.state, self.dots[number], buffer, slot)

    def _turns_of_prepared(self) -> list[Value]:
        """At least one turn. Left operands stand in registers until a product has read them, right ones in slots, so
        that the next product may begin before."""
        return self._turns_of_registers() if self.computed else self._turns_of_slots()

    def _turns_of_registers(self) -> list[Value]:
        """At least one turn."""
        state, count, one = self.state, len(self.dots), self.state.constant(1)
        slots = [state.constant(0)] if self.rights else []
        for slot in slots:
            slot.name = "slot"
        with state.scope(state.builder.block):
            begins = self._begins()
            asked = self._ask_first()
            self.fed.wait(state)
            begins = self._compute(state.constant(0), begins)
            lefts = self._lefts()
            self._write_rights(state.constant(0))
        sums = self._first_sums()
        before_last = state.arithmetic("sub", self.turns.count, one)
        ends = (count, count + len(lefts), count + len(lefts) + len(begins))
        rings = ends[2] + 2 * len(self.rings)

        def turn(number: Value, carried: Sequence[Value]) -> list[Value]:
            before = carried[ends[0] : ends[1]]
            self.fed.enter(carried[ends[2] : rings])
            self.small.enter(carried[rings : len(carried) - len(slots)])
            slot = carried[-1]
            stages = [ring.position.stage for ring in self.rings]
            self._place(slot)
            later = state.builder.map("gt", number, state.constant(0))
            products = self._multiply(carried[:count], before, later)
            for ring in self.rings:
                ring.advance(state)
            self.small.ask(state.arithmetic("add", number, one))
            self.fed.wait(state)
            values = self._compute(state.arithmetic("add", number, one), carried[ends[1] : ends[2]])
            following = self._lefts()
            after = [state.builder.map("sub", one, slot)] if slots else []
            for other in after:
                self._write_rights(other)
            landed = self._land(products, before, stages)
            return [*landed, *following, *values, *self.fed.carried(), *self.small.following(), *after]

        results = self._loop([*sums, *lefts, *begins, *self.fed.carried(), *asked, *slots], before_last, turn)
        self.small.leave()
        lefts, begins = results[ends[0] : ends[1]], results[ends[1] : ends[2]]
        self.fed.leave(results[ends[2] : rings])
        self._place(results[-1])
        later = state.builder.map("gt", self.turns.count, one)
        products = self._multiply(results[:count], lefts, later)
        landed = self._land(products, lefts, [ring.position.stage for ring in self.rings])
        for ring in self.rings:
            ring.advance(state)
        return [*self._totals(landed), *begins, *self.fed.carried()]

    def _turns_of_slots(self) -> list[Value]:
        """The same where right operands alone are computed: the product of a turn is begun behind that of the turn
        before, of which all that is needed is that it has read its slot when that is written to."""
        state, count, one = self.state, len(self.dots), self.state.constant(1)
        slot = state.constant(0)
        slot.name = "slot"
        with state.scope(state.builder.block):
            begins = self._begins()
            asked = self._ask_first()
            self.fed.wait(state)
            begins = self._compute(state.constant(0), begins)
            self._write_rights(state.constant(0))
        befores = [ring.position.stage for ring in self.rings]
        ends = count + len(begins)
        rings = ends + 2 * len(self.rings)

        def turn(number: Value, carried: Sequence[Value]) -> list[Value]:
            *carried, slot = carried
            befores = carried[len(carried) - len(self.rings) :]
            self.fed.enter(carried[ends:rings])
            self.small.enter(carried[rings : len(carried) - len(self.rings)])
            stages = [ring.position.stage for ring in self.rings]
            self._place(slot)
            later = state.builder.map("gt", number, state.constant(0))
            products = self._multiply(carried[:count], [], later)
            self.small.ask(state.arithmetic("add", number, one))
            self._release(later, befores, groups=1)
            for ring in self.rings:
                ring.advance(state)
            self.fed.wait(state)
            values = self._compute(state.arithmetic("add", number, one), carried[count:ends])
            after = state.builder.map("sub", one, slot)
            self._write_rights(after)
            return [*products, *values, *self.fed.carried(), *self.small.following(), *stages, after]

        carried = [*self._first_sums(), *begins, *self.fed.carried(), *asked, *befores, slot]
        results = self._loop(carried, state.arithmetic("sub", self.turns.count, one), turn)
        self.small.leave()
        befores = results[len(results) - 1 - len(self.rings) : -1]
        self.fed.leave(results[ends:rings])
        self._place(results[-1])
        later = state.builder.map("gt", self.turns.count, one)
        products = self._multiply(results[:count], [], later)
        self._release(later, befores, groups=1)
        landed = self._land(products, [], [ring.position.stage for ring in self.rings])
        for ring in self.rings:
            ring.advance(state)
        return [*self._totals(landed), *results[count:ends], *self.fed.carried()]

    def _release(self, later: Value, stages: Sequence[Value], groups: int) -> None:
        """Waits for all products but the last `groups` of them, and gives back what the one before took, if there was
        one."""
        state = self.state
        with state.builder.at(self.dots[0].location):
            state.emit(async_ops.WgmmaWait, values=[], groups=groups)
            with state.when(later):
                for ring, stage in zip(self.rings, stages):
                    ring.release(state, stage)

    def _land(self, products: Sequence[Value], lefts: Sequence[Value], stages: Sequence[Value]) -> list[Value]:
        """Waits for products, and gives back what they took."""
        state = self.state
        with state.builder.at(self.dots[0].location):
            landed = state.emit(async_ops.WgmmaWait, values=[*products, *lefts], groups=0).results
            for ring, stage in zip(self.rings, stages):
                ring.release(state, stage)
        return list(landed[: len(products)])

    # Left operands in stages

    def _turns_of_stages(self) -> list[Value]:
        state, count, zero = self.state, len(self.dots), self.state.constant(0)
        begins = self._begins()
        befores = [ring.position.stage for ring in self.rings]

        def turn(number: Value, carried: Sequence[Value]) -> list[Value]:
            position = count + len(begins)
            self.fed.enter(carried[position:])
            befores = carried[len(carried) - len(self.rings) :]
            self.fed.wait(state)
            later = state.builder.map("ne", number, zero)
            products = self._multiply(carried[:count], [], later)
            values = self._compute(number, carried[count:position])
            state.emit(async_ops.WgmmaWait, values=[], groups=1)
            with state.when(later):
                for ring, before in zip(self.rings, befores):
                    ring.release(state, before)
            stages = [ring.position.stage for ring in self.rings]
            for ring in self.rings:
                ring.advance(state)
            return [*products, *values, *self.fed.carried(), *stages]

        carried = [*self._first_sums(), *begins, *self.fed.carried(), *befores]
        results = self._loop(carried, self.turns.count, turn)
        landed = state.emit(async_ops.WgmmaWait, values=results[:count], groups=0).results
        with state.when(state.builder.map("gt", self.turns.count, zero)):
            for ring, stage in zip(self.rings, results[len(results) - len(self.rings) :]):
                ring.release(state, stage)
        positions = results[count + len(begins) : len(results) - len(self.rings)]
        return [*self._totals(landed), *results[count : count + len(begins)], *positions]

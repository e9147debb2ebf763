"""Loops of a role that make planes of f32 operands, for products by `wgmma` of bf16 (`split-products`).

    planes of block 0: left ones in registers, right ones in slot 0
    for k in 0 ...:
        begin part = the first of six products of the planes at hand
        wait for block k + 1; make planes of it: left ones in registers, right ones in the other slot
            (begin the other five products, part += ..., in between)
        wait for part; give block k back; acc += part
    part = six products of the last planes; acc += part

The planes of a right operand are made once, by all threads of the block together; those of a left one by the warpgroup
that has its rows. What is computed comes in pieces, one behind each product; that took as long as all of it behind the
last one. Sums are promoted, as those of planes that come from memory are (`promoted_sums.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import bool_
from tiledsl.ir.gpu import async_ops
from tiledsl.passes.gpu.lower.lower_dot import added, matrix_of, planes_of
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.lower.place_blocks import Turns
from tiledsl.passes.gpu.products.load_parts import operand_load
from tiledsl.passes.gpu.roles.computed_operands import right_planes, write_plane
from tiledsl.passes.gpu.roles.products.prepared_loops import Company, PreparedLoop
from tiledsl.passes.gpu.roles.products.promoted_products import no_part
from tiledsl.passes.gpu.roles.products.warpgroup_products import multiply
from tiledsl.passes.gpu.roles.rings import Ring
from tiledsl.support.errors import fail


def lower_split_company(state: Lowering, op: ops.Range, company: Company, turns: Turns, rings: Sequence[Ring]) -> None:
    """Such a loop. Raises TileResourceError (`plan-specialised`) where its products have no room."""
    in_ring = [stream.op for ring in rings for stream in ring.streams]
    for dot in company.dots:
        for load in map(operand_load, (dot.a, dot.b)):
            if load is not None and load not in in_ring:  # it would be loaded for the first turn alone
                fail("plan-specialised", dot.location, reason="threads load an operand that they make planes of")
    _SplitLoop(state, op, company, turns, rings).lower()


class _SplitLoop(PreparedLoop):
    def _turns_of_prepared(self) -> list[Value]:
        """At least one turn."""
        state, count, one = self.state, len(self.dots), self.state.constant(1)
        slot = state.constant(0)
        slot.name = "slot"
        with state.scope(state.builder.block):
            begins = self._begins()
            self.fed.wait(state)
            begins = self._compute(state.constant(0), begins)
            lefts = self._planes_of_lefts()
            self._write_rights(state.constant(0))
        sums, parts = self._first_sums(), [no_part(state, plan) for plan in self.plans]
        sizes = (count, count, len(lefts), len(begins), 2 * len(self.rings), 1)

        def turn(number: Value, carried: Sequence[Value]) -> list[Value]:
            sums, parts, before, values, positions, (slot,) = _cut(carried, sizes)
            self.fed.enter(positions)
            stages = [ring.position.stage for ring in self.rings]
            self._place(slot)
            after = state.builder.map("sub", one, slot)
            begun = self._multiply_planes(parts, before)
            next(begun)
            for ring in self.rings:
                ring.advance(state)
            self.fed.wait(state)
            values = self._compute(state.arithmetic("add", number, one), values)
            next(begun)
            following = self._planes_of_lefts()
            for _ in self._write_planes(after):
                next(begun)
            *_, products = begun
            landed = self._land(products, before, stages)
            sums = [added(state, total, part) for total, part in zip(sums, landed)]
            return [*sums, *landed, *following, *values, *self.fed.carried(), after]

        carried = [*sums, *parts, *lefts, *begins, *self.fed.carried(), slot]
        results = self._loop(carried, state.arithmetic("sub", self.turns.count, one), turn)
        sums, parts, lefts, begins, positions, (slot,) = _cut(results, sizes)
        self.fed.leave(positions)
        self._place(slot)
        *_, products = self._multiply_planes(parts, lefts)
        landed = self._land(products, lefts, [ring.position.stage for ring in self.rings])
        for ring in self.rings:
            ring.advance(state)
        sums = [added(state, total, part) for total, part in zip(sums, landed)]
        return [*self._totals(sums), *begins, *self.fed.carried()]

    def _planes_of_lefts(self) -> list[Value]:
        """Of the left operands in registers, each once, behind each other."""
        found: dict[Value, list[Value]] = {}
        for dot, plan in zip(self.dots, self.plans):
            if dot.a not in found:
                with self.state.builder.at(dot.location):
                    left = self.state.convert(matrix_of(self.state, dot.a, 1), plan.left)
                    found[dot.a] = planes_of(self.state, left)
        return [plane for planes in found.values() for plane in planes]

    def _write_planes(self, slot: Value) -> Iterator[None]:
        """Writes the right operands to a slot, plane by plane."""
        made: list[tuple[Value, list[Value]]] = []
        for number, buffer in zip(self.rights.values(), self.buffers):
            with self.state.builder.at(self.dots[number].location):
                made.append((buffer, right_planes(self.state, self.dots[number])))
        for plane in range(ops.PLANES):
            for buffer, planes in made:
                write_plane(self.state, buffer, planes[plane], slot, plane)
            yield

    def _multiply_planes(self, parts: Sequence[Value], lefts: Sequence[Value]) -> Iterator[list[Value]]:
        """Begins the products of the turn whose planes are defined, pair by pair; what is in flight then."""
        state, names = self.state, list(dict.fromkeys(dot.a for dot in self.dots))
        products = list(parts)
        staged = dict(state.staged)
        from_zero = state.constant(False, bool_)
        for pair in ops.PLANE_PAIRS:
            here, state.staged = state.staged, staged  # what is computed in between says where it stands itself
            with state.builder.at(self.dots[0].location):
                if pair == ops.PLANE_PAIRS[0]:
                    state.emit(async_ops.WgmmaFence)
                for number, (dot, plan) in enumerate(zip(self.dots, self.plans)):
                    left = lefts[ops.PLANES * names.index(dot.a) + pair[0]]
                    new = from_zero if pair == ops.PLANE_PAIRS[0] else None
                    products[number] = multiply(state, dot, plan, left, products[number], new, None, pair)
                state.emit(async_ops.WgmmaCommit)
            state.staged = here
            yield products


def _cut(values: Sequence[Value], sizes: Sequence[int]) -> list[list[Value]]:
    """Values in groups of so many."""
    found: list[list[Value]] = []
    start = 0
    for size in sizes:
        found.append(list(values[start : start + size]))
        start += size
    return found

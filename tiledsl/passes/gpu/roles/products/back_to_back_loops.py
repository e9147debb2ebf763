"""Loops with products that take what is made of others, as attention has them: scores, and sums of what they weigh.

    for j in tile.range(K):                            wait for k[j]; scores = q k[j]; give k[j] back
        scores = tile.dot(q, k[j])                     p and w of them
        p, w = ...                             =>      acc * w
        acc = tile.dot(p, v[j], acc * w)               wait for v[j]; acc += p v[j]; give v[j] back

There may be several products of either kind; those of one kind begin together. What the turn computes is cut in two:
what does not depend on `acc` comes *ahead*, what does comes *behind* it. Here everything is lowered in its order;
`transforms/rotate_loops.py` lets the scores of the next turn begin before the sums of this one.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.fold_identities import fold_identity
from tiledsl.ir.gpu import async_ops
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.types import TileType, scalar
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.lower.place_blocks import Turns, define_place
from tiledsl.passes.gpu.plans.product_plans.footprint import BACK_TO_BACK_ROOM, REGISTER_BYTES
from tiledsl.passes.gpu.plans.product_plans.tilings import WARPGROUP
from tiledsl.passes.gpu.products.back_to_back_products import Parts
from tiledsl.passes.gpu.products.streamed_loads import source_load
from tiledsl.passes.gpu.roles.block_masks import Mask, always_whole, masked, masks_of, whole_place
from tiledsl.passes.gpu.roles.bulk_stores import lent_ring
from tiledsl.passes.gpu.roles.distances import distance
from tiledsl.passes.gpu.roles.known_padding import fills_of
from tiledsl.passes.gpu.roles.products.warpgroup_products import (
    initial_accumulator,
    left_operand,
    multiply,
    plan_product,
)
from tiledsl.passes.gpu.roles.products.warpgroup_turns import hand_over
from tiledsl.passes.gpu.roles.rings import Position, Ring
from tiledsl.passes.tile.loops.carried_values import carried_arguments, yielded
from tiledsl.support.location import Location


def lower_back_to_back(state: Lowering, op: ops.Range, parts: Parts, turns: Turns, rings: Sequence[Ring]) -> None:
    """Such a loop of a role. Raises TileResourceError (`plan-specialised`) where its products have no room."""
    BackToBackLoop(state, op, parts, turns, rings).lower()


class BackToBackLoop:
    """The turns of such a loop, made by the threads of one role."""

    def __init__(self, state: Lowering, op: ops.Range, parts: Parts, turns: Turns, rings: Sequence[Ring]) -> None:
        self.state = state
        self.op = op
        self.parts = parts
        self.turns = turns
        self.rings = rings
        dots = (*parts.scores, *(one.dot for one in parts.sums))
        self.plans = {dot: plan_product(dot, state.capacities, state.grid) for dot in dots}
        self.arguments = carried_arguments(op, op.body)
        numbers = [one.number for one in parts.sums]
        self.others = [n for n in range(len(self.arguments)) if n not in numbers]
        masks = masks_of(op)
        sources = {mask.where.result: mask.other for mask in masks if mask.other is not None}
        self.axis = masks[0].axis if masks else 0
        self.fills = fills_of(op, sources)
        self.is_whole = always_whole(state, op, turns)
        self.masks: dict[Op, Mask] = {mask.where: mask for mask in masks}

    def lower(self) -> None:
        """All turns; what the loop gives is defined."""
        state, op = self.state, self.op
        accs = [state.tile(op.initial[one.number], self.plans[one.dot].accumulator) for one in self.parts.sums]
        others = [self._as_carried(number, op.initial[number]) for number in self.others]
        carried = [*accs, *others, *self._positions()]
        numbers = [*(one.number for one in self.parts.sums), *self.others]
        names = [*(self.arguments[number].name for number in numbers), *["stage", "parity"] * len(self.rings)]
        body = Block([(scalar(i64), f"{op.body.arguments[0].name}_number")])
        for value, name in zip(carried, names):
            body.add_argument(value.type, name)
        number, *inside = body.arguments
        with state.scope(body):
            self._place(inside[len(numbers) :])
            sums = len(self.parts.sums)
            state.emit(ops.Yield, values=self._turn(number, inside[:sums], inside[sums : len(numbers)]))
        loop = state.emit(
            ops.For, types=[v.tile for v in carried], name=names, start=state.constant(0), stop=self.turns.count,
            step=state.constant(1), initial=carried, body=body,
        )  # fmt: skip
        for one, result in zip(numbers, loop.results):
            state.define(op.results[one], result)
        self._place(loop.results[len(numbers) :])
        self._release_early()

    def _positions(self) -> list[Value]:
        return [value for ring in self.rings for value in ring.position.values]

    def _place(self, values: Sequence[Value]) -> None:
        for ring, stage, parity in zip(self.rings, values[::2], values[1::2]):
            ring.position = Position(stage, parity)

    def _rings_of(self, dots: Sequence[ops.Dot]) -> list[Ring]:
        return [ring for ring in self.rings if any(_reads(dot, ring) for dot in dots)]

    @property
    def _sum_dots(self) -> list[ops.Dot]:
        return [one.dot for one in self.parts.sums]

    @property
    def _ends(self) -> list[ops.Dot]:
        """The scores to which no others are added."""
        scores = self.parts.scores
        begun = {dot.acc.op for dot in scores if dot.acc is not None}
        return [dot for dot in scores if dot not in begun]

    @property
    def _location(self) -> Location:
        """Of what is said of all scores together."""
        return self.parts.scores[0].location

    def _release_early(self) -> None:
        """After the last scores: gives back what only they were made of, so that it is loaded for the next block."""
        state, grid = self.state, self.op.parent
        if grid is None or not state.grid.programs:
            return
        lent = [lent_ring(state, op) for op in grid.ops if isinstance(op, ops.Store)]
        for ring in state.rings.get(grid, ()):
            loads = ring.feed.loads
            once = len(loads) == 1 and _has_one_user(loads[0].result)
            if ring not in lent and once and any(source_load(dot.a) is loads[0] for dot in self.parts.scores):
                ring.release(state, ring.position.stage)
                ring.is_released = True

    def _turn(self, number: Value, accs: Sequence[Value], others: Sequence[Value]) -> list[Value]:
        self._enter(number)
        for one, value in zip(self.others, others):
            self.state.define(self.arguments[one], value)
        self._load_first()
        self._wait(self.parts.scores)
        hand_over(self.state, "take", self._location)
        begun = self._begin_scores()
        hand_over(self.state, "pass", self._location)
        self._land_scores(begun)
        following = self._ahead()
        accs, lefts = self._behind(accs), self._lefts()
        self._wait(self._sum_dots)
        hand_over(self.state, "take", self._location)
        products = self._begin_sums(accs, lefts)
        hand_over(self.state, "pass", self._location)
        return [*self._land_sums(products, lefts), *following, *self._positions()]

    # Parts of a turn

    def _as_carried(self, number: int, value: Value) -> Value:
        state, result = self.state, self.op.results[number]
        return state.tile(value, state.layout(result)) if result.shape else state.scalar(value)

    def _enter(self, number: Value) -> None:
        state, turns = self.state, self.turns
        place = (
            whole_place(state, turns, number) if self.is_whole else turns.place(state, turns.start_of(state, number))
        )
        define_place(state, turns.argument, place)

    def _wait(self, dots: Sequence[ops.Dot]) -> None:
        for ring in self._rings_of(dots):
            ring.wait(self.state)

    def _give_back(self, dots: Sequence[ops.Dot]) -> None:
        for ring in self._rings_of(dots):
            ring.release(self.state, ring.position.stage)
            ring.advance(self.state)

    def _begin_scores(self) -> list[Value]:
        """The first products, then those of their left operands that are in registers; in flight."""
        state = self.state
        products: list[Value] = []
        lefts: list[Value] = []
        for number, dot in enumerate(self.parts.scores):
            with state.builder.at(dot.location):
                left = left_operand(state, dot, self.plans[dot])
                acc, accumulate = initial_accumulator(state, dot, self.plans[dot])
                if number == 0:
                    state.emit(async_ops.WgmmaFence)
                product = multiply(state, dot, self.plans[dot], left, acc, accumulate)
                if dot in self._ends:
                    products.append(product)
                else:
                    state.define(dot.result, product)  # in flight: the next one adds to it
            lefts += [] if left is None else [left]
        with state.builder.at(self._location):
            state.emit(async_ops.WgmmaCommit)
        return [*products, *lefts]

    def _land_scores(self, begun: Sequence[Value]) -> None:
        state = self.state
        with state.builder.at(self._location):
            landed = state.emit(async_ops.WgmmaWait, values=begun, groups=0).results
            self._give_back(self.parts.scores)
        for dot, value in zip(self._ends, landed):
            value.name = dot.result.name
            state.define(dot.result, value)

    def _begin_sums(self, accs: Sequence[Value], lefts: Sequence[Value | None]) -> list[Value]:
        """The last products; in flight. `lefts`: their left operands in registers, None for those in shared memory."""
        state, parts = self.state, self.parts
        left_of = dict(zip(parts.lefts, lefts))
        products: list[Value] = []
        with state.builder.at(self._sum_dots[0].location):
            state.emit(async_ops.WgmmaFence)
        for one, acc in zip(parts.sums, accs):
            with state.builder.at(one.dot.location):
                products.append(multiply(state, one.dot, self.plans[one.dot], left_of[one.dot.a], acc, None))
        with state.builder.at(self._sum_dots[-1].location):
            state.emit(async_ops.WgmmaCommit)
        return products

    def _land_sums(self, products: Sequence[Value], lefts: Sequence[Value]) -> list[Value]:
        with self.state.builder.at(self._sum_dots[0].location):
            landed = self.state.emit(async_ops.WgmmaWait, values=[*products, *lefts], groups=0).results
            self._give_back(self._sum_dots)
        return list(landed[: len(products)])

    def _load_first(self) -> None:
        """What scores are combined with (a mask, a bias, a number for each key), while nothing is waited for yet: as
        much of it as threads have registers for beside the products."""
        state, room = self.state, self._room
        for op in self.parts.ahead:
            if not isinstance(op, ops.Load) or not op.result.shape or any(_is_made_by(v, op) for v in op.operands):
                continue
            taken = _words(state.layout(op.result), op.result.dtype.bytes)
            if taken > room:
                continue
            room -= taken
            state.kept.discard(op.result)
            state.lower_op(op)
            state.kept.add(op.result)

    @property
    def _room(self) -> int:
        """Registers of a thread that tiles of products leave: scores, sums, left operands of these."""
        parts = self.parts
        held = sum(self.plans[dot].accumulator.slots for dot in (*self._ends, *self._sum_dots))
        lefts = {one.dot.a: one.dot for one in parts.sums}
        held += sum(_words(self.plans[dot].left, left.dtype.bytes) for left, dot in lefts.items())
        return BACK_TO_BACK_ROOM.get(self.state.grid.threads_of_tile // WARPGROUP, 0) - held

    def _ahead(self) -> list[Value]:
        """What does not depend on the accumulator; what is carried on of it."""
        state = self.state
        for op in self.parts.ahead:
            if isinstance(op, ops.Reduce) and not op.has_body("combiner"):
                self._pad(op)
            mask, away = self.masks.get(op), distance(state, op, self._ends[0].result)
            if away is not None:
                state.define(op.results[0], away)
            elif mask is None or not self._mask(mask):
                state.lower_op(op)
            self._know_padding(op)
        state.kept.difference_update(op.results[0] for op in self.parts.ahead if isinstance(op, ops.Load))
        given = yielded(self.op.body)
        return [self._as_carried(number, given[number]) for number in self.others]

    def _know_padding(self, op: Op) -> None:
        """Says of what is computed of a masked tile what its padding is."""
        for result in op.results:
            if result in self.fills:
                self.state.know_padding(
                    self.state.tile(result, self.state.layout(result)), self.axis, self.fills[result]
                )

    def _pad(self, fold: ops.Reduce) -> None:
        """Pads what is folded, once for all that is made of it: else the tile would be kept with and without."""
        state, (source,) = self.state, fold.sources
        layout = state.layout(source)
        with state.builder.at(fold.location):
            tile = state.tile(source, layout)
            padded = state.padded(tile, source.shape, fold_identity(fold.fn, source.dtype), fold.axes, tile.name)
            if padded is not tile:
                state.redefine(source, padded)

    def _mask(self, mask: Mask) -> bool:
        """Defines what a mask gives; whether it could."""
        state, result = self.state, mask.where.result
        layout = state.layout(result)
        with state.builder.at(mask.where.location):
            made = masked(state, mask, layout)
        if made is None:
            self.fills = {}
            return False
        state.define(result, made)
        return True

    def _behind(self, accs: Sequence[Value]) -> list[Value]:
        """What becomes of accumulators before the next products are added to them."""
        state = self.state
        made: list[Value] = []
        for one, acc in zip(self.parts.sums, accs):
            assert one.dot.acc is not None
            state.define(self.arguments[one.number], acc)
            for op in one.behind:
                state.lower_op(op)
            made.append(state.tile(one.dot.acc, self.plans[one.dot].accumulator))
        return made

    def _lefts(self) -> list[Value]:
        """The left operands of the next sums, in registers."""
        first = {one.dot.a: one.dot for one in reversed(self.parts.sums)}
        return [self._left(first[left]) for left in self.parts.lefts]

    def _left(self, dot: ops.Dot) -> Value:
        state = self.state
        with state.builder.at(dot.location):
            cast = dot.a.op
            if isinstance(cast, ops.Cast):  # without padding before it is made narrow: one element at a time
                wide = state.any(cast.source)
                wide = state.padded(wide, cast.source.shape, 0.0 if wide.dtype.is_float else 0, [1])
                type_ = TileType(cast.dtype, wide.layout.shape, "register", wide.layout)
                narrow = state.emit(ops.Cast, types=[type_], name=dot.a.name, source=wide, dtype=cast.dtype).result
                return state.convert(narrow, self.plans[dot].left)
            left = left_operand(state, dot, self.plans[dot])
        assert left is not None
        return left


def _reads(dot: ops.Dot, ring: Ring) -> bool:
    """Whether a product takes what a ring brings."""
    return any(source_load(operand) in ring.feed.loads for operand in (dot.a, dot.b))


def _is_made_by(value: Value, op: Op) -> bool:
    """Whether an op of the same block, thus of the same turn, makes an operand of another one."""
    return value.op is not None and value.op.parent is op.parent


def _words(layout: RegisterLayout, element_bytes: int) -> int:
    """Registers of a thread for a tile."""
    return -(-layout.slots * element_bytes // REGISTER_BYTES)


def _has_one_user(value: Value) -> bool:
    """Whether one product alone takes a tile, perhaps transposed."""
    users = list(value.users)
    if len(users) != 1 or value.users[users[0]] != 1:
        return False
    return not isinstance(users[0], ops.Transpose) or _has_one_user(users[0].result)

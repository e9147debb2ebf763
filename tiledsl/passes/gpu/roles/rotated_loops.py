"""Loops with products that take what is made of others, as attention has them: scores, and sums of what they weigh.

    for j in tile.range(K):                            scores of block 0; p
        scores = tile.dot(q, k[j])                     for j in 1 ...:
        p, w = ...                             =>          begin scores of block j
        acc = tile.dot(p, v[j], acc * w)                   begin acc += p v[j - 1]
                                                           wait for the scores; p and w of block j
                                                           wait for acc; acc * w
                                                       acc += p v[last]

There may be several products of either kind; those of one kind begin together. So what is computed of the scores goes
on beside a product. What the turn computes is cut in two: what does not depend
on `acc` comes *ahead*, what does comes *behind* it (elementwise, so that it may as well be done a turn early). Clean
turns, in which no mask does anything, get a loop of their own afterwards (`transforms/peel_masks.py`).
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
from tiledsl.passes.analysis.sizes import constant_of
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.lower.place_blocks import Turns, define_place
from tiledsl.passes.gpu.plans.product_plans.footprint import BACK_TO_BACK_ROOM, REGISTER_BYTES
from tiledsl.passes.gpu.plans.product_plans.tilings import WARPGROUP
from tiledsl.passes.gpu.products.streamed_loads import source_load
from tiledsl.passes.gpu.roles.block_masks import Mask, always_whole, masked, masks_of, whole_place
from tiledsl.passes.gpu.roles.bulk_stores import lent_ring
from tiledsl.passes.gpu.roles.distances import distance
from tiledsl.passes.gpu.roles.known_padding import fills_of
from tiledsl.passes.gpu.roles.rings import Position, Ring
from tiledsl.passes.gpu.roles.rotations import Rotation
from tiledsl.passes.gpu.roles.warpgroup_products import initial_accumulator, left_operand, multiply, plan_product
from tiledsl.passes.gpu.roles.warpgroup_turns import hand_over
from tiledsl.passes.tile.carried_values import carried_arguments, yielded
from tiledsl.support.location import Location


def lower_rotated_loop(state: Lowering, op: ops.Range, rotation: Rotation, turns: Turns, rings: Sequence[Ring]) -> None:
    """A loop of a role, rotated. Raises TileResourceError (`plan-specialised`) where its products have no room."""
    for dot in rotation.scores:
        state.remark(dot, "begun before the product of the turn before is done")
    _RotatedLoop(state, op, rotation, turns, rings).lower()


class _RotatedLoop:
    def __init__(self, state: Lowering, op: ops.Range, rotation: Rotation, turns: Turns, rings: Sequence[Ring]) -> None:
        self.state = state
        self.op = op
        self.rotation = rotation
        self.turns = turns
        self.rings = rings
        dots = (*rotation.scores, *(one.dot for one in rotation.sums))
        self.plans = {dot: plan_product(dot, state.capacities, state.grid) for dot in dots}
        self.arguments = carried_arguments(op, op.body)
        numbers = [one.number for one in rotation.sums]
        self.others = [n for n in range(len(self.arguments)) if n not in numbers]
        masks = masks_of(op)
        sources = {mask.where.result: mask.other for mask in masks if mask.other is not None}
        self.axis = masks[0].axis if masks else 0
        self.fills = fills_of(op, sources)
        self.is_whole = always_whole(state, op, turns)
        self.masks: dict[Op, Mask] = {mask.where: mask for mask in masks}

    def lower(self) -> None:
        """All turns, if there is any: what is carried is then as before."""
        state, op = self.state, self.op
        start, stop = constant_of(op.start), constant_of(op.stop)
        if start is not None and stop is not None and stop > start:
            self._define(self._turns())
            return
        before = [ring.position for ring in self.rings]
        then, otherwise = Block(), Block()
        with state.scope(then):
            made = self._turns()
            state.emit(ops.Yield, values=made)
        for ring, position in zip(self.rings, before):
            ring.position = position
        with state.scope(otherwise):
            initial = [
                state.tile(value, made[number].layout) if value.shape else state.scalar(value)
                for number, value in enumerate(op.initial)
            ]
            self._release_early()
            state.emit(ops.Yield, values=[*initial, *self._positions()])
        condition = state.builder.map("gt", self.turns.count, state.constant(0))
        branch = state.emit(
            ops.If, types=[v.tile for v in made], name=[v.name for v in op.results], condition=condition, then=then,
            otherwise=otherwise,
        )  # fmt: skip
        self._define(branch.results)

    def _define(self, results: Sequence[Value]) -> None:
        count = len(self.op.results)
        for result, lowered in zip(self.op.results, results[:count]):
            self.state.define(result, lowered)
        self._place(results[count:])

    def _positions(self) -> list[Value]:
        return [value for ring in self.rings for value in ring.position.values]

    def _place(self, values: Sequence[Value]) -> None:
        for ring, stage, parity in zip(self.rings, values[::2], values[1::2]):
            ring.position = Position(stage, parity)

    def _rings_of(self, dots: Sequence[ops.Dot]) -> list[Ring]:
        return [ring for ring in self.rings if ring.feed.dot in dots]

    @property
    def _sum_dots(self) -> list[ops.Dot]:
        return [one.dot for one in self.rotation.sums]

    @property
    def _ends(self) -> list[ops.Dot]:
        """The scores to which no others are added."""
        scores = self.rotation.scores
        begun = {dot.acc.op for dot in scores if dot.acc is not None}
        return [dot for dot in scores if dot not in begun]

    @property
    def _location(self) -> Location:
        """Of what is said of all scores together."""
        return self.rotation.scores[0].location

    # What is carried: accumulators, left operands of their next products, all else, where the rings are

    def _turns(self) -> list[Value]:
        """Every turn; what the loop gives, and where the rings are."""
        carried = self._loop(self._first())
        self._release_early()
        return self._last(carried)

    def _release_early(self) -> None:
        """After the last scores: gives back what only they were made of, so that it is loaded for the next block."""
        state, grid = self.state, self.op.parent
        if grid is None or not state.grid.programs:
            return
        lent = [lent_ring(state, op) for op in grid.ops if isinstance(op, ops.Store)]
        for ring in state.rings.get(grid, ()):
            loads = ring.feed.loads
            once = len(loads) == 1 and _has_one_user(loads[0].result)
            if ring not in lent and once and any(source_load(dot.a) is loads[0] for dot in self.rotation.scores):
                ring.release(state, ring.position.stage)
                ring.is_released = True

    def _first(self) -> list[Value]:
        """The first turn, up to the product that ends it."""
        state = self.state
        with state.scope(state.builder.block):
            carried = [self._initial(number) for number in self.others]
            self._define_others(carried)
            self._enter(state.constant(0))
            self._load_first()
            self._wait(self.rotation.scores)
            hand_over(state, "take", self._location)
            begun = self._begin_scores()
            hand_over(state, "pass", self._location)
            self._land_scores(begun, 0)
            following = self._ahead()
            accs = self._behind([self._initial(one.number) for one in self.rotation.sums])
            return [*accs, *self._lefts(), *following, *self._positions()]

    def _loop(self, carried: Sequence[Value]) -> list[Value]:
        """All turns but the first one."""
        state = self.state
        index = self.op.body.arguments[0].name
        body = Block([(scalar(i64), f"{index}_number")])
        names = ["acc"] * len(self.rotation.sums) + ["left"] * len(self.rotation.lefts)
        names += [self.arguments[number].name for number in self.others]
        places = 2 * len(self.rings)
        for value, name in zip(carried, [*names, *["stage", "parity"] * len(self.rings)]):
            body.add_argument(value.type, name)
        number, *inside = body.arguments
        with state.scope(body):
            self._place(inside[-places:])
            state.emit(ops.Yield, values=self._turn(number, inside[:-places]))
        types = [TileType(v.dtype, v.shape, "register", v.layout) if v.shape else scalar(v.dtype) for v in carried]
        loop = state.emit(
            ops.For, types=types, name=[*names, *[""] * places], start=state.constant(1), stop=self.turns.count,
            step=state.constant(1), initial=carried, body=body,
        )  # fmt: skip
        self._place(loop.results[-places:])
        return list(loop.results)

    def _parts(self, carried: Sequence[Value]) -> tuple[list[Value], list[Value], list[Value]]:
        """Accumulators, left operands, all else that is carried."""
        sums, lefts = len(self.rotation.sums), len(self.rotation.lefts)
        return list(carried[:sums]), list(carried[sums : sums + lefts]), list(carried[sums + lefts :])

    def _turn(self, number: Value, carried: Sequence[Value]) -> list[Value]:
        accs, lefts, others = self._parts(carried)
        self._enter(number)
        self._define_others(others)
        self._load_first()
        self._wait(self.rotation.scores)
        hand_over(self.state, "take", self._location)
        begun = self._begin_scores()
        self._wait(self._sum_dots)
        products = self._begin_sums(accs, lefts)
        hand_over(self.state, "pass", self._location)
        self._land_scores(begun, 1)
        following = self._ahead()
        accs = self._behind(self._land_sums(products, lefts))
        return [*accs, *self._lefts(), *following, *self._positions()]

    def _last(self, carried: Sequence[Value]) -> list[Value]:
        """The products that end the last turn; what the loop gives."""
        state = self.state
        accs, lefts, others = self._parts(carried[: -2 * len(self.rings)])
        with state.builder.at(self._sum_dots[0].location):
            state.emit(async_ops.WgmmaFence)
        self._wait(self._sum_dots)
        landed = self._land_sums(self._begin_sums(accs, lefts), lefts)
        given = {one.number: value for one, value in zip(self.rotation.sums, landed)}
        given.update(zip(self.others, others))
        return [*(given[number] for number in range(len(given))), *self._positions()]

    # Parts of a turn

    def _initial(self, number: int) -> Value:
        state, value = self.state, self.op.initial[number]
        result = self.op.results[number]
        return state.tile(value, state.layout(result)) if result.shape else state.scalar(value)

    def _enter(self, number: Value) -> None:
        state, turns = self.state, self.turns
        place = (
            whole_place(state, turns, number) if self.is_whole else turns.place(state, turns.start_of(state, number))
        )
        define_place(state, turns.argument, place)

    def _define_others(self, values: Sequence[Value]) -> None:
        for number, value in zip(self.others, values):
            self.state.define(self.arguments[number], value)

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
        for number, dot in enumerate(self.rotation.scores):
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

    def _land_scores(self, begun: Sequence[Value], groups: int) -> None:
        state = self.state
        with state.builder.at(self._location):
            landed = state.emit(async_ops.WgmmaWait, values=begun, groups=groups).results
            self._give_back(self.rotation.scores)
        for dot, value in zip(self._ends, landed):
            value.name = dot.result.name
            state.define(dot.result, value)

    def _begin_sums(self, accs: Sequence[Value], lefts: Sequence[Value]) -> list[Value]:
        state, rotation = self.state, self.rotation
        left_of = dict(zip(rotation.lefts, lefts))
        products: list[Value] = []
        for one, acc in zip(rotation.sums, accs):
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
        for op in self.rotation.ahead:
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
        rotation = self.rotation
        held = sum(self.plans[dot].accumulator.slots for dot in (*self._ends, *self._sum_dots))
        lefts = {one.dot.a: one.dot for one in rotation.sums}
        held += sum(_words(self.plans[dot].left, left.dtype.bytes) for left, dot in lefts.items())
        return BACK_TO_BACK_ROOM.get(self.state.grid.threads_of_tile // WARPGROUP, 0) - held

    def _ahead(self) -> list[Value]:
        """What does not depend on the accumulator; what is carried on of it."""
        state = self.state
        for op in self.rotation.ahead:
            if isinstance(op, ops.Reduce) and not op.has_body("combiner"):
                self._pad(op)
            mask, away = self.masks.get(op), distance(state, op, self._ends[0].result)
            if away is not None:
                state.define(op.results[0], away)
            elif mask is None or not self._mask(mask):
                state.lower_op(op)
            self._know_padding(op)
        state.kept.difference_update(op.results[0] for op in self.rotation.ahead if isinstance(op, ops.Load))
        following: list[Value] = []
        given = yielded(self.op.body)
        for number in self.others:
            result = self.op.results[number]
            if result.shape:
                following.append(state.tile(given[number], state.layout(result)))
            else:
                following.append(state.scalar(given[number]))
        return following

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
        for one, acc in zip(self.rotation.sums, accs):
            assert one.dot.acc is not None
            state.define(self.arguments[one.number], acc)
            for op in one.behind:
                state.lower_op(op)
            made.append(state.tile(one.dot.acc, self.plans[one.dot].accumulator))
        return made

    def _lefts(self) -> list[Value]:
        """The left operands of the next sums, in registers."""
        first = {one.dot.a: one.dot for one in reversed(self.rotation.sums)}
        return [self._left(first[left]) for left in self.rotation.lefts]

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

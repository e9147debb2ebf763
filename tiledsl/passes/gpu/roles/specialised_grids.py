"""Grids whose blocks have roles: one warp loads by TMA, warpgroups of consumers multiply and store.

    tile.grid([%M, %N]) body(%m, %n) {            gpu.launch([%programs]) {threads = 384} body(%program) {
      %c = tile.range(...) {                        gpu.role() {first = 0, threads = 256} body() {
        %a = tile.load ...                            for each block of this program:
        %b = tile.load ...                   =>         for k: wait until full; multiply; release
        %c = tile.dot(%a, %b, ...)                      store
      }                                             }
      tile.store(%c)                                gpu.role() {first = 256, threads = 32} body() {
    }                                                 for each block of this program:
                                                        for k: wait until empty; load
                                                    }

Both roles go through the same blocks and loops in the same order. The producer makes the loads and no more; consumers
do all the rest, as a plain grid does it. With "pingpong" there are several roles of consumers, which make every so
manieth block of their program each, and multiply in turn (`product_order.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.gpu import async_ops
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.gpu.tensor_maps import LINE_BYTES, UNIT_BYTES
from tiledsl.ir.gpu.warpgroup_instructions import WARPGROUP
from tiledsl.ir.layouts.layout import WARP
from tiledsl.ir.types import scalar
from tiledsl.passes.gpu.layouts.select_wgmma import plan_product
from tiledsl.passes.gpu.lower.aligned_copies import AlignedCopy, copy_rows
from tiledsl.passes.gpu.lower.lower_memory import load_alignment
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.lower.place_blocks import define_place, turns_of
from tiledsl.passes.gpu.plan import APART, LOADING_THREADS, GridPlan
from tiledsl.passes.gpu.plans.product_plans.footprint import REGISTERS_APART, registers_of_roles
from tiledsl.passes.gpu.plans.product_plans.shared_loops import check_splits
from tiledsl.passes.gpu.products.apart_products import Apart, apart_of
from tiledsl.passes.gpu.products.row_starts import of_copy, row_start
from tiledsl.passes.gpu.products.streamed_loads import COPIED_BYTES, DeclinedError, Feed, feeds_of
from tiledsl.passes.gpu.roles.beside_loads import beside_feeds, beside_rings
from tiledsl.passes.gpu.roles.block_walks import BlockWalk
from tiledsl.passes.gpu.roles.bulk_stores import drain_stores, lent_ring
from tiledsl.passes.gpu.roles.counted_walks import CountedWalk
from tiledsl.passes.gpu.roles.exchange_sums import SplitSum
from tiledsl.passes.gpu.roles.product_order import ProductOrder
from tiledsl.passes.gpu.roles.products.pingpong_walks import PingpongWalk
from tiledsl.passes.gpu.roles.products.scores_apart import Handover, Side, grid_of_scores
from tiledsl.passes.gpu.roles.products.warpgroup_turns import begin_and_end
from tiledsl.passes.gpu.roles.rings import Ring, carry_positions
from tiledsl.support.errors import fail


def lower_specialised_grid(state: Lowering, op: ops.Grid, consumers: int) -> None:
    """A grid of a plan with roles. `consumers`: roles that make tiles, each with the threads of the grid.

    Raises TileResourceError (`plan-specialised`) where it cannot be one.
    """
    try:
        feeds = feeds_of(op, state.machine.capability, lambda load: _alignment(state, load), COPIED_BYTES)
        if state.grid.splits > 1:
            check_splits(op, feeds, state.grid)
        if state.grid.roles == "pingpong":
            _check_turns(state.grid, consumers, feeds)
        if state.grid.counted:
            _check_counted(state.grid)
        apart = apart_of(op, feeds) if state.grid.roles == APART else None
        if apart is not None:
            check_apart(state.grid)
    except DeclinedError as declined:
        fail("plan-specialised", op.location, reason=str(declined))
    copies: dict[Value, AlignedCopy] = {}
    for tensor in dict.fromkeys(load.tensor for feed in feeds for load in feed.loads):
        number = state.tensor_number(tensor)
        if number in state.grid.copied:
            target = LINE_BYTES if number in state.grid.lines else UNIT_BYTES
            copies[tensor] = copy_rows(state, tensor, state.plan.alignment[number], target)
            state.remark(op, f"`{tensor.name}` is copied before, to rows that start at multiples of {target} bytes")
    beside = () if copies or state.grid.splits > 1 else beside_feeds(op, feeds, lambda one: load_alignment(state, one))
    _SpecialisedGrid(state, op, feeds, beside, consumers, copies, apart).lower()


def _check_turns(grid: GridPlan, consumers: int, feeds: Sequence[Feed]) -> None:
    """Whether consumers can make blocks in turn."""
    if not grid.programs:
        raise DeclinedError("consumers in turn need programs that go through several blocks")
    if consumers < 2:
        raise DeclinedError(f"{grid.threads} threads make one tile, so that nobody takes turns")
    loops = {feed.block for feed in feeds}
    if len(loops) > 1 or not isinstance(next(iter(loops)).parent, ops.Range):
        raise DeclinedError("consumers in turn take what they multiply from one loop")


def _check_counted(grid: GridPlan) -> None:
    """Whether programs can take blocks from a counter."""
    if not grid.programs:
        raise DeclinedError("blocks from a counter need programs that go through several of them")
    if grid.roles == "pingpong":
        raise DeclinedError("consumers in turn know the blocks of their program from the start")
    if grid.cluster > 1:
        raise DeclinedError("the blocks of a cluster would have to be told alike what the counter gave")


def check_apart(grid: GridPlan) -> None:
    """Whether one role can make scores, and another one sums. Raises DeclinedError."""
    if grid.programs or grid.cluster > 1:
        raise DeclinedError("a role for scores makes one tile, in a block of its own")


def _alignment(state: Lowering, load: ops.Load) -> int:
    """Of what a load reads of rows of its tensor, or of the tensor's copy."""
    if state.tensor_number(load.tensor) in state.grid.copied:
        return of_copy(row_start(load, UNIT_BYTES, state.size_multiple))
    return load_alignment(state, load)


class _SpecialisedGrid:
    def __init__(
        self,
        state: Lowering,
        op: ops.Grid,
        feeds: Sequence[Feed],
        beside: Sequence[Feed],
        consumers: int,
        copies: Mapping[Value, AlignedCopy],
        apart: Apart | None,
    ) -> None:
        self.apart = apart
        self.beside = beside
        self.state = state
        self.consumers = consumers
        self.copies = copies
        self.op = op
        self.feeds = feeds

    def lower(self) -> None:
        state, grid = self.state, self.state.grid
        threads = grid.threads * self.consumers + (WARPGROUP if self.apart is not None else 0)
        walk = CountedWalk(state, self.op, threads) if grid.counted else PingpongWalk(state, self.op)
        body = Block([(scalar(i64), name) for name in walk.argument_names])
        with state.scope(body):
            walk.begin(body.arguments)
            rings = [self._ring(feed) for feed in self.feeds]
            if grid.splits > 1:
                product = plan_product(self.feeds[0].dot, state.capacities, grid)
                buffers = [stream.buffer for stream in rings[0].streams]
                rings[0].sums = SplitSum(state, product, rings[0].rows_to_load, buffers)
            if not any(ring.by_threads for ring in rings):
                rings += self._rings_beside(rings)
            state.emit(gpu.Barrier, scope="cluster" if grid.cluster > 1 else "block")
            copies = any(ring.by_threads for ring in rings)
            back_to_back = len({feed.dot for feed in self.feeds}) > 1
            few, many = registers_of_roles(
                state.machine, threads // WARPGROUP, grid.resident, back_to_back=back_to_back, copies=copies
            )
            if self.apart is not None:
                few = self._roles_apart(self.apart, walk, rings)
            for own in range(self.consumers if self.apart is None else 0):
                self._role(own * grid.threads, grid.threads, many, lambda own=own: self._consume(walk, rings, own))
            loading = LOADING_THREADS if copies else WARP
            self._role(threads, loading, few, lambda: self._produce(walk, rings, loading))
            state.emit(ops.Yield)
        state.emit(
            gpu.Launch, stops=walk.stops, blocks=walk.blocks, threads=threads + LOADING_THREADS,
            cluster=grid.cluster, raster=walk.raster, resident=grid.resident, body=body,
        )  # fmt: skip

    def _ring(self, feed: Feed) -> Ring:
        stages = self.state.grid.stages
        if feed.block is self.op.body:
            stages = 1
        else:
            loop = feed.block.parent
            assert isinstance(loop, ops.Range)
            stages = loop.num_stages or stages
        ring = Ring(self.state, feed, stages, self.copies, readers=self._readers(feed))
        for stream in ring.streams:
            how = "by TMA" if stream.layout is None else "by copies of threads"
            who = "a warpgroup" if ring.by_threads else "a warp"
            self.state.remark(stream.op, f"loaded {how}, into {stages} stages, by {who} of its own")
        for load, reason in feed.left_out:
            self.state.remark(load, f"loaded by the threads that multiply, because {reason}")
        return ring

    def _readers(self, feed: Feed) -> int:
        """Threads that read what a feed brings, where not all of them do; else 0."""
        if self.apart is None:
            return 0
        scores, sums = (self.apart.reads(feed, scores=one) for one in (True, False))
        return WARPGROUP * scores + self.state.grid.threads * sums

    def _rings_beside(self, rings: Sequence[Ring]) -> list[Ring]:
        found = beside_rings(self.state, self.beside, rings, self.consumers)
        for ring in found:
            for stream in ring.streams:
                self.state.remark(stream.op, "loaded by TMA, before the last products are made")
        return found

    def _role(self, first: int, threads: int, registers: int, inside: Callable[[], None]) -> None:
        state = self.state
        body = Block()
        with state.scope(body):
            inside()
            state.emit(ops.Yield)
        if state.grid.warps[1] > 1:  # warpgroups share rows, and exchange what they made of their columns
            _make_buffers_first(body)
        state.emit(async_ops.Role, first=first, threads=threads, registers=registers, body=body)

    # Consumers

    def _roles_apart(self, apart: Apart, walk: BlockWalk, rings: Sequence[Ring]) -> int:
        """The roles of sums and of scores; the registers of each thread that loads."""
        sums = self.state
        scores = sums.beside(grid_of_scores(sums.grid))
        handover = Handover(sums, apart)
        few, *many = REGISTERS_APART
        sums.side, scores.side = Side(apart, handover, False), Side(apart, handover, True)
        for state, first, registers in ((sums, 0, many[0]), (scores, sums.grid.threads, many[1])):
            side = state.side
            assert side is not None
            own = [ring for ring in rings if apart.reads(ring.feed, scores=side.is_scores)]
            side.skip(state, self.op)
            there = copy(walk)
            there.state = state
            self._role(first, state.grid.threads, registers, lambda: self._consume_apart(state, there, own))  # noqa: B023
        return few

    def _consume_apart(self, state: Lowering, walk: BlockWalk, rings: Sequence[Ring]) -> None:
        state.rings = {}
        state.staged.clear()
        for ring in rings:
            ring.begin(state)
            state.rings.setdefault(ring.block, []).append(ring)

        def one_block() -> None:
            state.lower_block(self.op.body)
            if state.side is not None and state.side.is_scores:
                state.side.handover.write_ends(state)
            for ring in state.rings.get(self.op.body, ()):
                ring.release(state, ring.position.stage)

        walk.each(rings, one_block)
        drain_stores(state)

    def _consume(self, walk: BlockWalk, rings: Sequence[Ring], own: int) -> None:
        state = self.state
        role = state.builder.block
        state.takes_turns = False
        state.rings = {}
        state.staged.clear()
        for ring in rings:
            ring.begin(state)
            state.rings.setdefault(ring.block, []).append(ring)

        def one_block() -> None:
            state.lower_block(self.op.body)
            lent = [lent_ring(state, op) for op in self.op.body.ops if isinstance(op, ops.Store)]
            for ring in state.rings.get(self.op.body, ()):
                if ring in lent and state.grid.programs:
                    state.emit(async_ops.BulkWait, groups=0, read=True)
                if not ring.is_released:
                    ring.release(state, ring.position.stage)
                ring.is_released = False
                ring.advance(state)

        if state.grid.roles == "pingpong":
            assert isinstance(walk, PingpongWalk)
            self._consume_in_turn(walk, rings, own)
        else:
            walk.each(rings, one_block)
        begin_and_end(state, role, self.op.location)
        drain_stores(state)
        for ring in rings:
            if ring.sums is not None:
                ring.sums.finish(state)

    def _consume_in_turn(self, walk: PingpongWalk, rings: Sequence[Ring], own: int) -> None:
        """Every so manieth block; the stages of the others are left out."""
        state = self.state

        def make(number: Value) -> None:
            order = ProductOrder(state, own, self.consumers, number, walk.turns)
            for ring in rings:
                ring.order = order
            state.lower_block(self.op.body)
            for ring in state.rings.get(self.op.body, ()):
                ring.release(state, ring.position.stage)
                ring.advance(state)

        def skip() -> None:
            for ring in state.rings.get(self.op.body, ()):
                ring.advance(state)
            for op in self.op.body.ops:
                skipped = [ring for ring in rings if isinstance(op, ops.Range) and ring.block is op.body]
                if isinstance(op, ops.Range) and skipped:
                    count = turns_of(state, op).count
                    for ring in skipped:
                        ring.skip(state, count)

        walk.each_of(rings, own, self.consumers, make, skip)

    # Producer

    def _produce(self, walk: BlockWalk, rings: Sequence[Ring], threads: int) -> None:
        for ring in rings:
            ring.begin(self.state)
        walk.each_to_load(rings, threads, lambda: self._load_block(self.op.body, rings))
        if self.state.grid.cluster > self.state.grid.splits:
            self._drain(rings)

    def _load_block(self, block: Block, rings: Sequence[Ring], turn: Value | None = None) -> None:
        """The loads of a block, in the order of the program; in turn number `turn` of a loop."""
        firsts = {ring.feed.loads[0]: ring for ring in rings if ring.block is block}
        for op in block.ops:
            ring = firsts.get(op)  # type: ignore[arg-type]
            if ring is not None:
                with self.state.builder.at(op.location):
                    ring.fill(self.state, turn)
            elif isinstance(op, ops.Range):
                inside = [ring for ring in rings if ring.block is op.body]
                if inside:
                    with self.state.builder.at(op.location):
                        self._load_loop(op, inside)

    def _load_loop(self, op: ops.Range, rings: Sequence[Ring]) -> None:
        state = self.state
        turns = turns_of(state, op)

        def turn(number: Value) -> None:
            define_place(state, turns.argument, turns.place(state, turns.start_of(state, number)))
            self._load_block(op.body, rings, number)

        carry_positions(state, rings, turns.count, f"{op.body.arguments[0].name}_number", turn)
        for ring in rings:
            ring.finish(state, turns.count)

    def _drain(self, rings: Sequence[Ring]) -> None:
        """Waits until every stage is empty: blocks of the cluster may still arrive at this one's mbarriers."""
        state = self.state
        for ring in rings:
            for _ in range(ring.stages):
                ring.wait_empty(state)
                ring.advance(state)


def _make_buffers_first(role: Block) -> None:
    """Puts the buffers of a role's loops in front of all that it does: they have memory of their own all the time,
    which copies of a loop (of its first turn, of turns without masks) are to share."""
    first = role.ops[0]
    for op in role.walk():
        if isinstance(op, gpu.Buffer) and op.parent is not None and op.parent is not role:
            op.parent.ops.remove(op)
            role.insert_before(first, op)

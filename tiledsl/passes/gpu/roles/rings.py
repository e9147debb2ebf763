"""Rings of stages between the threads that load and those that multiply.

    producer                                        consumers
    wait until a stage is empty                     wait until a stage is full
    expect its bytes; begin to copy into it         multiply what is in it
    next stage                                      say that it is empty; next stage

A ring has a pair of mbarriers for each stage, `full` and `empty`, and a position on either side: the stage that comes
next, and the parity of the phase in which it gets full. Both sides go through the stages in the same order, so the
position is never told: each side counts for itself, through all loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Value
from tiledsl.ir.dtypes import i32, i64
from tiledsl.ir.gpu import async_ops
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.gpu.matrix_descriptors import SPANS, swizzle_of
from tiledsl.ir.gpu.tensor_maps import ALIGNMENT, UNIT_BYTES
from tiledsl.ir.gpu.warpgroup_instructions import ROWS
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.layout import WARP, RegisterLayout
from tiledsl.ir.types import TileType, scalar
from tiledsl.passes.gpu.layouts.access_layouts import access_layout
from tiledsl.passes.gpu.layouts.infer_layouts import access_order, tile_axes
from tiledsl.passes.gpu.layouts.select_wgmma import plan_product
from tiledsl.passes.gpu.lower.aligned_copies import AlignedCopy
from tiledsl.passes.gpu.lower.lower_memory import access_vector, load_alignment, tile_subscripts
from tiledsl.passes.gpu.lower.lowering import Lowering, Staged
from tiledsl.passes.gpu.lower.pipeline_loads import copy_tile, define_staged, is_asynchronous
from tiledsl.passes.gpu.plan import LOADING_THREADS
from tiledsl.passes.gpu.products.load_parts import parts_of_load
from tiledsl.passes.gpu.products.row_runs import RowRuns, row_runs
from tiledsl.passes.gpu.products.streamed_loads import COPIED_BYTES, Feed, Use, axis_to_clear, load_axis, source_load
from tiledsl.passes.gpu.products.window_rows import WindowRows, window_rows
from tiledsl.passes.gpu.roles.cleared_rows import ClearedRows
from tiledsl.passes.gpu.roles.exchange_sums import SplitSum
from tiledsl.passes.gpu.roles.product_order import ProductOrder
from tiledsl.passes.gpu.roles.run_copies import Box, copy_runs, run_places
from tiledsl.support.errors import fail

MOST_BEHIND = 3
"""Turns by which threads that copy go ahead of what has come."""

ROWS_OF_SWIZZLE = 8
"""After so many rows a swizzle repeats."""


@dataclass(frozen=True)
class Position:
    """A stage, and the parity of the phase in which it gets full."""

    stage: Value
    parity: Value

    @property
    def values(self) -> list[Value]:
        return [self.stage, self.parity]


@dataclass(frozen=True)
class StreamedLoad:
    """A load of a ring, and the buffer of its stages. `divided`: whether blocks of a cluster have a part of it each."""

    op: ops.Load
    buffer: Value
    divided: bool
    shape: tuple[int, ...]
    """Of the box, for all blocks."""
    bytes: int
    """That come into a stage of each block."""
    layout: RegisterLayout | None
    """In which threads copy it; None where TMA does."""
    planes: int = 1
    """Matrices along its first axis, each of which a product of planes reads."""
    runs: RowRuns | None = None
    """Where its rows lie in runs anywhere."""

    @property
    def along_runs(self) -> int:
        """The axis of a tile of runs that counts their rows."""
        return 1 - max(tile_axes(self.op))

    @property
    def rows(self) -> int:
        """Of its box: those of all runs."""
        return self.shape[self.along_runs]


class Ring:
    """The stages of one feed. It is made in the body of the launch; each role begins at the first stage."""

    def __init__(
        self,
        state: Lowering,
        feed: Feed,
        stages: int,
        copies: Mapping[Value, AlignedCopy],
        streams: Sequence[StreamedLoad] = (),
        readers: int = 0,
    ) -> None:
        """`copies`: what is read in place of some tensors. `streams`: of loads that no product takes. `readers`: the
        threads that read it, if they are others than those of the grid."""
        self.feed = feed
        self.copies = copies
        self.block: Block = feed.block
        self.stages = stages
        self.name = "_".join(load.result.name or load.tensor.name for load in feed.loads)
        self.streams = list(streams) or [
            _stream(state, load, use, stages, copies)
            for load, use in zip(feed.loads, feed.uses)
            if _fits_stages(state, load)
        ]
        self._to_all = state.grid.cluster > state.grid.splits and not all(stream.divided for stream in self.streams)
        warps = (readers or state.grid.threads) // WARP
        self.by_threads = any(stream.layout is not None for stream in self.streams)
        """Whether threads that load copy some of it themselves."""
        self._by_tma = sum(stream.bytes for stream in self.streams if stream.layout is None)
        in_loop = isinstance(feed.block.parent, ops.Range)
        self._behind = max(0, min(MOST_BEHIND, stages - 2)) if in_loop else 0
        self.cleared = self._cleared()
        """What of right operands is made 0 behind the end of the loop."""
        self.full = self._mbarriers(
            state, "full", (self._by_tma > 0) + (LOADING_THREADS if self.by_threads else 0)
        )  # fmt: skip
        self.empty = self._mbarriers(state, "empty", warps * (state.grid.cluster if self._to_all else 1))
        self.position = Position(state.constant(0, i32), state.constant(0, i32))
        self.sums: SplitSum | None = None
        """Where the blocks of a cluster share the loop."""
        self.order: ProductOrder | None = None
        """On the consumers' side, where they multiply in turn: when it may be read."""
        self.is_released = False
        """On the consumers' side, of a ring of the grid itself: whether its stage was given back before the end."""
        self.lends = False
        """Whether the result of the grid goes out through its stage, as there is no room for another buffer."""

    def _mbarriers(self, state: Lowering, what: str, arrivals: int) -> Value:
        count = self.stages + (what == "full" and self.cleared is not None)
        return state.emit(
            async_ops.Mbarriers, name=f"{what}_{self.name}", count=count, arrivals=arrivals
        ).result  # fmt: skip

    @property
    def rows_to_load(self) -> int:
        """How many rows of the left operand a stage gets: no others of the product are looked at."""
        left = self.feed.dot.a
        return next(one.shape[load_axis(left, -2)] for one in self.streams if source_load(left) is one.op)

    def begin(self, state: Lowering) -> None:
        """At the start of a role: the first stage."""
        self.position = Position(state.constant(0, i32), state.constant(0, i32))

    def fill(self, state: Lowering, turn: Value | None = None) -> None:
        """On the producer's side: begins to copy into the next stage, where the blocks are placed now; in turn number
        `turn` of a loop."""
        stage = self.position.stage
        runs = {s.op: run_places(state, s.op, s.runs, s.rows) for s in self.streams if s.runs is not None}
        self.wait_empty(state)

        def load(index: Value) -> None:
            if self._by_tma:
                state.emit(async_ops.MbarrierExpect, barriers=self.full, index=index, bytes=self._by_tma)
            for stream in self.streams:
                if stream.op in runs:
                    assert stream.runs is not None
                    box = Box(stream.op, stream.buffer, stream.shape, stream.along_runs)
                    copy_runs(state, box, stream.runs, runs[stream.op], stage, self.full, index)
                elif stream.layout is None:
                    self._copy(state, stream, stage, index)

        if self.cleared is None:
            load(stage)
        else:
            self.cleared.fill(state, self.full, stage, load)
        if self.by_threads:
            self._copy_by_threads(state, stage, turn)
        self.advance(state)

    def _cleared(self) -> ClearedRows | None:
        axes = [(stream.buffer, axis_to_clear(stream.op)) for stream in self.streams]
        found = [(buffer, axis) for buffer, axis in axes if axis is not None]
        return ClearedRows(self.feed, self.stages, found) if found else None

    def _copy_by_threads(self, state: Lowering, stage: Value, turn: Value | None) -> None:
        """Copies, and says of the stage that was begun `_behind` turns ago that it is full."""
        for stream in self.streams:
            if stream.layout is not None:
                subscripts = tile_subscripts(state, stream.op, stream.op.result.shape, stream.layout)
                vector = access_vector(state, stream.op, stream.layout, subscripts)
                if not is_asynchronous(state, stream.op, vector):
                    reason = f"rows of `{stream.op.tensor.name}` cannot be copied {min(COPIED_BYTES)} bytes at a time"
                    fail("plan-specialised", stream.op.location, reason=reason)
                copy_tile(state, stream.op, stream.buffer, stage, stream.layout, subscripts, vector)
        state.emit(gpu.Commit)
        state.emit(gpu.Wait, groups=self._behind)
        if not self._behind or turn is None:
            state.emit(async_ops.MbarrierArrive, barriers=self.full, index=stage)
            return
        with state.when(state.builder.map("ge", turn, state.constant(self._behind))):
            self._tell_full(state, self._behind)

    def finish(self, state: Lowering, turns: Value) -> None:
        """On the producer's side, after a loop of so many turns: what was begun last is full too."""
        if not self.by_threads or not self._behind:
            return
        state.emit(gpu.Wait, groups=0)
        for back in range(self._behind, 0, -1):
            with state.when(state.builder.map("ge", turns, state.constant(back))):
                self._tell_full(state, back)

    def _tell_full(self, state: Lowering, back: int) -> None:
        """Of the stage `back` turns before the one at hand."""
        stage = self.position.stage
        before = state.builder.map("sub", stage, state.constant(back, i32))
        wraps = state.builder.map("lt", stage, state.constant(back, i32))
        last = state.builder.map("add", before, state.constant(self.stages, i32))
        index = state.builder.map("where", wraps, last, before)
        state.emit(async_ops.MbarrierArrive, barriers=self.full, index=index)

    def wait_empty(self, state: Lowering) -> None:
        """On the producer's side: the next stage is empty, as at first all are."""
        stage, parity = self.position.values
        other = state.builder.map("xor", parity, state.constant(1, i32))
        state.emit(async_ops.MbarrierWait, barriers=self.empty, index=stage, parity=other)

    def _copy(self, state: Lowering, stream: StreamedLoad, stage: Value, index: Value) -> None:
        op = stream.op
        rows = window_rows(op)
        if rows is not None:
            self._copy_windows(state, stream, rows, stage, index)
            return
        rank = len(op.result.shape)
        order = access_order(op)[-2:] if rank > 1 else [0]
        slow_first = [axis for axis in order if axis >= rank - 2]
        zero = state.constant(0)
        tensor, copy = state.tensors[op.tensor], self.copies.get(op.tensor)
        indices = [state.start_of(index) for index in op.indices]
        axes = [slow_first.index(axis) if axis in slow_first else -1 for axis in tile_axes(op)]
        if copy is not None:
            tensor, indices, axes = copy.tensor, copy.ordered(indices), copy.ordered(axes)
        for plane in range(stream.planes):
            offsets = [stage, *[zero] * rank]
            if stream.planes > 1:
                along, number = tile_axes(op).index(0), state.constant(plane)
                indices, offsets[1] = [*indices[:along], number, *indices[along + 1 :]], number
            state.emit(
                async_ops.TmaLoad, tensor=tensor, indices=indices, axes=tuple(axes),
                buffer=stream.buffer, offsets=offsets, barriers=self.full, index=index,
                places=tuple(1 + axis for axis in slow_first), shape=tuple(stream.shape[axis] for axis in slow_first),
                multicast=state.grid.cluster > 1 and not stream.divided,
            )  # fmt: skip

    def _copy_windows(
        self, state: Lowering, stream: StreamedLoad, rows: WindowRows, stage: Value, index: Value
    ) -> None:
        """Of the window's place at hand, the pixels of all positions of the block: where its first one is comes of
        divisions."""
        op, zero, number = stream.op, state.constant(0), state.start_of(rows.axis)
        indices = {rows.channels: state.start_of(op.indices[rows.channels])}
        within: list[Value] = []
        for axis, slide in reversed(list(zip(rows.pixels[1:], rows.slides))):
            before = state.arithmetic("floordiv", number, slide.positions)
            position = state.arithmetic("sub", number, state.arithmetic("mul", before, slide.positions))
            pixel = state.arithmetic("mul", position, slide.stride)
            indices[axis] = state.arithmetic("add", pixel, slide.low)
            place = zero if slide.place is None else state.coordinate(slide.place)
            within.insert(0, state.arithmetic("sub", place, slide.low))
            number = before
        indices[rows.pixels[0]] = number if rows.image is None else state.coordinate(rows.image)
        along = {rows.pixels[-1]: 0, rows.channels: 1}
        rank, image = len(op.result.shape), indices[rows.pixels[0]]
        for plane in range(stream.planes):
            of_plane = [state.constant(plane)] if rank > 2 else []
            indices[rows.pixels[0]] = state.arithmetic("add", image, plane * rows.apart) if plane else image
            state.emit(
                async_ops.TmaWindows, tensor=state.tensors[op.tensor],
                indices=[indices[axis] for axis in sorted(indices)],
                axes=tuple(along.get(axis, -1) for axis in sorted(indices)), buffer=stream.buffer,
                offsets=[stage, *of_plane, zero, zero], barriers=self.full, index=index, places=(rank - 1, rank),
                shape=stream.shape[-2:], within=within, pixels=rows.pixels,
                positions=tuple(slide.positions for slide in rows.slides),
                strides=tuple(slide.stride for slide in rows.slides), lows=tuple(slide.low for slide in rows.slides),
            )  # fmt: skip

    def wait(self, state: Lowering) -> None:
        """On the consumers' side: the next stage is full, and its tiles stand there from now on."""
        state.emit(
            async_ops.MbarrierWait, barriers=self.full, index=self.position.stage, parity=self.position.parity
        )  # fmt: skip
        self.define(state)

    def define(self, state: Lowering) -> None:
        """On the consumers' side: the tiles of the next stage, which is full, stand there from now on."""
        for stream in self.streams:
            rank = len(stream.op.result.shape)
            staged = Staged(stream.buffer, tuple(range(1, 1 + rank)), self.position.stage)
            for load in (stream.op, *parts_of_load(stream.op)):
                define_staged(state, load.result, staged)

    def release(self, state: Lowering, stage: Value) -> None:
        """On the consumers' side: nobody of this warp looks at that stage any more."""
        scope = "cluster" if self._to_all else "block"
        state.emit(async_ops.MbarrierArrive, barriers=self.empty, index=stage, by="warp", scope=scope)

    def advance(self, state: Lowering) -> None:
        """To the next stage; after the last one to the first, in the next phase."""
        self.position = following(state, self.position, self.stages)

    def skip(self, state: Lowering, count: Value) -> None:
        """On the consumers' side: past so many stages, which others take."""
        builder, stages = state.builder, state.constant(self.stages, i32)
        stage, parity = self.position.values
        after = builder.map("add", stage, builder.cast(count, i32))
        laps = builder.map("floordiv", after, stages)
        turned = builder.map("and", laps, state.constant(1, i32))
        left = builder.map("sub", after, builder.map("mul", laps, stages))
        self.position = Position(left, builder.map("xor", parity, turned))


def following(state: Lowering, position: Position, stages: int) -> Position:
    """The position after one, of a ring of so many stages."""
    one = state.constant(1, i32)
    if stages == 1:
        return Position(position.stage, state.builder.map("xor", position.parity, one))
    after = state.builder.map("add", position.stage, one)
    wraps = state.builder.map("eq", after, state.constant(stages, i32))
    stage = state.builder.map("where", wraps, state.constant(0, i32), after)
    turned = state.builder.map("xor", position.parity, one)
    return Position(stage, state.builder.map("where", wraps, turned, position.parity))


def _fits_stages(state: Lowering, op: ops.Load) -> bool:
    """Whether TMA can copy to every stage of a row; of what is longer it can."""
    sizes = state.capacities.shape(op.result.shape)
    return len(sizes) > 1 or math.prod(sizes) * op.result.dtype.bytes % (ALIGNMENT * state.grid.cluster) == 0


def _stream(state: Lowering, op: ops.Load, use: Use, stages: int, copies: Mapping[Value, AlignedCopy]) -> StreamedLoad:
    """The buffer of a load: rows as long as a swizzle, in panels where they are longer."""
    sizes = list(state.capacities.shape(op.result.shape))
    rank = len(sizes)
    cluster, is_left = state.grid.cluster, use.is_left
    divided = cluster > 1 and (state.grid.splits > 1 or is_left == (state.grid.across == 1))
    if divided:
        axis = -2 if is_left else -1
        if state.grid.splits > 1:
            axis = -1 if is_left else -2
        if use.axes[axis] >= 0:
            sizes[use.axes[axis]] //= cluster
    order = access_order(op)
    box = list(state.capacities.shape(op.result.shape))
    name = op.result.name or op.tensor.name
    if rank == 1:  # each block gets all of its own part
        buffer = state.buffer((stages, *sizes), op.result.dtype, SharedLayout((0, 1)), name)
        return StreamedLoad(op, buffer, True, tuple(box), math.prod(sizes) * op.result.dtype.bytes, None)
    layout = operand_layout(tuple(sizes), order[-1], op.result.dtype.bytes, _run(state, op, use, order[-1]))
    staged = replace(layout, order=(0, *(1 + axis for axis in layout.order)))
    buffer = state.buffer((stages, *sizes), op.result.dtype, staged, name)
    windows, runs = window_rows(op) is not None, row_runs(op)
    if (windows or runs) and (cluster > 1 or op.tensor in copies):
        what = "windows" if windows else "runs of rows"
        fail("plan-specialised", op.location, reason=f"{what} of `{op.tensor.name}` are read by one block each")
    if is_left and cluster == state.grid.splits and not use.computed and not windows and runs is None:
        rows = use.axes[-2]
        box[rows] = sizes[rows] = _rows_to_load(state, op, rows, box[rows])
    total = math.prod(sizes) * op.result.dtype.bytes
    width = UNIT_BYTES if op.tensor in copies else load_alignment(state, op)
    copied = None
    if width % UNIT_BYTES and runs is None:
        if cluster > 1:
            reason = f"rows of `{op.tensor.name}` are copied by threads, each block for itself"
            fail("plan-specialised", op.location, reason=reason)
        copied = access_layout(
            sizes, order, LOADING_THREADS, max(1, width // op.result.dtype.bytes), op.result.dtype.bytes
        )
    planes = sizes[0] if use.dot.precision == "planes" else 1
    return StreamedLoad(op, buffer, divided, tuple(box), total, copied, planes, runs)


def _rows_to_load(state: Lowering, op: ops.Load, axis: int, room: int) -> int:
    """How many rows of the left operand a stage gets. Where the tensor has fewer than a block, those outside cost as
    much as others, and are left out: what stands there in a stage makes rows of the product that nobody looks at."""
    place = tile_axes(op).index(axis)
    index, most = op.indices[place], state.grid.rows
    of_grid = isinstance(index, Value) and isinstance(index.op_around, ops.Grid)
    dots = [user for user in op.result.users if isinstance(user, ops.Dot)]
    alone = len(dots) == len(op.result.users) and all(d.a is op.result and d.b is not op.result for d in dots)
    if not most or not of_grid or not alone or access_order(op)[-1] == axis:
        return room
    wanted = max(-(-most // ROWS_OF_SWIZZLE) * ROWS_OF_SWIZZLE, room - ROWS + ROWS_OF_SWIZZLE)
    return min(room, wanted)  # each instruction gets some rows at least


def _run(state: Lowering, op: ops.Load, use: Use, fast: int) -> int:
    """How many elements along its fastest axis instructions take at a time of an operand; 0 for all."""
    if use.computed:
        return 0
    dots = [dot for dot in use.dot.parent.ops if isinstance(dot, ops.Dot)] if use.dot.parent is not None else []
    runs = [
        plan_product(dot, state.capacities, state.grid).instruction.n
        for dot in dots
        if source_load(dot.b) is op and load_axis(dot.b, -1) == fast
    ]
    return math.gcd(*runs, ROWS if use.is_left and use.axes[-2] == fast else 0)


def operand_layout(sizes: Sequence[int], fast: int, element_bytes: int, run: int = 0) -> SharedLayout:
    """The layout of a tile that TMA copies and tensor cores read: the axis `fast` counts fastest, swizzled as wide as
    it can be. `run`: of how many elements along it there must be whole swizzles (0: of all)."""
    rank = len(sizes)
    order = (*(axis for axis in range(rank) if axis != fast), fast)
    row = sizes[fast] * element_bytes
    whole = math.gcd(row, run * element_bytes) if run else row
    span = next((span for span in reversed(SPANS) if whole % span == 0), 0)
    panel = span // element_bytes if span and row > span else 0
    return SharedLayout(order, swizzle=swizzle_of(span), panel=panel)


def carry_positions(
    state: Lowering, rings: Sequence[Ring], count: Value, name: str, turn: Callable[[Value], None]
) -> None:
    """A loop of `count` turns that carries nothing but where the rings are."""
    initial = [value for ring in rings for value in ring.position.values]
    body = Block([(scalar(i64), name)])
    for value in initial:
        body.add_argument(value.type, "stage" if len(body.arguments) % 2 else "parity")
    with state.scope(body):
        resume(rings, body.arguments[1:])
        turn(body.arguments[0])
        state.emit(ops.Yield, values=[value for ring in rings for value in ring.position.values])
    types = [TileType(value.dtype, ()) for value in initial]
    loop = state.emit(
        ops.For, types=types, start=state.constant(0), stop=count, step=state.constant(1), initial=initial, body=body
    )
    resume(rings, loop.results)


def resume(rings: Sequence[Ring], values: Sequence[Value]) -> None:
    """The positions of rings, as a loop has carried them."""
    for number, ring in enumerate(rings):
        ring.position = Position(values[2 * number], values[2 * number + 1])


class FedLoop:
    """A loop of consumers that does other things too: it waits for what it gets, and gives it back when it is done."""

    def __init__(self, rings: Sequence[Ring]) -> None:
        self.rings = rings

    def carried(self) -> list[Value]:
        """What the loop carries besides: the position of each ring."""
        return [value for ring in self.rings for value in ring.position.values]

    def enter(self, arguments: Sequence[Value]) -> None:
        """Inside of the loop: the carried values there."""
        resume(self.rings, arguments)

    def wait(self, state: Lowering) -> None:
        """At the start of a turn: all that it gets is there."""
        for ring in self.rings:
            ring.wait(state)

    def following(self, state: Lowering) -> list[Value]:
        """At the end of a turn: everything is given back."""
        for ring in self.rings:
            ring.release(state, ring.position.stage)
            ring.advance(state)
        return self.carried()

    def leave(self, results: Sequence[Value]) -> None:
        """After the loop: where the rings are."""
        resume(self.rings, results)

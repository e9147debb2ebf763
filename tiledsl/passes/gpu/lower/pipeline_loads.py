"""Loads into shared memory: for matrix products, and in a loop so many blocks ahead as there are stages.

    for k in tile.range(K, block=64, num_stages=3):         copy block 0 into stage 0; commit
        acc = tile.dot(a[m, k], b[k, n], acc)               copy block 1 into stage 1; commit
                                                       =>   for i in ...: wait until one group is left; barrier
                                                                copy block i + 2 into stage (i + 2) % 3; commit
                                                                multiply what is in stage i % 3

What else a loop loads runs ahead as well: each thread copies what it reads itself, so that no barrier is needed, and no
register waits for memory. The copies are asynchronous where addresses allow 4 bytes at a time or more; where they do
not, or where there is one stage, a tile passes through registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.layouts.shared_layouts import Access, choose_shared_layout, vector_elements
from tiledsl.passes.gpu.layouts.infer_layouts import access_order
from tiledsl.passes.gpu.layouts.shared_accesses import shared_layout, staged_layout, static_shape
from tiledsl.passes.gpu.lower.lower_dot import operand_access, read_method
from tiledsl.passes.gpu.lower.lower_memory import Subscripts, access_vector, load_as, tile_subscripts
from tiledsl.passes.gpu.lower.lowering import Lowering, Staged
from tiledsl.passes.gpu.lower.next_turn_loads import MOST_BYTES, NextTurnLoads
from tiledsl.passes.gpu.lower.place_blocks import Turns
from tiledsl.passes.gpu.products.known_ahead import ASYNC_BYTES, is_known_ahead
from tiledsl.passes.gpu.products.operand_runs import MOST_BYTES_OF_RUNS
from tiledsl.passes.gpu.products.plan_dot import plan_dot


@dataclass(frozen=True)
class Use:
    """A product that reads a load, and along which of the load's axes its own two axes run."""

    dot: ops.Dot
    is_left: bool
    places: tuple[int, ...]


def dots_of(value: Value, places: tuple[int, ...]) -> Iterator[Use]:
    """The products that read a tile as it is or transposed; nothing if anything else does as well."""
    for user in value.users:
        match user:
            case ops.Dot():
                if value is user.a:
                    yield Use(user, True, places)
                if value is user.b:
                    yield Use(user, False, places)
            case ops.Transpose():
                yield from dots_of(user.result, tuple(places[axis] for axis in user.permutation))
            case _:
                pass


def goes_through_shared(op: Op) -> bool:
    """Whether a load is placed in shared memory, and some product reads it there."""
    if not isinstance(op, ops.Load) or op.result.tile.level != "shared" or len(op.result.shape) < 2:
        return False
    return next(dots_of(op.result, tuple(range(len(op.result.shape)))), None) is not None


def stage_load(state: Lowering, op: ops.Load) -> None:
    """A load into a buffer of its own, here and now."""
    buffer, copy_layout = _buffer(state, op, 0)
    subscripts = tile_subscripts(state, op, op.result.shape, copy_layout)
    vector = access_vector(state, op, copy_layout, subscripts)
    if is_asynchronous(state, op, vector):
        copy_tile(state, op, buffer, None, copy_layout, subscripts, vector)
        state.emit(gpu.Commit)
        state.emit(gpu.Wait, groups=0)
    else:
        loaded = load_as(state, op, copy_layout)
        if op.other is not None:  # a dot adds up padding: it must be 0, whatever stands for what is outside
            loaded = state.padded(loaded, op.result.shape, 0, name=loaded.name)
        state.write(buffer, loaded)
    rank = len(op.result.shape)
    define_staged(state, op.result, Staged(buffer, tuple(range(rank))))


def define_staged(state: Lowering, value: Value, staged: Staged) -> None:
    """Says that a tile stands in a buffer, and with it what is transposed of it."""
    state.staged[value] = staged
    for user in value.users:
        if isinstance(user, ops.Transpose):
            places = tuple(staged.places[axis] for axis in user.permutation)
            filled = None if staged.filled is None else staged.filled.permuted(user.permutation)
            define_staged(state, user.result, Staged(staged.buffer, places, staged.stage, filled))


def is_asynchronous(state: Lowering, op: ops.Load, vector: int) -> bool:
    """Whether a load can be an asynchronous copy: aligned, filled with zeros, and of no tensor written meanwhile."""
    bytes_ = vector * op.result.dtype.bytes
    plain = op.other is None and op.tensor not in state.written
    return plain and bytes_ in ASYNC_BYTES and state.machine.has_async_copy


def _buffer(state: Lowering, op: ops.Load, stages: int) -> tuple[Value, RegisterLayout]:
    """A buffer for a load (for `stages` of it, if not 0), and the layout in which threads fill it."""
    shape = state.capacities.shape(op.result.shape)
    order = access_order(op)
    layout = staging_layout(state, op)
    accesses = [Access(layout, tuple(range(len(shape))), vector=max(1, 16 // op.result.dtype.bytes), method="copy")]
    use = next(dots_of(op.result, tuple(range(len(shape)))), None)
    if use is not None:
        plan = plan_dot(use.dot, state.capacities, state.grid, state.machine)
        fragment = plan.layouts(plan.step)[0 if use.is_left else 1]
        places = use.places[-2:]
        method = read_method(op.result.dtype, plan, places[1 if use.is_left else 0] == order[-1])
        accesses.append(operand_access(fragment, places, op.result.dtype, method))
    shared = choose_shared_layout(shape, op.result.dtype, tuple(accesses))
    if stages:
        shape = (stages, *shape)
        shared = staged_layout(shared)
    return state.buffer(shape, op.result.dtype, shared, op.result.name or op.tensor.name), layout


def copy_tile(
    state: Lowering,
    op: ops.Load,
    buffer: Value,
    stage: Value | None,
    layout: RegisterLayout,
    subscripts: Subscripts,
    vector: int,
    apart: bool = False,
) -> None:
    """Begins to copy the tile of a load into a buffer, or into one stage of it."""
    rank = layout.rank
    first = 0 if stage is None else 1
    places = tuple(range(first, first + rank))
    vector = min(vector, vector_elements(layout, shared_layout(buffer), static_shape(buffer), buffer.dtype, places))
    offsets = [state.constant(0)] * rank
    if stage is not None:
        offsets = [stage, *offsets]
    state.emit(
        gpu.Copy, tensor=state.tensors[op.tensor], indices=subscripts.indices, extents=subscripts.extents,
        buffer=buffer, offsets=offsets, axes=subscripts.axes, masked=subscripts.masked, checked=subscripts.checked,
        places=places, vector=vector, apart=apart, shape=layout.shape, layout=layout,
    )  # fmt: skip


# Ahead of the program


@dataclass
class Stream:
    """A load that runs ahead, the buffer of its stages, and how it is copied."""

    op: ops.Load
    buffer: Value
    layout: RegisterLayout
    in_parts: bool = False
    """Whether each block of a cluster has a part of its own."""

    def copy(self, state: Lowering, stage: Value, *, apart: bool = False) -> None:
        """Begins to copy the tile of the load, for the blocks as they are placed now, into a stage. `apart`: see
        `gpu.copy`."""
        subscripts = tile_subscripts(state, self.op, self.op.result.shape, self.layout)
        vector = access_vector(state, self.op, self.layout, subscripts)
        copy_tile(state, self.op, self.buffer, stage, self.layout, subscripts, vector, apart)

    def define(self, state: Lowering, stage: Value) -> None:
        """Says that the tile of the load stands in a stage."""
        places, filled = tuple(range(1, 1 + self.layout.rank)), self.layout if self.in_parts else None
        define_staged(state, self.op.result, Staged(self.buffer, places, stage, filled))


def private_stream(state: Lowering, op: ops.Load, stages: int) -> Stream:
    """A load whose threads copy what they read themselves, so that nobody waits for others. In a cluster each block
    has its own part."""
    layout = state.layout(op.result)
    cluster = state.grid.cluster
    part = layout if cluster == 1 else layout.part_of_block(cluster)
    access = Access(part, tuple(range(part.rank)), method="copy")
    shared = staged_layout(choose_shared_layout(part.shape, op.result.dtype, (access,)))
    buffer = state.buffer((stages, *part.shape), op.result.dtype, shared, op.result.name or op.tensor.name)
    return Stream(op, buffer, layout, cluster > 1)


# In loops


def pipeline_of(state: Lowering, op: ops.Range, turns: Turns) -> Pipeline | None:
    """The loads of a loop that can run ahead of it, if there are any and there is more than one stage."""
    stages = op.num_stages or state.grid.stages
    if stages < 2:
        return None
    inside = set(op.body.walk())
    staged = [load for load in op.body.ops if isinstance(load, ops.Load) and _waits_in_shared(state, load)]
    loads = [load for load in staged if _ahead(state, op, load, inside, turns)]
    if not loads:
        return None
    dots = [dot for dot in op.body.ops if isinstance(dot, ops.Dot)]
    in_runs = any(plan_dot(dot, state.capacities, state.grid, state.machine).computed is not None for dot in dots)
    room = MOST_BYTES_OF_RUNS if in_runs else MOST_BYTES
    return Pipeline(state, turns, loads, stages, NextTurnLoads(state, op, turns, loads, room))


def _waits_in_shared(state: Lowering, op: ops.Load) -> bool:
    """Whether the tile of a load in a loop may wait in shared memory until its turn: products read it there, or each
    thread finds its own part of it again."""
    if goes_through_shared(op):
        return True
    layout = state.inference.of(op.result)
    return layout is not None and layout.replicas == 1


def _ahead(state: Lowering, loop: ops.Range, op: ops.Load, inside: set[Op], turns: Turns) -> bool:
    """Whether a load can be asked for a few blocks before, by asynchronous copies."""
    if not is_known_ahead(loop, op, inside):
        return False
    block = loop.body.arguments[0]
    with state.trial(), state.elsewhere(block, turns.place(state, turns.start)):
        layout = staging_layout(state, op) if goes_through_shared(op) else state.layout(op.result)
        subscripts = tile_subscripts(state, op, op.result.shape, layout)
        return is_asynchronous(state, op, access_vector(state, op, layout, subscripts))


def staging_layout(state: Lowering, op: ops.Load) -> RegisterLayout:
    """The layout in which threads fill a buffer with a load: 16 bytes at a time."""
    vector = max(1, 16 // op.result.dtype.bytes)
    return state.inference.copy_layout(op.result.shape, access_order(op), vector, op.result.dtype.bytes)


class Pipeline:
    """The loads of one loop, so many blocks ahead of it as there are stages less one. `small`: those one turn ahead."""

    def __init__(
        self, state: Lowering, turns: Turns, loads: Sequence[ops.Load], stages: int, small: NextTurnLoads
    ) -> None:
        self.loads = tuple(loads)
        self.state = state
        self.turns = turns
        self.stages = stages
        self.small = small
        self.streams: list[Stream] = []
        self._reading: Value | None = None
        self._writing: Value | None = None
        self._ended = False

    def begin(self) -> None:
        """Before the loop: buffers, and the copies of the first blocks, one less than there are stages."""
        ahead = self.stages - 1
        state = self.state
        for op in self.loads:
            if goes_through_shared(op):
                stream = Stream(op, *_buffer(state, op, self.stages))
            else:
                stream = private_stream(state, op, self.stages)
            self.streams.append(stream)
            state.remark(op, f"copied {ahead} blocks ahead, in {self.stages} stages")
        for stage in range(ahead):
            self.copy_if_there(state.constant(stage), state.constant(stage))
            state.emit(gpu.Commit)
        self._initial = [state.constant(0), state.constant(self.stages - 1)]
        self._initial[0].name, self._initial[1].name = "reading", "writing"
        self._initial += self.small.first()

    def carried(self) -> list[Value]:
        """What the loop carries besides: the stages that are read and written next, and what is one turn ahead."""
        return self._initial

    def enter(self, arguments: Sequence[Value]) -> None:
        """Inside of the loop: the carried values there."""
        self._reading, self._writing, *tiles = arguments
        self.small.enter(tiles)

    def advance(self, number: Value) -> None:
        """At the start of a turn: waits for its block, and begins to copy the one `stages - 1` further on."""
        state = self.state
        assert self._reading is not None
        assert self._writing is not None
        state.emit(gpu.Wait, groups=self.stages - 2)
        ahead = state.arithmetic("add", number, self.stages - 1)
        self.copy_if_there(ahead, self._writing)
        state.emit(gpu.Commit)
        self.small.ask(number)
        for stream in self.streams:
            stream.define(state, self._reading)

    def following(self, state: Lowering) -> list[Value]:
        """At the end of a turn: the stages of the next one, and its small tiles."""
        assert self._reading is not None
        assert self._writing is not None
        stages = [state.next_stage(stage, self.stages) for stage in (self._reading, self._writing)]
        return stages + self.small.following()

    def leave(self, results: Sequence[Value]) -> None:
        """After the loop: what it carried besides, which nobody asks for."""

    def end(self) -> None:
        """After the loop, once: no copy is left under way."""
        if not self._ended:
            self.state.emit(gpu.Wait, groups=0)
        self._ended = True

    def copy_if_there(
        self, number: Value, stage: Value, streams: Sequence[Stream] | None = None, *, apart: bool = False
    ) -> None:
        """Copies block `number` of every load (or of some), if there is such a block. `apart`: see `gpu.copy`."""
        state = self.state
        turns = self.turns
        with state.when(state.builder.map("lt", number, turns.count)):
            place = turns.place(state, turns.start_of(state, number))
            with state.elsewhere(turns.argument, place):
                for stream in self.streams if streams is None else streams:
                    stream.copy(state, stage, apart=apart)

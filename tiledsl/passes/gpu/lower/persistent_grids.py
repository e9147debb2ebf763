"""Grids whose programs go through many blocks, with the loads of the next ones under way.

    tile.grid([%M]) {blocks = [1]} body(%m) {          gpu.launch([%P]) {blocks = [1]} body(%program) {
      %row = tile.load(%x, [%m, :])                      copy block 0 of this program into stage 0; commit
      ...                                          =>    tile.for i in ...: wait for its copy
    }                                                      copy block i + 1 into the next stage; commit
                                                           %row = gpu.read(stage of i)
                                                           ...

A program that holds a long row first waits for memory, then computes while memory rests. Here memory never rests: the
loads of a block are asked for while earlier ones are computed. Loads that no block has a part in are made once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.types import TileType, scalar
from tiledsl.passes.gpu.lower.lower_memory import access_vector, tile_subscripts
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.lower.pipeline_loads import Stream, is_asynchronous, private_stream
from tiledsl.passes.gpu.lower.place_blocks import block_place, block_size, define_place
from tiledsl.passes.gpu.lower.private_tables import begin_tables, end_tables
from tiledsl.passes.gpu.lower.scalar_lowering import BlockPlace

MOST_INVARIANT_WORDS = 64
"""Registers that loads made once may take all along."""


def lower_persistent_grid(state: Lowering, op: ops.Grid) -> None:
    """A grid as a launch of `grid.programs` programs, each of which goes through every so manieth block."""
    _PersistentGrid(state, op).lower()


class _PersistentGrid:
    def __init__(self, state: Lowering, op: ops.Grid) -> None:
        self.state = state
        self.op = op
        self.stages = max(2, state.grid.stages)
        self.sizes = [block_size(block) for block in op.blocks]
        self.streams: list[Stream] = []

    def lower(self) -> None:
        state, op = self.state, self.op
        self.stops = [state.coordinate(stop) for stop in op.stops]
        programs = state.constant(state.grid.programs)
        body = Block([(scalar(i64), "program")])
        with state.scope(body):
            self._body(body.arguments[0])
            state.emit(ops.Yield)
        grid = state.grid
        state.emit(
            gpu.Launch, stops=[programs], blocks=(1,), threads=grid.threads, cluster=grid.cluster, body=body
        )  # fmt: skip

    def _body(self, program: Value) -> None:
        state = self.state
        self.program = program
        self.counts = [state.quotient_up(stop, size) for stop, size in zip(self.stops, self.sizes)]
        total = self.counts[0]
        for count in self.counts[1:]:
            total = state.arithmetic("mul", total, count)
        self.turns = state.quotient_up(state.arithmetic("sub", total, program), state.grid.programs)
        tables = begin_tables(state, self.op) if state.grid.private else []
        self._lower_invariant_loads()
        for load in self._loads_ahead():
            self.streams.append(private_stream(state, load, self.stages))
            state.remark(load, f"copied {self.stages - 1} blocks ahead, in {self.stages} stages")
        for stage in range(self.stages - 1):
            self._copy_if_there(state.constant(stage), state.constant(stage))
        self._loop()
        state.emit(gpu.Wait, groups=0)
        end_tables(state, tables)

    def _loop(self) -> None:
        state = self.state
        reading, writing = state.constant(0), state.constant(self.stages - 1)
        body = Block([(scalar(i64), "turn"), (scalar(i64), "reading"), (scalar(i64), "writing")])
        turn, read, written = body.arguments
        with state.scope(body):
            state.emit(gpu.Wait, groups=self.stages - 2)
            self._copy_if_there(state.arithmetic("add", turn, self.stages - 1), written)
            for axis, place in self._places(turn):
                define_place(state, axis, place)
            for stream in self.streams:
                stream.define(state, read)
            state.lower_block(self.op.body)
            state.emit(ops.Yield, values=[state.next_stage(read, self.stages), state.next_stage(written, self.stages)])
        types = [TileType(i64, ())] * 2
        state.emit(
            ops.For, types=types, start=state.constant(0), stop=self.turns, step=state.constant(1),
            initial=[reading, writing], body=body,
        )  # fmt: skip

    def _places(self, turn: Value) -> Iterator[tuple[Value, BlockPlace | Value]]:
        """Where each axis' block is in a turn; the last axis counts fastest."""
        state = self.state
        number = state.arithmetic("add", self.program, state.arithmetic("mul", turn, state.grid.programs))
        arguments = self.op.body.arguments
        found: list[tuple[Value, BlockPlace | Value]] = []
        for position in range(len(arguments) - 1, -1, -1):
            argument, stop, size = arguments[position], self.stops[position], self.sizes[position]
            index = number if position == 0 else state.arithmetic("mod", number, self.counts[position])
            if position:
                number = state.arithmetic("floordiv", number, self.counts[position])
            start = state.arithmetic("mul", index, size)
            multiple = state.multiple(self.op.stops[position])
            place = block_place(state, argument, start, stop, size, multiple)
            found.append((argument, place))
        return reversed(found)

    # Loads

    def _loads(self) -> list[ops.Load]:
        return [load for load in self.op.body.ops if isinstance(load, ops.Load) and load.result.shape]

    def _lower_invariant_loads(self) -> None:
        """Loads that are the same for all blocks, as long as they leave enough registers."""
        state = self.state
        words = 0
        inside = set(self.op.body.walk())
        for load in self._loads():
            fixed = all(
                not isinstance(i, Value) or (i.op not in inside and i not in self.op.body.arguments)
                for i in load.indices
            )
            layout = state.inference.of(load.result)
            if not fixed or layout is None or load.tensor in state.written:
                continue
            words += -(-layout.slots * load.result.dtype.bytes // 4)
            if words <= MOST_INVARIANT_WORDS:
                state.lower_op(load)
                state.kept.add(load.result)

    def _loads_ahead(self) -> list[ops.Load]:
        """Loads whose subscripts are known a few turns before: they depend on the grid by its blocks alone."""
        state = self.state
        inside = set(self.op.body.walk())
        found: list[ops.Load] = []
        for load in self._loads():
            if load.result in state.kept or state.inference.of(load.result) is None:
                continue
            known = all(not isinstance(index, Value) or self._is_known(index, inside) for index in load.indices)
            moves = any(index in self.op.body.arguments for index in load.indices if isinstance(index, Value))
            if known and moves and self._is_asynchronous(load):
                found.append(load)
        return found

    def _is_asynchronous(self, load: ops.Load) -> bool:
        state = self.state
        with state.trial(), self._at(state.constant(0)):
            layout = state.layout(load.result)
            subscripts = tile_subscripts(state, load, load.result.shape, layout)
            return is_asynchronous(state, load, access_vector(state, load, layout, subscripts))

    def _is_known(self, index: Value, inside: set[Op]) -> bool:
        if index in self.op.body.arguments:
            return True
        return index.op not in inside and not (isinstance(index.type, TileType) and index.shape)

    def _copy_if_there(self, turn: Value, stage: Value) -> None:
        """Copies the block of that turn of every stream, if there is such a turn; one group either way."""
        state = self.state
        with state.when(state.builder.map("lt", turn, self.turns)), self._at(turn):
            for stream in self.streams:
                stream.copy(state, stage)
        state.emit(gpu.Commit)

    @contextmanager
    def _at(self, turn: Value) -> Generator[None]:
        """Takes all blocks to be where they are in that turn for a while."""
        with ExitStack() as places:
            for axis, place in self._places(turn):
                places.enter_context(self.state.elsewhere(axis, place))
            yield

"""Which blocks a program of a specialised grid makes: one, or many one after the other.

With so many programs as the device runs at once, each goes through every so manieth block: number `program`, then
`program + programs` and so on. Blocks are counted so that those made at the same time are near each other: a few rows
of blocks at a time, column by column. Where blocks farther along an axis have longer loops, those come first, and every
other turn goes back through the programs: who had the longest block gets the shortest one next. Where an axis is no
multiple of its blocks, the last ones begin earlier if they may (`products/whole_ends.py`).

    number of block, 3 rows at a time:     0  3  6
                                           1  4  7
                                           2  5  8
                                           9 11 13
                                          10 12 14
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import i32, i64
from tiledsl.ir.gpu.tensor_maps import UNIT_BYTES
from tiledsl.passes.gpu.layouts.infer_layouts import tensor_of
from tiledsl.passes.gpu.lower.lower_memory import row_alignment
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.lower.place_blocks import block_place, block_size, define_place
from tiledsl.passes.gpu.products.whole_ends import whole_ends
from tiledsl.passes.gpu.roles.rings import Ring, carry_positions
from tiledsl.support.follow import follow


class BlockWalk:
    """The blocks of a grid, as the programs of a launch go through them."""

    def __init__(self, state: Lowering, op: ops.Grid) -> None:
        self.state = state
        self.op = op
        self.sizes = [block_size(block) for block in op.blocks]
        self.ends = [state.coordinate(stop) for stop in op.stops]
        self.is_persistent = bool(state.grid.programs)
        programs = state.grid.programs
        self.stops: list[Value] = [state.constant(programs)] if self.is_persistent else self.ends
        self.blocks: tuple[int, ...] = (1,) if self.is_persistent else tuple(self.sizes)
        self.raster = 1 if self.is_persistent else state.grid.raster
        self._mirrored = [grows_along(op, argument) for argument in op.body.arguments]
        self._moved = [
            may_move and not mirrored and not state.divides(size, stop) and _may_begin_at_end(state, axis, stop)
            for axis, may_move, mirrored, size, stop in zip(
                op.body.arguments, whole_ends(op), self._mirrored, self.sizes, op.stops
            )
        ]
        """Whether the last blocks along an axis begin earlier, so that they are whole."""

    @property
    def argument_names(self) -> list[str]:
        """Of the body of the launch."""
        if self.is_persistent:
            return ["program"]
        return [f"{argument.name}_start" for argument in self.op.body.arguments]

    def begin(self, arguments: Sequence[Value]) -> None:
        """In the body of the launch: what all roles know."""
        state = self.state
        self._arguments = arguments
        if not self.is_persistent:
            return
        total, programs = self._count(), state.grid.programs
        if not any(self._mirrored):
            # (total - program) / programs, rounded up; programs past the end have none
            self.turns = state.quotient_up(state.arithmetic("sub", total, arguments[0]), programs)
            return
        rounds = state.arithmetic("floordiv", total, programs)
        rest = state.arithmetic("sub", total, state.arithmetic("mul", rounds, programs))
        one_more = state.builder.map("lt", self._place_in(rounds), rest)
        self.turns = state.arithmetic("add", rounds, state.builder.cast(one_more, i64))

    def _count(self) -> Value:
        """How many blocks there are: along each axis, then in all."""
        state = self.state
        self.counts = [state.quotient_up(end, size) for end, size in zip(self.ends, self.sizes)]
        total = self.counts[0]
        for count in self.counts[1:]:
            total = state.arithmetic("mul", total, count)
        return total

    def _place_in(self, turn: Value) -> Value:
        """Which of the blocks of a turn is this program's: where lengths fall, every other turn goes back."""
        state, program = self.state, self._arguments[0]
        if not any(self._mirrored):
            return program
        last = state.constant(state.grid.programs - 1)
        odd = state.builder.map("ne", state.builder.map("and", turn, state.constant(1)), state.constant(0))
        return state.builder.map("where", odd, state.arithmetic("sub", last, program), program)

    def each(self, rings: Sequence[Ring], make: Callable[[], None]) -> None:
        """Makes every block of the program, in a role; `rings` go on from block to block."""
        if not self.is_persistent:
            self._place(self._arguments)
            make()
            return

        def turn(number: Value) -> None:
            self._place(self._starts(number))
            make()

        carry_positions(self.state, rings, self.turns, "turn", turn)

    def each_to_load(self, rings: Sequence[Ring], threads: int, load: Callable[[], None]) -> None:
        """The same in the role of `threads` that loads."""
        self.each(rings, load)

    def _place(self, starts: Sequence[Value]) -> None:
        state = self.state
        for argument, start, end, size, stop, mirrored, moved in zip(
            self.op.body.arguments, starts, self.ends, self.sizes, self.op.stops, self._mirrored, self._moved
        ):
            if mirrored:
                last = state.arithmetic("sub", state.quotient_up(end, size), 1)
                start = state.arithmetic("sub", state.arithmetic("mul", last, size), start)
            multiple = state.multiple(stop)
            if moved:
                latest = state.builder.map("maximum", state.arithmetic("sub", end, size), state.constant(0))
                start = state.builder.map("minimum", start, latest)
                place = block_place(state, argument, start, end, size, multiple, multiple, shared=True)
            else:
                place = block_place(state, argument, start, end, size, multiple)
            define_place(state, argument, place)

    def _starts(self, turn: Value) -> list[Value]:
        """Where the blocks of a turn begin."""
        state = self.state
        return self._starts_of(
            state.arithmetic("add", self._place_in(turn), state.arithmetic("mul", turn, state.grid.programs))
        )

    def _starts_of(self, number: Value) -> list[Value]:
        """Where the block of a number begins."""
        state = self.state
        if len(self.sizes) == 1:
            return [state.arithmetic("mul", number, self.sizes[0])]
        # there are fewer blocks than 1 << 31: divisions of 32 bits are several times as fast
        number, *counts = (state.builder.cast(value, i32) for value in (number, *self.counts))
        rows, columns = counts[-2:]
        places: list[Value] = []
        if len(counts) > 2:
            outer, number = self._divided(number, state.builder.map("mul", rows, columns))
            for count in reversed(counts[1:-2]):
                outer, inner = self._divided(outer, count)
                places.insert(0, inner)
            places.insert(0, outer)
        places += self._within(number, rows, columns)
        wide = [state.builder.cast(place, i64) for place in places]
        return [state.arithmetic("mul", place, size) for place, size in zip(wide, self.sizes)]

    def _divided(self, value: Value, by: Value) -> tuple[Value, Value]:
        """Quotient and rest of two counts."""
        builder = self.state.builder
        quotient = builder.map("floordiv", value, by)
        return quotient, builder.map("sub", value, builder.map("mul", quotient, by))

    def _within(self, number: Value, rows: Value, columns: Value) -> tuple[Value, Value]:
        """The row and the column of a block of a plane: `raster` rows at a time, column by column."""
        if self.state.grid.raster == 1:
            return self._divided(number, columns)
        builder, raster = self.state.builder, self.state.constant(self.state.grid.raster, i32)
        band, inside = self._divided(number, builder.map("mul", columns, raster))
        first = builder.map("mul", band, raster)
        column, row = self._divided(inside, builder.map("minimum", builder.map("sub", rows, first), raster))
        return builder.map("add", first, row), column


def _may_begin_at_end(state: Lowering, axis: Value, stop: Value) -> bool:
    """Whether boxes may begin a block before the end of an axis: along rows of a tensor at multiples of 16 bytes, as
    TMA has it (`ir/gpu/tensor_maps.py`). Blocks that read copies, whose rows end anywhere, begin where they did.
    """
    if state.grid.copied:
        return False
    for access in axis.users:
        assert isinstance(access, (ops.Load, ops.Store))
        tensor = tensor_of(access)
        if tensor.unit is None or access.indices[tensor.unit] is not axis:
            continue
        by_tma = isinstance(access, ops.Load) or row_alignment(state, access.tensor) % UNIT_BYTES == 0
        if by_tma and state.multiple(stop) * tensor.dtype.bytes % UNIT_BYTES:
            return False
    return True


def grows_along(grid: ops.Grid, argument: Value) -> bool:
    """Whether blocks farther along an axis have longer loops: then the last ones come first, and short ones even out
    what is left."""
    loops = [op for op in grid.body.ops if isinstance(op, ops.Range)]
    return any(_follows(op.stop, argument) and not _follows(op.start, argument) for op in loops)


def _follows(value: Value, axis: Value) -> bool:
    """Whether a scalar grows with where a block starts."""
    return follow(partial(_grows, axis), value)


def _grows(axis: Value, value: Value) -> Generator[Value, bool, bool]:
    match value.op:
        case ops.Start() as op:
            return op.axis is axis
        case ops.Map(fn="add" | "minimum" | "maximum") as op:
            return (yield op.inputs[0]) or (yield op.inputs[1])
        case ops.Map(fn="sub" | "mul" | "floordiv") as op:
            return (yield op.inputs[0])
        case _:
            return value is axis

"""Writes a group of GRAPH ops as one tile program, the way a person would.

    @linear(%x, %w, %b)                       for m, n in tile.grid(M, N):
      %p = contract(%x, %w)                       for k in tile.range(K): acc = dot(x[m, k], w[k, n], acc)
      %s = map(add, %p, broadcast(%b))    =>      out[m, n] = acc + b[n]
      return(%s)

Each value becomes a tile over blocks of its axes, where it is asked for first; a sum over a streamed axis becomes a
loop that carries it, with all others over the same axis. Nothing here is tidy: the passes of TILE see to that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, Union

from tiledsl.ir import graph_ops as graph
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Fact, Function, Index, Number, Op, Value, free_names
from tiledsl.ir.dtypes import DType, bool_, f32, i64
from tiledsl.ir.symbolic import Dim, symbol
from tiledsl.ir.tile_ops import tensor_type
from tiledsl.ir.types import WHOLE, AxisType, BlockSize, Shape, TensorType, scalar
from tiledsl.passes.graph.axes import Axis, GroupAxes
from tiledsl.passes.graph.mask_bounds import Bound, bounds_of
from tiledsl.passes.graph.online_rules import Dependence, Factor, Moments, factors_of, moments_of, unspread
from tiledsl.passes.graph.schedule import Schedule, depends
from tiledsl.passes.graph.stream_moments import counts_of, squares_after

LOWEST = -3.0e38
"""Below every score of f32 that matters, but finite: a difference of two of it is 0, of two infinities NaN."""

_GRID_NAMES = ("M", "N", "P", "Q", "R", "S")
_WHOLE_NAMES = ("D", "E", "F", "G")
_STREAM_NAMES = ("K", "L", "J")


Fold: TypeAlias = Union[graph.Reduce, graph.Contract]


class GroupProgram:
    """One group on its way to TILE. `units[i]` is the dimension of parameter i whose elements lie side by side."""

    def __init__(self, function: Function, axes: GroupAxes, schedule: Schedule, units: Sequence[int | None]) -> None:
        self.function = function
        self.axes = axes
        self.schedule = schedule
        self.units = units
        self.body = Block()
        self.builder = Builder(self.body, function.location)
        self.sizes = self._name_sizes()
        self.tensors: dict[Value, Value] = {}
        self.blocks: dict[Axis, Value] = {}
        """What stands for an axis in subscripts: its block, or the coordinate of a single one. Whole axes have none."""
        self.scopes: list[dict[Value, Value]] = [{}]
        """The tiles made so far, by the loops that are open."""
        self.declared: set[str] = {str(size) for size in self.sizes.values()}
        """Names that sizes and blocks have."""

    # The function

    def build(self, name: str) -> Function:
        """The tile program."""
        for parameter, unit in zip(self.function.parameters, self.units):
            type_ = parameter.type
            assert isinstance(type_, TensorType)
            shape = tuple(self.sizes[axis] for axis in self.axes.kept[parameter])
            self.tensors[parameter] = self.body.add_argument(TensorType(type_.dtype, shape, unit), parameter.name)
        last = self.function.body.terminator
        assert isinstance(last, graph.Return)
        outputs = [self._output(value) for value in last.values]
        stops = [self.builder.size(self.sizes[axis]) for axis in self.schedule.grid]
        with self._grid(stops) as grid:
            for value, output in zip(last.values, outputs):
                with self.builder.at(value.op.location if value.op is not None else last.location):
                    self.builder.emit(
                        ops.Store, tensor=output, indices=self.subscripts(self.axes.kept[value]), value=self.tile(value)
                    )
        self.builder.emit(ops.Grid, stops=stops, blocks=self._block_sizes(), body=grid)
        self.builder.emit(ops.Return, values=outputs)
        return Function(name, self.body, self._facts(), self.function.location)

    def _grid(self, stops: Sequence[Value]) -> _Scope:
        block = Block()
        for axis in self.schedule.grid:
            self._open(block, axis, single=axis in self.schedule.single)
        return _Scope(self, block)

    def _open(self, block: Block, axis: Axis, *, single: bool) -> Value:
        """Adds the block of an axis, or its coordinate, to the arguments of a body."""
        size = self.sizes[axis]
        name = free_names(self.declared, str(axis.name or "i") if isinstance(size, int) else str(size).lower())
        self.declared.add(name)
        argument = block.add_argument(scalar(i64) if single else AxisType(symbol(name)), name)
        self.blocks[axis] = argument
        return argument

    def _block_sizes(self) -> tuple[BlockSize, ...]:
        single = self.schedule.single
        return tuple(BlockSize.fixed(1) if axis in single else BlockSize.auto() for axis in self.schedule.grid)

    def _output(self, value: Value) -> Value:
        type_ = value.type
        assert isinstance(type_, TensorType)
        shape = tuple(self.sizes[axis] for axis in self.axes.kept[value])
        return self.builder.emit(ops.Empty, shape=shape, dtype=type_.dtype, result_names=[value.name or "out"]).result

    def _name_sizes(self) -> dict[Axis, Dim]:
        """A symbol for each axis of a parameter, by which the launch knows its size; a number for every other one."""
        told = {axis for parameter in self.function.parameters for axis in self.axes.kept[parameter]}
        schedule = self.schedule
        ordered = [*schedule.grid, *(a for a in self.axes.all if a not in schedule.grid)]
        sizes: dict[Axis, Dim] = {}
        counts: dict[tuple[str, ...], int] = {}
        for axis in ordered:
            names = _GRID_NAMES
            if axis in schedule.streamed:
                names = _STREAM_NAMES
            elif axis in schedule.whole or axis in self.axes.indexed.values():
                names = _WHOLE_NAMES
            number = counts[names] = counts.get(names, -1) + 1
            name = names[number % len(names)] + (str(number // len(names)) if number >= len(names) else "")
            sizes[axis] = symbol(name) if axis in told else axis.size
        return sizes

    def _facts(self) -> list[Fact]:
        return [
            Fact(size, 16) for axis, size in self.sizes.items() if not isinstance(size, int) and axis.size % 16 == 0
        ]

    # Tiles

    def tile_axes(self, value: Value) -> tuple[Axis, ...]:
        """The axes of the tile of a value: all but those that go one coordinate at a time."""
        return self._not_single(self.axes.kept[value])

    def _not_single(self, axes: Sequence[Axis]) -> tuple[Axis, ...]:
        return tuple(axis for axis in axes if not self._is_single(axis))

    def _is_single(self, axis: Axis) -> bool:
        """Whether an axis goes one coordinate at a time: in the grid, or in a loop that is open."""
        block = self.blocks.get(axis)
        return axis in self.schedule.single or (block is not None and not isinstance(block.type, AxisType))

    def extent(self, axis: Axis) -> Dim:
        """How many coordinates of an axis a tile has here."""
        block = self.blocks.get(axis)
        if block is None:
            return self.sizes[axis]
        assert isinstance(block.type, AxisType)
        return block.type.extent

    def shape(self, axes: Sequence[Axis]) -> Shape:
        return tuple(self.extent(axis) for axis in axes)

    def subscripts(self, axes: Sequence[Axis]) -> tuple[Index, ...]:
        """What selects the blocks of these axes from a tensor that has them in this order."""
        return tuple(self.blocks.get(axis, WHOLE) for axis in axes)

    def tile(self, value: Value) -> Value:
        """The tile of a value, made now unless there is one already."""
        for scope in reversed(self.scopes):
            if value in scope:
                return scope[value]
        with self.builder.at(value.op.location if value.op is not None else self.builder.location):
            made = self._make(value)
            if not made.shape:
                made = self.builder.broadcast(made, self.shape(self.tile_axes(value)))
        made.name = made.name or value.name
        self.scopes[-1][value] = made
        return made

    def _make(self, value: Value) -> Value:
        op = value.op
        match op:
            case None:
                return self._load(value)
            case graph.Constant():
                return self.builder.constant(op.value, op.dtype)
            case graph.Size():
                return self.builder.size(op.value)
            case graph.Iota():
                return self._iota(op)
            case graph.Map():
                return self._map(op)
            case graph.Cast():
                return self.builder.cast(self.tile(op.source), op.dtype)
            case graph.Broadcast():
                return self.spread(self.tile(op.source), self.tile_axes(op.source), self.tile_axes(value))
            case graph.Transpose() | graph.Reshape():
                return self.spread(self.tile(op.source), self.tile_axes(op.source), self.tile_axes(value))
            case graph.Gather():
                return self._gather(op)
            case graph.Window():
                return self._window(op)
            case graph.Reduce() | graph.Contract():
                return self._fold(op)
            case graph.Scan():
                return self._scan(op)
            case graph.Random():
                seed, offsets = self.tile(op.seed), self.tile(op.offsets)
                return self.builder.emit(ops.Random, seed=seed, offsets=offsets, fn=op.fn).result
            case _:
                raise AssertionError(f"{op.name} in a group")

    def _load(self, value: Value) -> Value:
        indices = self.subscripts(self.axes.kept[value])
        return self.builder.emit(ops.Load, tensor=self.tensors[value], indices=indices).result

    def _iota(self, op: graph.Iota) -> Value:
        if op.shape[op.axis] == 1:
            return self.builder.constant(0, i64)
        axis = self.axes.kept[op.result][sum(1 for dim in op.shape[: op.axis] if dim != 1)]
        coordinates = self._coordinates(axis)
        return self.spread(coordinates, self._not_single([axis]), self.tile_axes(op.result))

    def _coordinates(self, axis: Axis) -> Value:
        block = self.blocks.get(axis)
        if block is None:
            return self.builder.emit(ops.Arange, extent=self.sizes[axis]).result
        return block if self._is_single(axis) else self.builder.emit(ops.Coordinates, axis=block).result

    def _map(self, op: graph.Map) -> Value:
        inputs = [self.tile(value) for value in op.inputs]
        return self.builder.map(op.fn, *inputs)

    def spread(self, tile: Value, axes: tuple[Axis, ...], wanted: tuple[Axis, ...]) -> Value:
        """A tile over `axes` as one over `wanted`, which has them all: turned, and repeated along the others."""
        order = [axis for axis in wanted if axis in axes]
        assert set(order) == set(axes), f"{axes} within {wanted}"
        tile = self.turn(tile, axes, order)
        if list(wanted) == order:
            return tile
        if order:
            places = tuple(self.extent(axis) if axis in axes else 1 for axis in wanted)
            tile = self.builder.emit(ops.Reshape, source=tile, shape=places).result
        return self.builder.broadcast(tile, self.shape(wanted))

    def turn(self, tile: Value, axes: Sequence[Axis], wanted: Sequence[Axis]) -> Value:
        """A tile over `axes` with them in the order `wanted`."""
        if list(axes) == list(wanted):
            return tile
        permutation = tuple(list(axes).index(axis) for axis in wanted)
        return self.builder.emit(ops.Transpose, source=tile, permutation=permutation).result

    def _gather(self, op: graph.Gather) -> Value:
        kept = self.axes.kept[op.source]
        indexed = self.axes.indexed[op]
        indices = self.tile(op.indices)
        subscripts: list[Index] = [indices if axis is indexed else self.blocks.get(axis, WHOLE) for axis in kept]
        tile = self.builder.emit(ops.Load, tensor=self.tensors[op.source], indices=subscripts).result
        if indexed is not None:
            return tile
        # of one element: it is there or outside
        wanted, have = self.tile_axes(op.result), self.tile_axes(op.source)
        there = self.builder.map("eq", indices, self.builder.constant(0, indices.dtype))
        there = self.spread(there, self.tile_axes(op.indices), wanted)
        zero = self.builder.constant(False if tile.dtype == bool_ else 0, tile.dtype)
        return self.builder.map("where", there, self.spread(tile, have, wanted), zero)

    def _window(self, op: graph.Window) -> Value:
        """The elements of windows at one place in each: what lies outside of the tensor is the padding."""
        pad = op.source.op
        assert isinstance(pad, graph.Pad), f"{op.name} of what is not padded"
        slid = self.axes.windows[op].slid
        kept = self.axes.kept[pad.source]
        subscripts = [
            self._slid(op, pad, slid.index(axis)) if axis in slid else self.blocks.get(axis, WHOLE) for axis in kept
        ]
        dtype = tensor_type(op.result).dtype
        other = self.builder.constant(pad.value, dtype) if pad.value else None
        tensor = self.tensors[pad.source]
        return self.builder.emit(ops.Load, tensor=tensor, indices=subscripts, other=other).result

    def _slid(self, op: graph.Window, pad: graph.Pad, number: int) -> Index:
        """Which coordinates of a tensor windows read: position * stride + place in the window * dilation - padding."""
        build, window = self.builder, self.axes.windows[op]
        stride, dilation, low = op.strides[number], op.dilations[number], pad.low[op.axes[number]]
        position, inner = window.positions[number], window.inner[number]
        offset = build.constant(0, i64) if inner is None else self.blocks[inner]
        if dilation != 1:
            offset = build.map("mul", offset, build.constant(dilation, i64))
        if low != 0:
            offset = build.map("sub", offset, build.size(low))
        if position is None:
            return offset
        block = self.blocks.get(position)
        if stride == 1 and block is not None and not self._is_single(position):
            return build.emit(ops.Shift, axis=block, offset=offset).result
        coordinates = self._coordinates(position)
        if stride != 1:
            coordinates = build.map("mul", coordinates, build.constant(stride, i64))
        return build.map("add", coordinates, offset)

    # Folds

    def _fold(self, op: Fold) -> Value:
        streams = self._streams_of(self.axes.reduced[op])
        if streams:
            self._stream(streams)
            return self.tile(op.result)
        if isinstance(op, graph.Contract):
            return self.product(op, None)
        return self.folded(op)

    def folded(self, op: graph.Reduce) -> Value:
        """A fold of whole axes of a tile."""
        axes = self.tile_axes(op.source)
        over = tuple(axes.index(axis) for axis in self.axes.reduced[op])
        source = self.tile(op.source)
        if not over:
            return self.builder.constant(0, i64) if op.fn in ("argmax", "argmin") else source
        return self.builder.emit(ops.Reduce, sources=[source], axes=over, fn=op.fn).result

    def _scan(self, op: graph.Scan) -> Value:
        source = self.tile(op.source)
        axes = self.tile_axes(op.source)
        for axis in self.axes.reduced[op]:
            number = axes.index(axis)
            source = self.builder.emit(ops.Scan, sources=[source], axis=number, fn=op.fn, reverse=op.reverse).result
        return source

    def product(self, op: graph.Contract, acc: Value | None) -> Value:
        """acc + a @ b of the tiles at hand, with the axes in the order of the result."""
        left, right, out = (list(self.tile_axes(v)) for v in (op.a, op.b, op.result))
        summed = [axis for axis in left if axis in right and axis not in out]
        rows = [axis for axis in left if axis not in summed]
        columns = [axis for axis in right if axis not in summed]
        a, b = self.tile(op.a), self.tile(op.b)
        if len(summed) != 1 or len(rows) != 1 or len(columns) != 1 or rows == columns:
            return self._sum_of_products(op, acc)
        if out != [*rows, *columns]:
            a, b, left, right, rows, columns = b, a, right, left, columns, rows
        a = self.turn(a, left, [*rows, *summed])
        b = self.turn(b, right, [*summed, *columns])
        dot = self.builder.emit(ops.Dot, a=a, b=b, acc=acc, dtype=op.dtype, precision=op.precision)
        return dot.result

    def _sum_of_products(self, op: graph.Contract, acc: Value | None) -> Value:
        """A product that is none of matrices: multiplied elementwise, and folded."""
        out = self.tile_axes(op.result)
        over = self._not_single(self.axes.reduced[op])
        wanted = (*out, *over)
        a, b = (self.spread(self.builder.cast(self.tile(v), op.dtype), self.tile_axes(v), wanted) for v in (op.a, op.b))
        value = self.builder.map("mul", a, b)
        if over:
            positions = tuple(range(len(out), len(wanted)))
            value = self.builder.emit(ops.Reduce, sources=[value], axes=positions, fn="add").result
        return value if acc is None else self.builder.map("add", acc, value)

    # Streams

    def _stream(self, streams: Sequence[Axis]) -> None:
        """Writes the loops over the blocks of axes, with every fold over them."""
        folds = [op for op, reduced in self.axes.reduced.items() if self._streams_of(reduced) == list(streams)]
        folds = [op for op in self.function.body.ops if op in folds and isinstance(op, (graph.Reduce, graph.Contract))]
        folds = [op for op in folds if op.result not in self._made()]
        moving = frozenset(op.result for op in folds)
        for op in folds:
            self._before(op, moving, set(streams))
        carried = [self._initial(op, self._is_followed(op, folds)) for op in folds]
        finals = self._loop(list(streams), folds, carried)
        for op, final in zip(folds, finals):
            self.scopes[-1][op.result] = self._finished(op, final)

    def _is_followed(self, op: Fold, folds: Sequence[Fold]) -> bool:
        """Whether others of the same loop depend on a fold."""
        return any(other is not op and depends(other.result, op.result) for other in folds)

    def _streams_of(self, reduced: Sequence[Axis]) -> list[Axis]:
        """The streamed ones, the outermost loop's first: the longest goes by blocks."""
        inner = self.axes.inner
        streamed = (axis for axis in reduced if axis in self.schedule.streamed)
        return sorted(streamed, key=lambda axis: (axis not in inner, axis.size))

    def _made(self) -> Mapping[Value, Value]:
        return {value: tile for scope in self.scopes for value, tile in scope.items()}

    def _before(self, op: Op, moving: frozenset[Value], streams: set[Axis]) -> None:
        """Makes what a loop reads and what stays the same in it, in front of it."""
        dependence = Dependence(moving)
        pending, seen = list(op.operands), set[Value]()
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            if not streams & set(self.axes.kept[value]) and not dependence.of(value):
                if value.op is not None and not isinstance(value.op, (graph.Constant, graph.Broadcast)):
                    self.tile(value)
            elif value.op is not None and value not in moving and not isinstance(value.op, graph.Window):
                pending += value.op.operands

    def accumulator(self, op: Fold) -> DType:
        """The dtype in which a fold is carried."""
        dtype = tensor_type(op.result).dtype
        return f32 if dtype.is_float and dtype.bits < 32 else dtype

    def _initial(self, op: Fold, followed: bool) -> Value:
        fn = "add" if isinstance(op, graph.Contract) else op.fn
        dtype = self.accumulator(op)
        start = self.builder.constant(_identity(fn, dtype, followed), dtype)
        return self.builder.broadcast(start, self.shape(self.tile_axes(op.result)))

    def _finished(self, op: Fold, final: Value) -> Value:
        return self.builder.cast(final, tensor_type(op.result).dtype)

    def _loop(self, streams: list[Axis], folds: Sequence[Fold], carried: Sequence[Value]) -> list[Value]:
        if not streams:
            return self._turn(folds, carried)
        axis, inner = streams[0], streams[1:]
        start, stop = self._limits(axis, folds)
        single = bool(inner) or axis in self.axes.inner
        body = Block()
        self._open(body, axis, single=single)
        arguments = [body.add_argument(value.type, op.result.name or "acc") for value, op in zip(carried, folds)]
        with _Scope(self, body):
            finals = self._loop(inner, folds, arguments)
            self.builder.emit(ops.Yield, values=finals)
        block = BlockSize.fixed(1) if single else BlockSize.auto()
        loop = self.builder.emit(ops.Range, start=start, stop=stop, initial=carried, blocks=(block,), body=body)
        del self.blocks[axis]
        return list(loop.results)

    def _limits(self, axis: Axis, folds: Sequence[Fold]) -> tuple[Value, Value]:
        """Where the loop over an axis begins and ends: masks may leave only a part of it."""
        build = self.builder
        start, stop = build.constant(0, i64), build.size(self.sizes[axis])
        maxima = [op for op in folds if isinstance(op, graph.Reduce) and op.fn == "max"]
        if len(maxima) != 1 or any(not depends(op.result, maxima[0].result) for op in folds):
            return start, stop
        for bound in bounds_of(maxima[0].source, axis, self.axes):
            start, stop = self._bounded(bound, start, stop)
        return start, stop

    def _bounded(self, bound: Bound, start: Value, stop: Value) -> tuple[Value, Value]:
        build, block = self.builder, self.blocks.get(bound.rows)
        if block is None:
            return start, stop
        single = bound.rows in self.schedule.single
        first = block if single else build.emit(ops.Start, axis=block).result
        if bound.kind == "start":
            moved = build.map("add", first, build.constant(bound.offset, i64))
            return build.map("maximum", start, moved), stop
        extent = build.constant(1, i64) if single else build.emit(ops.Extent, axis=block).result
        last = build.map("add", first, extent)
        if bound.offset:
            last = build.map("add", last, build.constant(bound.offset, i64))
        return start, build.map("minimum", last, stop)

    def _turn(self, folds: Sequence[Fold], carried: Sequence[Value]) -> list[Value]:
        """The values of the folds after one more block."""
        before = {op.result: value for op, value in zip(folds, carried)}
        after: list[Value] = []
        for number, op in enumerate(folds):
            earlier = frozenset(other.result for other in folds[:number])
            with self.builder.at(op.location):
                old = before[op.result]
                moments = moments_of(op)
                if moments is not None and moments.total in earlier:
                    new = self._squares(op, moments, old, before)
                else:
                    for factor in factors_of(op, Dependence(earlier)):
                        old = self._corrected(op, old, factor, before)
                    new = self._with_block(op, old)
            self.scopes[-1][op.result] = new
            after.append(new)
        return after

    def _with_block(self, op: Fold, old: Value) -> Value:
        if isinstance(op, graph.Contract):
            return self.product(op, old)
        axes = self.tile_axes(op.source)
        over = tuple(axes.index(axis) for axis in self.axes.reduced[op] if axis in axes)
        source = self.builder.cast(self.tile(op.source), self.accumulator(op))
        if over:
            source = self.builder.emit(ops.Reduce, sources=[source], axes=over, fn=op.fn).result
        return self.builder.map(_PAIRWISE[op.fn], old, source)

    def _squares(self, op: Fold, moments: Moments, old: Value, before: Mapping[Value, Value]) -> Value:
        """The sum of squares around the mean after one more block."""
        source, axes = self.builder.cast(self.tile(moments.source), old.dtype), self.tile_axes(moments.source)
        reduced = self.axes.reduced[op]
        streams = self._streams_of(reduced)
        counts = counts_of(
            self.builder,
            [(self.blocks[axis], self.sizes[axis]) for axis in streams],
            [self.sizes[axis] for axis in reduced if axis not in streams],
        )
        over = tuple(axes.index(axis) for axis in reduced if axis in axes)
        kept = self.tile_axes(op.result)
        total = before[moments.total]
        return squares_after(self.builder, source, over, lambda v: self.spread(v, kept, axes), counts, total, old)

    def _corrected(self, op: Fold, old: Value, factor: Factor, before: Mapping[Value, Value]) -> Value:
        """What was summed so far, in terms of what the values that it depends on are now."""
        change = self._change(factor.exponent, before)
        rescale = self.builder.map(factor.fn, change)
        axes = self._exponent_axes(factor.exponent)
        return self.builder.map("mul", old, self.spread(rescale, axes, self.tile_axes(op.result)))

    def _exponent_axes(self, exponent: Value) -> tuple[Axis, ...]:
        return self.tile_axes(unspread(exponent))

    def _change(self, exponent: Value, before: Mapping[Value, Value]) -> Value:
        """u - u': what the exponent was before this block, less what it is now."""
        plain = unspread(exponent)
        op = plain.op
        if plain not in before and isinstance(op, graph.Map) and op.fn == "mul":
            for value, other in (op.inputs, op.inputs[::-1]):
                if unspread(value) in before and isinstance(unspread(other).op, graph.Constant):
                    return self.builder.map("mul", self._change(value, before), self.tile(unspread(other)))
        old = self._evaluated(plain, before)
        return self.builder.map("sub", old, self.tile(plain))

    def _evaluated(self, value: Value, before: Mapping[Value, Value]) -> Value:
        """A value as it was before this block."""
        if value in before:
            return before[value]
        moving = frozenset(before)
        dependence = Dependence(moving)
        hidden = self.scopes
        kept = {v: t for v, t in self._made().items() if not dependence.of(v)}
        self.scopes = [{**kept, **before}]
        result = self.tile(value)
        self.scopes = hidden
        return result


class _Scope:
    """Emits into a body, with a memo of its own for the tiles made there."""

    def __init__(self, program: GroupProgram, block: Block) -> None:
        self.program = program
        self.block = block

    def __enter__(self) -> Block:
        self.outer = self.program.builder.block
        self.program.builder.block = self.block
        self.program.scopes.append({})
        return self.block

    def __exit__(self, *_: object) -> None:
        self.program.builder.block = self.outer
        self.program.scopes.pop()


_PAIRWISE = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum", "and": "and", "or": "or"}


def _identity(fn: str, dtype: DType, followed: bool) -> Number:
    """What a fold starts from. `followed`: others depend on it, and want a number where infinity has no difference."""
    match fn:
        case "add" | "or":
            return False if dtype == bool_ else 0.0 if dtype.is_float else 0
        case "mul" | "and":
            return True if dtype == bool_ else 1.0 if dtype.is_float else (1 if fn == "mul" else -1)
        case _:
            return _extreme(fn, dtype, followed)


def _extreme(fn: str, dtype: DType, followed: bool) -> Number:
    if dtype.is_float:
        bound = LOWEST if followed else float("-inf")
        return bound if fn == "max" else -bound
    if dtype == bool_:
        return fn == "min"
    low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
    high = (1 << (dtype.bits - (1 if dtype.is_signed else 0))) - 1
    return low if fn == "max" else high

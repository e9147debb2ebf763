"""Tiles of a group's values: each is made where it is asked for first, over the blocks that are open there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias, Union

from tiledsl.ir import graph_ops as graph
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Function, Index, Value, free_names
from tiledsl.ir.dtypes import bool_, f32, i64
from tiledsl.ir.symbolic import Dim, symbol, symbol_name
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.types import WHOLE, AxisType, Shape, Slice, scalar
from tiledsl.passes.analysis.few import SHORT_ROW
from tiledsl.passes.graph.analysis.axes import Axis, GroupAxes
from tiledsl.passes.graph.analysis.index_spans import index_span
from tiledsl.passes.graph.analysis.outline import is_soft
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.analysis.value_order import operands_first
from tiledsl.passes.graph.kernels.kernel_plan import FlatWindows
from tiledsl.passes.graph.kernels.records import NO_RECORDS, Records
from tiledsl.passes.graph.kernels.treatments import Treatments, lookups_of
from tiledsl.passes.graph.kernels.view_parts import Parts
from tiledsl.passes.graph.rewrites.widen_floats import rounded

_GRID_NAMES = ("M", "N", "P", "Q", "R", "S")
_WHOLE_NAMES = ("D", "E", "F", "G")
_STREAM_NAMES = ("K", "L", "J")

_MAPS = (graph.Map, graph.Cast, graph.Broadcast, graph.Transpose, graph.Reshape)
"""Ops whose tiles are made of those of their operands, where they are asked for."""
Fold: TypeAlias = Union[graph.Reduce, graph.Contract]


def _few(function: Function, axes: GroupAxes, treatments: Treatments, units: Sequence[int | None]) -> frozenset[Axis]:
    """Axes of a few elements that lie side by side in a tensor, and go by blocks beside others that do. Positions of
    windows stay blocks: those are shifted to what a window reads, a whole axis would be read one by one."""
    last = function.body.terminator
    assert last is not None
    rows = [axes.kept[one][unit] for one, unit in zip(function.parameters, units) if unit is not None]
    rows += [kept[-1] for kept in (axes.kept[value] for value in last.operands) if kept]
    blocked = {axis for axis in treatments.grid if axis not in treatments.single}
    positions = {axis for window in axes.windows.values() for axis in window.positions}
    few = frozenset(axis for axis in rows if 1 < axis.size <= SHORT_ROW and axis in blocked - positions)
    return few if blocked - few else frozenset()


class GroupTiles:
    """One group on its way to TILE. `units[i]` is the dimension of parameter i whose elements lie side by side; `parts`
    are parameters that are parts of others."""

    def __init__(
        self,
        function: Function,
        axes: GroupAxes,
        treatments: Treatments,
        units: Sequence[int | None],
        flat: FlatWindows | None = None,
        parts: Parts = (),
        *,
        numbers: bool = False,
        records: Records = NO_RECORDS,
    ) -> None:
        """`numbers`: whether rows of a few elements have their length as a number, so that what vectors of them cost
        is known (CPUs)."""
        self.function = function
        self.axes = axes
        self.units = units
        self.few = _few(function, axes, treatments, units) if numbers else frozenset[Axis]()
        """Axes of a few elements that lie side by side in a tensor."""
        indexed = axes.indexed.values() if numbers else ()
        short = (axis for axis in indexed if axis is not None and axis.size <= SHORT_ROW)
        self.numbers = {*axes.planes, *self.few, *short}
        self.treatments = replace(
            treatments,
            grid=tuple(axis for axis in treatments.grid if axis not in self.few),
            whole=treatments.whole | self.few,
        )
        self.flat = flat
        self.records = records
        self.fields = {function.parameters[number]: field.number for number, field in records.inputs.items()}
        """Of parameters that are fields of records, which."""
        self.wholes = {function.parameters[part]: function.parameters[whole] for part, whole in parts}
        """Of parameters that are parts of others, these: the program has no tensor for them."""
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

    def _name_sizes(self) -> dict[Axis, Dim]:
        """A symbol for each axis of a parameter, by which the launch knows its size; a number for every other one."""
        own = [parameter for parameter in self.function.parameters if parameter not in self.wholes]
        told = {axis for parameter in own for axis in self.axes.kept[parameter]}
        treatments = self.treatments
        # a loop that divides by sizes has them as numbers
        known: set[Axis | None] = {*self.numbers}
        if self.flat is not None:
            known |= {*self.flat.inner, self.flat.channels}
            known |= set(self.flat.rows) if self.flat.rows_are_numbers else set()
            known |= {*self.flat.together, self.flat.depth_axis}
        ordered = [*treatments.grid, *(a for a in self.axes.all if a not in treatments.grid)]
        sizes: dict[Axis, Dim] = {}
        counts: dict[tuple[str, ...], int] = {}
        for axis in ordered:
            names = _GRID_NAMES
            if axis in treatments.streamed:
                names = _STREAM_NAMES
            elif axis in treatments.whole or axis in self.axes.indexed.values():
                names = _WHOLE_NAMES
            number = counts[names] = counts.get(names, -1) + 1
            name = names[number % len(names)] + (str(number // len(names)) if number >= len(names) else "")
            sizes[axis] = symbol(name) if axis in told and axis not in known else axis.size
        if self.flat is not None and self.flat.joined not in told:
            rows = (sizes.setdefault(axis, axis.size) for axis in self.flat.rows)
            sizes[self.flat.joined] = math.prod(rows)
        return sizes

    def open(self, block: Block, axis: Axis, *, single: bool) -> Value:
        """Adds the block of an axis, or its coordinate, to the arguments of a body."""
        size = self.sizes[axis]
        name = free_names(self.declared, (symbol_name(size) or str(axis.name or "i")).lower())
        self.declared.add(name)
        argument = block.add_argument(scalar(i64) if single else AxisType(symbol(name)), name)
        self.blocks[axis] = argument
        return argument

    # Tiles

    def tile_axes(self, value: Value) -> tuple[Axis, ...]:
        """The axes of the tile of a value: all but those that go one coordinate at a time."""
        kept = self.axes.kept[value]
        if self.flat is not None and self._is_by_rows(value):  # as it is read
            first = next(axis for axis in kept if axis in self.flat.rows)
            kept = tuple(
                self.flat.joined if axis is first else axis
                for axis in kept
                if axis is first or axis not in self.flat.rows
            )
        return self._not_single(kept)

    def _is_by_rows(self, value: Value) -> bool:
        """Whether each row of a value has a coordinate along each of its axes."""
        return self.flat is not None and (value is self.flat.image or value in self.flat.apart)

    def _not_single(self, axes: Sequence[Axis]) -> tuple[Axis, ...]:
        return tuple(axis for axis in axes if not self._is_single(axis))

    def _is_single(self, axis: Axis) -> bool:
        """Whether an axis goes one coordinate at a time: in the grid, or in a loop that is open."""
        block = self.blocks.get(axis)
        return axis in self.treatments.single or (block is not None and not isinstance(block.type, AxisType))

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

    def places(self, value: Value) -> tuple[Index, ...]:
        """What selects the blocks at hand from the tensor that holds a value."""
        kept = self.axes.kept[value]
        return tuple(map(self._beside_slid, kept)) if self._is_by_rows(value) else self.subscripts(kept)

    def tile(self, value: Value) -> Value:
        """The tile of a value, made now unless there is one already."""
        found = self._known(value)
        if found is not None:
            return found
        # what maps read is made first, so that long chains of them are not followed by recursion
        for part in operands_first(value, lambda v: isinstance(v.op, _MAPS) and self._known(v) is None):
            found = self._tile(part)
        assert found is not None
        return found

    def _known(self, value: Value) -> Value | None:
        for scope in reversed(self.scopes):
            if value in scope:
                return scope[value]
        return None

    def _tile(self, value: Value) -> Value:
        found = self._known(value)
        if found is not None:
            return found
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
        whole = self.wholes.get(value)
        if value in self.fields:
            number = self.builder.constant(self.fields[value], i64)
            return self.builder.emit(ops.Load, tensor=self.tensors[value], indices=(*self.places(value), number)).result
        if whole is None:
            return self.builder.emit(ops.Load, tensor=self.tensors[value], indices=self.places(value)).result
        pairs = zip(self.places(value), self.axes.kept[value], self.axes.kept[whole])
        indices = [index if axis is other else Slice(0, axis.size) for index, axis, other in pairs]
        return self.builder.emit(ops.Load, tensor=self.tensors[whole], indices=indices).result

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
        """A tile over `axes` as one over `wanted`, which has them all: transposed, and repeated along the others."""
        order = [axis for axis in wanted if axis in axes]
        assert set(order) == set(axes), f"{axes} within {wanted}"
        tile = self.transposed(tile, axes, order)
        if list(wanted) == order:
            return tile
        if order:
            places = tuple(self.extent(axis) if axis in axes else 1 for axis in wanted)
            tile = self.builder.emit(ops.Reshape, source=tile, shape=places).result
        return self.builder.broadcast(tile, self.shape(wanted))

    def transposed(self, tile: Value, axes: Sequence[Axis], wanted: Sequence[Axis]) -> Value:
        """A tile over `axes` with them in the order `wanted`."""
        if list(axes) == list(wanted):
            return tile
        permutation = tuple(list(axes).index(axis) for axis in wanted)
        return self.builder.emit(ops.Transpose, source=tile, permutation=permutation).result

    def _gather(self, op: graph.Gather) -> Value:
        """A tensor at computed coordinates of one axis, or of several, of each by a lookup of its own."""
        chain = lookups_of(op.result)
        tensor, wanted = chain[-1].source, self.tile_axes(op.result)
        kept = self.axes.kept[tensor]
        by = {axis: one for one in chain if (axis := self.axes.indexed[one]) is not None}
        looked_up = [by[axis].indices for axis in kept if axis in by]
        together = tuple(dict.fromkeys(axis for indices in looked_up for axis in self.tile_axes(indices)))
        subscripts: list[Index] = []
        have: list[Axis] = []
        for axis in kept:
            if axis not in by:
                subscripts.append(self.blocks.get(axis, WHOLE))
                have += self._not_single([axis])
                continue
            indices, own = self.tile(by[axis].indices), self.tile_axes(by[axis].indices)
            have += together if own and not set(together) & set(have) else ()
            subscripts.append(self._beside_others(indices, own, together) if own else indices)
        known = tuple(number for number, axis in enumerate(kept) if axis in by and _is_inside(by[axis]))
        tile = self.builder.emit(ops.Load, tensor=self.tensors[tensor], indices=subscripts, in_bounds=known).result
        if by:
            return self.spread(tile, tuple(have), wanted)
        # of one element: it is there or outside
        indices = self.tile(op.indices)
        there = self.builder.map("eq", indices, self.builder.constant(0, indices.dtype))
        there = self.spread(there, self.tile_axes(op.indices), wanted)
        zero = self.builder.constant(False if tile.dtype == bool_ else 0, tile.dtype)
        return self.builder.map("where", there, self.spread(tile, tuple(have), wanted), zero)

    def _beside_others(self, indices: Value, own: tuple[Axis, ...], together: tuple[Axis, ...]) -> Value:
        """Coordinates over axes of their own as they are read beside others: of one element along the axes of these."""
        if own == together:
            return indices
        indices = self.transposed(indices, own, [axis for axis in together if axis in own])
        shape = tuple(self.extent(axis) if axis in own else 1 for axis in together)
        return self.builder.emit(ops.Reshape, source=indices, shape=shape).result

    def _window(self, op: graph.Window) -> Value:
        """The elements of windows at one place in each: what lies outside of the tensor is the padding."""
        pad = op.source.op
        assert isinstance(pad, graph.Pad), f"{op.name} of what is not padded"
        slid = self.axes.windows[op].slid
        kept = self.axes.kept[pad.source]
        subscripts = [
            self._slid(op, pad, slid.index(axis)) if axis in slid else self._beside_slid(axis) for axis in kept
        ]
        dtype = tensor_type(op.result).dtype
        other = self.builder.constant(pad.value, dtype) if pad.value else None
        tensor = self.tensors[pad.source]
        return self.builder.emit(ops.Load, tensor=tensor, indices=subscripts, other=other).result

    def _beside_slid(self, axis: Axis) -> Index:
        if self.flat is not None and axis in self.flat.rows:
            return self._row_coordinates(self.flat, axis)
        channels = None if self.flat is None else self.flat.channels
        if self.flat is not None and channels and self.flat.group is not None and axis is self.flat.all_channels:
            first = self.builder.constant(channels.size, i64)
            offset = self.builder.map("mul", self.blocks[self.flat.group], first)
            block = self.blocks[channels]
            if isinstance(block.op, ops.Shift):
                block, offset = block.op.axis, self.builder.map("add", block.op.offset, offset)
            return self.builder.emit(ops.Shift, axis=block, offset=offset).result
        if self.flat is not None and self.flat.planes is not None and axis is self.flat.all_images:
            return self._images_of_planes(self.flat, self.flat.planes)
        return self.blocks.get(axis, WHOLE)

    def _images_of_planes(self, flat: FlatWindows, planes: Axis) -> Value:
        """Of the rows at hand, or of the image at hand, where each is in every plane."""
        build, images = self.builder, flat.images
        alone = images is not None and not flat.counts_images
        image = self.blocks[images] if images is not None and alone else self._row_coordinates(flat, flat.rows[0])
        apart = build.constant(1 if images is None else images.size, i64)
        planes_at = build.map("mul", build.emit(ops.Arange, extent=planes.size).result, apart)
        planes_at = build.emit(ops.Reshape, source=planes_at, shape=(planes.size, 1)).result
        if alone:
            return build.map("add", planes_at, image)
        shape = (planes.size, *image.shape)
        image = build.emit(ops.Reshape, source=image, shape=(1, *image.shape)).result
        return build.map("add", build.broadcast(planes_at, shape), build.broadcast(image, shape))

    def _row_coordinates(self, flat: FlatWindows, axis: Axis) -> Value:
        """The coordinates along an axis of positions, or of images, of the rows at hand."""
        build, rows = self.builder, self._coordinates(flat.joined)
        number = flat.rows.index(axis)
        after = math.prod(other.size for other in flat.rows[number + 1 :])
        if after != 1:
            rows = build.map("floordiv", rows, build.constant(after, i64))
        ends = number > 0 or not flat.counts_images
        return build.map("mod", rows, build.constant(axis.size, i64)) if ends else rows

    def _slid(self, op: graph.Window, pad: graph.Pad, number: int) -> Index:
        """Which coordinates of a tensor windows read: position * stride + place in the window * dilation - padding. The
        last place is the first if the dilation is below zero."""
        build, window = self.builder, self.axes.windows[op]
        stride, dilation, low = op.strides[number], op.dilations[number], pad.low[op.axes[number]]
        position, inner = window.positions[number], window.inner[number]
        offset = build.constant(0, i64) if inner is None else self.blocks[inner]
        if abs(dilation) != 1:
            offset = build.map("mul", offset, build.constant(abs(dilation), i64))
        if dilation < 0 and inner is not None:
            offset = build.map("sub", build.constant((inner.size - 1) * -dilation, i64), offset)
        offset = build.map("sub", offset, build.size(low))  # though it is 0: so programs differ in numbers alone
        if position is None:
            return offset
        block = self.blocks.get(position)
        if stride == 1 and block is not None and not self._is_single(position):
            return build.emit(ops.Shift, axis=block, offset=offset).result
        if self.flat is not None and position in self.flat.rows:
            coordinates = self._row_coordinates(self.flat, position)
        else:
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

    def _streams_of(self, reduced: Sequence[Axis]) -> list[Axis]:
        """The streamed ones, the outermost loop's first: the longest goes by blocks."""
        inner, together = self.axes.inner, () if self.flat is None else self.flat.together
        streamed = (axis for axis in reduced if axis in self.treatments.streamed and axis not in together)
        return sorted(streamed, key=lambda axis: (axis not in inner, axis.size))

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
        planes = [[axis for axis in axes if axis in self.axes.planes] for axes in (left, right)]
        left, right = ([axis for axis in axes if axis not in self.axes.planes] for axes in (left, right))
        of_tiles = left, right
        left, right = self._with_depth(left), self._with_depth(right)
        summed = [axis for axis in left if axis in right and axis not in out]
        rows = [axis for axis in left if axis not in summed]
        columns = [axis for axis in right if axis not in summed]
        a, b = self.tile(op.a), self.tile(op.b)
        if len(summed) != 1 or len(rows) != 1 or len(columns) != 1 or rows == columns:
            return self._sum_of_products(op, acc)
        left, right = of_tiles
        if out != [*rows, *columns]:
            a, b, left, right, rows, columns = b, a, right, left, columns, rows
            planes.reverse()
        a = self._operand(a, [*planes[0], *left], [*planes[0], *rows, *summed])
        b = self._operand(b, [*planes[1], *right], [*planes[1], *summed, *columns])
        dot = self.builder.emit(ops.Dot, a=a, b=b, acc=acc, dtype=op.dtype, precision=op.precision)
        return dot.result

    def _with_depth(self, axes: list[Axis]) -> list[Axis]:
        """Axes of a tile that is multiplied, with those that are summed together as one."""
        if self.flat is None or self.flat.depth_axis is None or not set(self.flat.together) <= set(axes):
            return axes
        return [*(axis for axis in axes if axis not in self.flat.together), self.flat.depth_axis]

    def _operand(self, tile: Value, axes: list[Axis], wanted: list[Axis]) -> Value:
        """A tile over `axes` as an operand over `wanted`, of which one may stand for several."""
        depth, together = (None, ()) if self.flat is None else (self.flat.depth_axis, self.flat.together)
        if depth is None or depth in axes or depth not in wanted:
            return self.transposed(tile, axes, wanted)
        at = wanted.index(depth)
        tile = self.transposed(tile, axes, [*wanted[:at], *together, *wanted[at + 1 :]])
        return self.builder.emit(ops.Reshape, source=tile, shape=self.shape(wanted)).result

    def _sum_of_products(self, op: graph.Contract, acc: Value | None) -> Value:
        """A product that is none of matrices: multiplied elementwise, and folded."""
        out = self.tile_axes(op.result)
        over = self._not_single(self.axes.reduced[op])
        wanted = (*out, *over)
        operands = [exact or made for exact, made in ((op.exact_a, op.a), (op.exact_b, op.b))]
        operands = [_unrounded(v) for v in operands] if op.dtype == f32 else operands
        a, b = (self.spread(self.builder.cast(self.tile(v), op.dtype), self.tile_axes(v), wanted) for v in operands)
        if op.precision == "planes":  # as large as what planes give
            a = self.builder.map("mul", a, self.builder.constant(1.0 / ops.PLANES_SCALE, op.dtype))
        value = self.builder.map("mul", a, b)
        if over:
            positions = tuple(range(len(out), len(wanted)))
            value = self.builder.emit(ops.Reduce, sources=[value], axes=positions, fn="add").result
        return value if acc is None else self.builder.map("add", acc, value)

    def _stream(self, streams: Sequence[Axis]) -> None:
        """Makes the folds over these axes, by loops over their blocks."""
        raise NotImplementedError


def _is_inside(op: graph.Gather) -> bool:
    """Whether all coordinates of a lookup are known to be of its source."""
    span = index_span(op.indices)
    return span is not None and 0 <= span[0] <= span[1] < sizes_of(op.source)[op.axis]


def _unrounded(value: Value) -> Value:
    """What an operand was in f32 before it was rounded in this group, perhaps reindexed since; else itself."""
    below = value
    while below.op is not None and is_soft(below.op):
        below = below.op.operands[0]
    return rounded(below) or value


class Scope:
    """Emits into a body, with a memo of its own for the tiles made there."""

    def __init__(self, program: GroupTiles, block: Block) -> None:
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

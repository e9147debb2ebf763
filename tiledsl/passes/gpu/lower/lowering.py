"""What the lowering of a grid keeps: where to emit, and what each value of the TILE program has become.

A tile may be there in several layouts: `tile(value, layout)` gives it in the one asked for. A value that is cheap to
make (a constant, coordinates, a broadcast, what is computed from these) is made there and then; any other is converted
from the layout that it is in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Function, Index, Op, Value
from tiledsl.ir.dtypes import DType, i64
from tiledsl.ir.facts import Facts, facts_of
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.layouts.conversions import convert_plan
from tiledsl.ir.layouts.layout import Digit, RegisterLayout, SharedLayout
from tiledsl.ir.layouts.shared_layouts import Method, choose_shared_layout
from tiledsl.ir.symbolic import Dim, Expr, Opaque, Symbol, symbols_of
from tiledsl.ir.types import AxisType, Shape, Slice, TileType, Whole
from tiledsl.passes.analysis.effects import tensors_in_order, tensors_written
from tiledsl.passes.analysis.sizes import constant_of
from tiledsl.passes.gpu.layouts.capacities import Capacities
from tiledsl.passes.gpu.layouts.infer_layouts import LayoutInference
from tiledsl.passes.gpu.layouts.shared_accesses import (
    aligned_vector,
    matrix_method,
    plain_access,
    shared_layout,
    static_shape,
    whole_vector,
)
from tiledsl.passes.gpu.plan import GridPlan, Plan
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.passes.manager import PassContext
from tiledsl.support.errors import fail
from tiledsl.support.follow import follow

if TYPE_CHECKING:
    from tiledsl.passes.gpu.roles.rings import Ring

OpT = TypeVar("OpT", bound=Op)
MOST_MULTIPLE = 16
"""Nothing needs to be known to be a multiple of more: no access is of more than 16 bytes."""


@dataclass(frozen=True)
class BlockPlace:
    """What a block has become: its first coordinate, and how many coordinates it has (None: as many as there is room).

    `multiple`, `extent_multiple`: powers of two, at most `MOST_MULTIPLE`, that the two are known to be multiples of.
    """

    start: Value
    extent: Value | None
    multiple: int
    extent_multiple: int


@dataclass(frozen=True)
class Staged:
    """A tile that stands in a buffer: tile axis i runs along buffer axis places[i]. `stage` is where it is on the
    buffer's first axis, if that is one of stages."""

    buffer: Value
    places: tuple[int, ...]
    stage: Value | None = None


class Lowering:
    """The state of lowering one grid, or one run of ops outside of grids."""

    def __init__(
        self,
        function: Function,
        machine: GpuMachine,
        plan: Plan,
        grid: GridPlan,
        inference: LayoutInference,
        builder: Builder,
        context: PassContext,
    ) -> None:
        self.function = function
        self.machine = machine
        self.plan = plan
        self.grid = grid
        self.inference = inference
        self.builder = builder
        self.context = context
        self.capacities: Capacities = inference.capacities
        self.facts: Facts = facts_of(function)
        self.written = tensors_written(function.body.ops)
        self.tensors: dict[Value, Value] = {}
        self.staged: dict[Value, Staged] = {}
        self.rings: dict[Block, list[Ring]] = {}
        """In a role that multiplies: what comes by TMA in the body of a loop, or of the grid."""
        self.takes_turns = False
        """Whether warpgroups of the role begin their products in turn."""
        self.skipped: set[Op] = set()
        """Ops that something else does the work of."""
        self.kept: set[Value] = set()
        """Results of loads that were made before their place in the program."""
        self.operands: dict[tuple[Value, RegisterLayout], Value] = {}
        """Operands of products that are ready in registers, without padding along K."""
        self._scalars: dict[Value, Value] = {}
        self._tiles: dict[Value, dict[RegisterLayout, Value]] = {}
        self._paddings: dict[tuple[Value, int], float] = {}
        self._blocks: dict[Value, BlockPlace] = {}
        self._extents: dict[str, BlockPlace] = {}
        self._scopes: list[list[Callable[[], object]]] = [[]]

    @property
    def threads(self) -> int:
        """Threads of a program, those of all blocks of its cluster."""
        return self.grid.threads * self.grid.cluster

    @property
    def replicated(self) -> RegisterLayout:
        """The layout of a tile of one element of rank 1."""
        return RegisterLayout((1,), (Digit(self.threads, None, 0),), ())

    # Emission

    def emit(
        self, kind: type[OpT], *, types: Sequence[TileType] | None = None, name: str | Sequence[str] = "", **fields: Any
    ) -> OpT:
        """Builds an op at the current point. `types` where the op implies no layouts."""
        names = (name,) if isinstance(name, str) else tuple(name)
        return self.builder.emit(kind, types=types, result_names=names, **fields)

    def constant(self, value: int | float | bool, dtype: DType = i64) -> Value:
        """A scalar constant."""
        return self.builder.constant(value, dtype)

    def arithmetic(self, fn: str, left: Value, right: Value | int) -> Value:
        """An i64 scalar computed from two."""
        first, second = constant_of(left), right if isinstance(right, int) else constant_of(right)
        if (second == 0 and fn in ("add", "sub")) or (second == 1 and fn in ("mul", "floordiv")):
            return left
        if first is not None and second is not None and fn in ("add", "sub", "mul"):
            known = {"add": first + second, "sub": first - second, "mul": first * second}
            return self.constant(known[fn])
        if first == 0 and fn == "add" and isinstance(right, Value):
            return right
        return self.builder.map(fn, left, self.constant(right) if isinstance(right, int) else right)

    def next_stage(self, stage: Value, stages: int) -> Value:
        """The stage after one, the first after the last."""
        after = self.arithmetic("add", stage, 1)
        wraps = self.builder.map("eq", after, self.constant(stages))
        return self.builder.map("where", wraps, self.constant(0), after)

    def quotient_up(self, dividend: Value, divisor: int) -> Value:
        """An i64 scalar divided by a number, rounded up."""
        return self.arithmetic("floordiv", self.arithmetic("add", dividend, divisor - 1), divisor)

    @contextmanager
    def scope(self, block: Block) -> Generator[None]:
        """Emits into `block`; what is defined meanwhile is forgotten afterwards."""
        self._scopes.append([])
        with self.builder.inside(block):
            yield
        for forget in reversed(self._scopes.pop()):
            forget()

    @contextmanager
    def when(self, condition: Value) -> Generator[None]:
        """Emits what is done only if a scalar is true, and gives no results."""
        then, otherwise = Block(), Block()
        with self.scope(then):
            yield
            self.emit(ops.Yield)
        with self.scope(otherwise):
            self.emit(ops.Yield)
        self.emit(ops.If, types=[], condition=condition, then=then, otherwise=otherwise)

    @contextmanager
    def trial(self) -> Generator[None]:
        """Emits what is thrown away afterwards: to find out what lowering something would come to."""
        block = Block()
        with self.scope(block):
            yield
        for op in reversed(list(block.ops)):
            op.erase()

    # Scalars, sizes, blocks

    def define_scalar(self, value: Value, lowered: Value) -> None:
        """Says what a scalar has become."""
        self._scalars[value] = lowered
        self._scopes[-1].append(lambda: self._scalars.pop(value, None))

    def scalar(self, value: Value) -> Value:
        """What a scalar has become. Pure ones from outside of grids are made here again."""
        if value not in self._scalars:
            assert value.op is not None, f"%{value.name} is not lowered yet"
            self.lower_op(value.op)
        return self._scalars[value]

    def coordinate(self, value: Value) -> Value:
        """What an integer scalar has become, as i64: programs count in any integer type, GPU form in this one alone."""
        return self.builder.cast(self.scalar(value), i64)

    lower_op: Callable[[Op], None]
    """Lowers an op at the current point; set by the pass."""
    lower_block: Callable[[Block], None]
    """Lowers all ops of a block but its yield at the current point; set by the pass."""
    make_tile: Callable[[Value, RegisterLayout], Value | None]
    """The result of an op made in a layout, None where it cannot be (`make_tiles.py`); set by the pass."""

    def define_block(self, axis: Value, place: BlockPlace) -> None:
        """Says where a block is."""
        self._blocks[axis] = place
        assert isinstance(axis.type, AxisType)
        name = str(axis.type.extent)
        if place.extent is not None and not isinstance(axis.type.extent, int):
            self._extents[name] = place

    @contextmanager
    def elsewhere(self, axis: Value, place: BlockPlace | Value) -> Generator[None]:
        """Takes a block (or the coordinate that stands for one) to be elsewhere for a while."""
        if isinstance(place, Value):
            coordinate = self._scalars.get(axis)
            self._scalars[axis] = place
            yield
            self._scalars.pop(axis)
            if coordinate is not None:
                self._scalars[axis] = coordinate
            return
        assert isinstance(axis.type, AxisType)
        name = str(axis.type.extent)
        before, extent = self._blocks.get(axis), self._extents.get(name)
        self._blocks[axis] = place
        if place.extent is not None and not isinstance(axis.type.extent, int):
            self._extents[name] = place
        yield
        self._blocks.pop(axis)
        self._extents.pop(name, None)
        if before is not None:
            self._blocks[axis] = before
        if extent is not None:
            self._extents[name] = extent

    def block(self, axis: Value) -> BlockPlace:
        """Where a block is; that of a shift is its axis', moved."""
        if axis not in self._blocks:
            assert isinstance(axis.op, ops.Shift)
            inner, offset = self.block(axis.op.axis), axis.op.offset
            start = self.arithmetic("add", inner.start, self.coordinate(offset))
            multiple = math.gcd(inner.multiple, self.multiple(offset))
            return BlockPlace(start, inner.extent, multiple, inner.extent_multiple)
        return self._blocks[axis]

    def start_of(self, index: Index) -> Value:
        """Where a subscript that is no gather begins."""
        match index:
            case Whole():
                return self.constant(0)
            case Slice():
                return self.size(index.start)
            case Value(type=AxisType()):
                return self.block(index).start
            case Value():
                return self.coordinate(index)

    def size(self, dim: Dim) -> Value:
        """A size as an i64 scalar; the extents of blocks may stand in it."""
        if isinstance(dim, int):
            return self.constant(dim)
        if not symbols_of(dim) & self._extents.keys():
            return self.builder.size(dim)
        total: Value | None = None
        for monomial, coefficient in dim.terms:
            product: Value | None = None
            for atom in monomial:
                factor = self._atom(atom)
                product = factor if product is None else self.arithmetic("mul", product, factor)
            term = (
                self.constant(coefficient)
                if product is None
                else self.arithmetic("mul", product, coefficient)
            )  # fmt: skip
            total = term if total is None else self.arithmetic("add", total, term)
        assert total is not None
        return total

    def _atom(self, atom: Symbol | Opaque) -> Value:
        if isinstance(atom, Symbol):
            place = self._extents.get(atom.name)
            if place is not None and place.extent is not None:
                return place.extent
            return self.builder.size(Expr((((atom,), 1),)))
        names = {"floordiv": "floordiv", "mod": "mod", "min": "minimum", "max": "maximum"}
        return self.arithmetic(names[atom.operation], self.size(atom.left), self.size(atom.right))

    def extent(self, dim: Dim) -> Value | None:
        """How many elements there are along an axis of that size; None where there is no room for more."""
        if isinstance(dim, int) and dim == self.capacities.of(dim):
            return None
        return self.size(dim)

    def ragged(self, shape: Shape, axes: Sequence[int] | None = None) -> list[tuple[int, Value]]:
        """The axes (all, or some of these) that may have padding, with their extents."""
        found: list[tuple[int, Value]] = []
        for axis in range(len(shape)) if axes is None else axes:
            extent = self.extent(shape[axis])
            if extent is not None and constant_of(extent) != self.capacities.of(shape[axis]):
                found.append((axis, extent))
        return found

    def padded(
        self, value: Value, shape: Shape, fill: int | float | bool, axes: Sequence[int] | None = None, name: str = ""
    ) -> Value:
        """A tile of that true shape with `fill` for its padding, along all axes or some of them."""
        ragged = [one for one in self.ragged(shape, axes) if self._paddings.get((value, one[0])) != fill]
        if not ragged:
            return value
        extents, constant = [extent for _, extent in ragged], self.constant(fill, value.dtype)
        padded_axes = tuple(axis for axis, _ in ragged)
        return self.emit(gpu.Pad, name=name, source=value, extents=extents, fill=constant, axes=padded_axes).result

    def know_padding(self, value: Value, axis: int, fill: float) -> None:
        """Says what the padding of a lowered tile along an axis is already."""
        self._paddings[value, axis] = fill

    def extent_multiple(self, dim: Dim) -> int:
        """A power of two (at most `MOST_MULTIPLE`) that the extent of an axis is known to be a multiple of."""
        if isinstance(dim, int):
            return math.gcd(dim, MOST_MULTIPLE)
        place = self._extents.get(str(dim))
        if place is not None:
            return place.extent_multiple
        return self.size_multiple(dim)

    def size_multiple(self, dim: Dim) -> int:
        """A power of two (at most `MOST_MULTIPLE`) that a size is known to be a multiple of."""
        return next(n for n in (16, 8, 4, 2, 1) if self.facts.divisible(dim, n))

    def multiple(self, value: Value) -> int:
        """A power of two (at most `MOST_MULTIPLE`) that an i64 scalar of the TILE program is a multiple of."""
        return follow(self._multiple, value)

    def _multiple(self, value: Value) -> Generator[Value, int, int]:
        match value.op:
            case ops.Constant() as op:
                return math.gcd(int(op.value), MOST_MULTIPLE)
            case ops.Size() as op:
                return self.size_multiple(op.value)
            case ops.Start() as op:
                return self.block(op.axis).multiple
            case ops.Map() as op if op.fn in ("add", "sub", "minimum", "maximum"):
                return math.gcd((yield op.inputs[0]), (yield op.inputs[1]))
            case ops.Map() as op if op.fn == "mul":
                return min(MOST_MULTIPLE, (yield op.inputs[0]) * (yield op.inputs[1]))
            case _:
                return 1

    def divides(self, divisor: int, value: Value) -> bool:
        """Whether an i64 scalar of the TILE program is known to be a multiple of some number."""
        return follow(partial(self._divides, divisor), value)

    def _divides(self, divisor: int, value: Value) -> Generator[Value, bool, bool]:
        match value.op:
            case ops.Constant() as op:
                return int(op.value) % divisor == 0
            case ops.Size() as op:
                return self.facts.divisible(op.value, divisor)
            case ops.Start() as op:
                owner = op.axis.owner.parent if isinstance(op.axis.owner, Block) else None
                if not isinstance(owner, ops.Grid):
                    return False
                return owner.blocks[owner.body.arguments.index(op.axis)].size % divisor == 0
            case ops.Map() as op if op.fn in ("add", "sub", "minimum", "maximum"):
                return (yield op.inputs[0]) and (yield op.inputs[1])
            case ops.Map(fn="mul") as op:
                return (yield op.inputs[0]) or (yield op.inputs[1])
            case _:
                return False

    # Tiles

    def define(self, value: Value, lowered: Value) -> None:
        """Says what a tile (or a scalar) has become, in the layout that `lowered` has."""
        if not value.shape:
            self.define_scalar(value, lowered)
            return
        forms = self._tiles.setdefault(value, {})
        layout = lowered.layout
        if layout not in forms:
            forms[layout] = lowered
            self._scopes[-1].append(lambda: forms.pop(layout, None))

    def redefine(self, value: Value, lowered: Value) -> None:
        """Takes another tile for one that is defined in that layout: they differ in their padding alone."""
        assert lowered.layout in self._tiles[value]
        self._tiles[value][lowered.layout] = lowered

    def layout(self, value: Value) -> RegisterLayout:
        """The layout that suits a tile: that of inference, or a plain one."""
        return self.inference.of(value) or self.inference.default(value.shape)

    def any(self, value: Value) -> Value:
        """A tile in the layout that suits it, or a scalar."""
        return self.tile(value, self.layout(value)) if value.shape else self.scalar(value)

    def tile(self, value: Value, layout: RegisterLayout) -> Value:
        """A tile in the layout asked for: as it is, made anew, or converted."""
        forms = self._tiles.get(value)
        if not forms and value in self.staged:
            staged = self.staged[value]
            found = self.read_staged(staged, layout, value.name, method=self._method(staged, layout))
        elif forms:
            found = forms.get(layout)
            if found is None:
                found = self._remade(value, layout)
            if found is None:
                found = self.convert(next(iter(forms.values())), layout)
        else:
            found = self._remade(value, layout)
            if found is None:
                assert value.op is not None, f"%{value.name} is not lowered yet"
                self.lower_op(value.op)
                return self.tile(value, layout)
        self.define(value, found)
        return found

    def _method(self, staged: Staged, layout: RegisterLayout) -> Method:
        """By matrices where a role reads 16-bit elements as accumulators lie: one instruction for 8 elements each."""
        dtype, shared, shape = staged.buffer.dtype, shared_layout(staged.buffer), static_shape(staged.buffer)
        if not self.grid.roles or dtype.bits != 16 or layout.rank != 2 or shared.order[-1] not in staged.places:
            return "plain"
        return matrix_method(layout, shared, shape, dtype, staged.places)

    def hold_operand(self, value: Value, layout: RegisterLayout, lowered: Value) -> None:
        """Says that an operand of products is ready, from here to the end of this scope."""
        self.operands[value, layout] = lowered
        self._scopes[-1].append(lambda: self.operands.pop((value, layout), None))

    def type_in(self, value: Value, layout: RegisterLayout) -> TileType:
        """The type of a tile of the TILE program in registers."""
        return TileType(value.dtype, layout.shape, "register", layout)

    def _remade(self, value: Value, layout: RegisterLayout) -> Value | None:
        """A value that is cheap to make, in that layout; None for others."""
        cheap = self.inference.of(value) is None or isinstance(value.op, ops.Broadcast)
        return self.make_tile(value, layout) if cheap else None

    # Between layouts

    def reshaped(self, tile: Value, layout: RegisterLayout, name: str = "") -> Value:
        """A tile in registers with its axes of size 1 as `layout` has them: nothing moves."""
        type_ = TileType(tile.dtype, layout.shape, "register", layout)
        return self.emit(ops.Reshape, types=[type_], name=name, source=tile, shape=layout.shape).result

    def filled(self, source: Value, layout: RegisterLayout) -> Value:
        """A scalar, or a tile of as many axes that are 1 or as long, repeated to a tile in that layout."""
        type_ = TileType(source.dtype, layout.shape, "register", layout)
        return self.emit(ops.Broadcast, types=[type_], source=source, shape=layout.shape).result

    def convert(self, source: Value, layout: RegisterLayout) -> Value:
        """A tile in registers in another layout, in the cheapest way."""
        if source.layout == layout:
            return source
        if convert_plan(source.layout, layout).kind != "shared":
            return self.emit(gpu.Convert, name=source.name, source=source, layout=layout).result
        buffer = self.shared_copy(source, [(layout, list(range(layout.rank)))])
        return self.read(buffer, layout, name=source.name)

    def shared_copy(self, source: Value, readers: Sequence[tuple[RegisterLayout, Sequence[int]]]) -> Value:
        """A buffer that holds a tile, laid out for the way it is written and for its readers (layout, buffer axes)."""
        shape = source.layout.shape
        self.stay_in_block(source.layout, "what moves between its threads")
        places = tuple(range(len(shape)))
        accesses = tuple(
            plain_access(layout, tuple(axes), source.dtype) for layout, axes in ((source.layout, places), *readers)
        )
        shared = choose_shared_layout(shape, source.dtype, accesses)
        buffer = self.buffer(shape, source.dtype, shared, source.name)
        self.write(buffer, source)
        return buffer

    def stay_in_block(self, layout: RegisterLayout, what: str) -> None:
        """Raises TileResourceError where a tile is shared out over the blocks of a cluster: `what` cannot be."""
        outermost = layout.thread_digits[0] if layout.thread_digits else None
        copies = outermost.size if outermost is not None and outermost.axis is None else 1
        if copies % self.grid.cluster != 0:
            elements = math.prod(layout.shape)
            fail("plan-cluster", self.builder.location, elements=elements, what=what)

    def buffer(self, shape: Sequence[int], dtype: DType, layout: SharedLayout, name: str) -> Value:
        """A new buffer in shared memory."""
        return self.emit(gpu.Buffer, name=name, shape=tuple(shape), dtype=dtype, layout=layout).result

    def write(self, buffer: Value, value: Value, places: Sequence[int] | None = None) -> None:
        """Writes a tile at the start of a buffer; tile axis i runs along buffer axis places[i]."""
        places = tuple(range(len(value.shape))) if places is None else tuple(places)
        shared, shape = shared_layout(buffer), static_shape(buffer)
        vector = whole_vector(value.layout, shared, shape, value.dtype, places)
        zeros = [self.constant(0)] * len(shape)
        self.emit(gpu.Write, buffer=buffer, value=value, offsets=zeros, places=places, vector=vector)

    def read(
        self,
        buffer: Value,
        layout: RegisterLayout,
        *,
        offsets: Sequence[Value] | None = None,
        places: Sequence[int] | None = None,
        method: str = "plain",
        name: str = "",
    ) -> Value:
        """Reads a tile of a buffer; it starts at `offsets` (0), and its axis i runs along buffer axis places[i]."""
        shared, shape = shared_layout(buffer), static_shape(buffer)
        places = tuple(range(len(shape))) if places is None else tuple(places)
        vector = 1
        if method == "plain":
            vector = whole_vector(layout, shared, shape, buffer.dtype, places)
            if offsets is not None:
                vector = aligned_vector(vector, offsets[shared.order[-1]])
        starts = [self.constant(0)] * len(shape) if offsets is None else list(offsets)
        return self.emit(
            gpu.Read, name=name, buffer=buffer, offsets=starts, places=places,
            method=method, vector=vector, shape=layout.shape, layout=layout,
        ).result  # fmt: skip

    def read_staged(
        self,
        staged: Staged,
        layout: RegisterLayout,
        name: str,
        starts: Sequence[int] | None = None,
        method: Method = "plain",
        fixed: Mapping[int, int] | None = None,
    ) -> Value:
        """A tile, or the part of it from `starts` on, out of its buffer; `fixed`: where on other axes of that."""
        offsets = [self.constant((fixed or {}).get(axis, 0)) for axis in range(len(static_shape(staged.buffer)))]
        for axis, start in zip(staged.places, starts or ()):
            if start:
                offsets[axis] = self.constant(start)
        if staged.stage is not None:
            offsets[0] = staged.stage
        return self.read(staged.buffer, layout, offsets=offsets, places=staged.places, method=method, name=name)

    def tensor_number(self, tensor: Value) -> int:
        """The number of a tensor among the parameters, then the new ones: where its alignment stands in the plan."""
        return tensors_in_order(self.function.body).index(tensor)

    def remark(self, location_of: Op, text: str) -> None:
        """Notes something for `explain()`."""
        self.context.remark("lower-to-gpu", location_of.location, text)

"""What the lowering of a grid keeps: where to emit, and what each value of the TILE program has become.

A tile may be there in several layouts: `tile(value, layout)` gives it in the one asked for. A value that is cheap to
make (a constant, coordinates, a broadcast, what is computed from these) is made there and then; any other is converted
from the layout that it is in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Function, Op, Value
from tiledsl.ir.dtypes import DType
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.conversions import convert_plan
from tiledsl.ir.layouts.layout import Digit, RegisterLayout
from tiledsl.ir.layouts.shared_layouts import Method, choose_shared_layout
from tiledsl.ir.types import Shape, TileType
from tiledsl.passes.analysis.effects import tensors_in_order, tensors_written
from tiledsl.passes.gpu.layouts.infer_layouts import LayoutInference
from tiledsl.passes.gpu.layouts.shared_accesses import (
    aligned_vector,
    matrix_method,
    plain_access,
    shared_layout,
    static_shape,
    whole_vector,
)
from tiledsl.passes.gpu.lower.scalar_lowering import ScalarLowering
from tiledsl.passes.gpu.plan import GridPlan, Plan
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.passes.manager import PassContext
from tiledsl.support.errors import fail

if TYPE_CHECKING:
    from tiledsl.passes.gpu.roles.products.scores_apart import Side
    from tiledsl.passes.gpu.roles.rings import Ring


@dataclass(frozen=True)
class Staged:
    """A tile that stands in a buffer: tile axis i runs along buffer axis places[i]. `stage` is where it is on the
    buffer's first axis, if that is one of stages. `filled`: in a cluster whose blocks have a part each, the layout (of
    the tile's axes) in which these were filled; None where each block has the whole."""

    buffer: Value
    places: tuple[int, ...]
    stage: Value | None = None
    filled: RegisterLayout | None = None


class Lowering(ScalarLowering):
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
        super().__init__(function, inference.capacities, builder)
        self.machine = machine
        self.plan = plan
        self.grid = grid
        self.inference = inference
        self.context = context
        self.written = tensors_written(function.body.ops)
        self.tensors: dict[Value, Value] = {}
        self.staged: dict[Value, Staged] = {}
        self.rings: dict[Block, list[Ring]] = {}
        """In a role that multiplies: what comes by TMA in the body of a loop, or of the grid."""
        self.takes_turns = False
        """Whether warpgroups of the role begin their products in turn."""
        self.side: Side | None = None
        """Of a role that makes a part of each turn of a loop: which."""
        self.skipped: set[Op] = set()
        """Ops that something else does the work of."""
        self.kept: set[Value] = set()
        """Results of loads that were made before their place in the program."""
        self.operands: dict[tuple[Value, RegisterLayout], Value] = {}
        """Operands of products that are ready in registers, without padding along K."""
        self.private: dict[ops.Atomic, Callable[[ops.Atomic], None]] = {}
        """Atomics that are lowered otherwise: into a table of the program."""
        self._tiles: dict[Value, dict[RegisterLayout, Value]] = {}
        self._paddings: dict[tuple[Value, int], float] = {}

    @property
    def threads(self) -> int:
        """Threads of a program, those of all blocks of its cluster."""
        return self.grid.threads * self.grid.cluster

    @property
    def replicated(self) -> RegisterLayout:
        """The layout of a tile of one element of rank 1."""
        return RegisterLayout((1,), (Digit(self.threads, None, 0),), ())

    lower_block: Callable[[Block], None]
    """Lowers all ops of a block but its yield at the current point; set by the pass."""
    beside: Callable[[GridPlan], Lowering]
    """The state of lowering the same grid by other threads; set by the pass."""
    make_tile: Callable[[Value, RegisterLayout], Value | None]
    """The result of an op made in a layout, None where it cannot be (`make_tiles.py`); set by the pass."""

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
            found = self._from_stage(value, self.staged[value], layout)
        elif forms:
            found = forms.get(layout)
            if found is None:
                found = self._remade(value, layout)
            if found is None:
                found = self._converted(value, list(forms.values()), layout)
        else:
            found = self._remade(value, layout)
            if found is None:
                assert value.op is not None, f"%{value.name} is not lowered yet"
                self.lower_op(value.op)
                return self.tile(value, layout)
        self.define(value, found)
        return found

    def _from_stage(self, value: Value, staged: Staged, layout: RegisterLayout) -> Value:
        """What stands in a buffer, or is loaded again where another block of the cluster has it."""
        if staged.filled is not None and not self.stays_in_block(staged.filled, layout):
            made = self.make_tile(value, layout)
            if made is not None:
                return made
            self.stay_in_block(staged.filled, "what its threads copy for each other")
        return self.read_staged(staged, layout, value.name, method=self._method(staged, layout))

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

    # Between layouts

    def _converted(self, value: Value, forms: Sequence[Value], layout: RegisterLayout) -> Value:
        """A tile from one of its forms. Where all of these lie in other blocks of a cluster than `layout` has them in,
        nothing can move: the tile is loaded or computed again."""
        near = next((form for form in forms if self.stays_in_block(form.layout, layout)), None)
        if near is None:
            made = self.make_tile(value, layout)
            if made is not None:
                return made
        return self.convert(forms[0] if near is None else near, layout)

    def stays_in_block(
        self, source: RegisterLayout, target: RegisterLayout, places: Sequence[int] | None = None
    ) -> bool:
        """Whether each block of the cluster has what it is to have in another layout, whose axis i is axis places[i] of
        the source."""
        if self.grid.cluster == 1:
            return True
        try:
            axis, wanted = source.shared_axis(self.grid.cluster), target.shared_axis(self.grid.cluster)
        except ValueError:
            return False
        found = wanted if wanted is None or places is None else places[wanted]
        return axis is None or axis == found

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
        places, parts = tuple(range(source.layout.rank)), False
        if self.grid.cluster > 1 and all(self.stays_in_block(source.layout, *reader) for reader in readers):
            parts = bool(readers) and source.layout.shared_axis(self.grid.cluster) is not None
        if not parts:
            self.stay_in_block(source.layout, "what moves between its threads")

        def in_block(layout: RegisterLayout) -> RegisterLayout:
            return layout.part_of_block(self.grid.cluster) if parts else layout

        shape = in_block(source.layout).shape
        accesses = tuple(
            plain_access(in_block(layout), tuple(axes), source.dtype)
            for layout, axes in ((source.layout, places), *readers)
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

"""Emits the ops of a block in order, gathering neighbours over one domain into a common loop nest.

Nothing is written when a store, a reduction or a kept tile comes along: it joins the *pending* nest, which is written
when something arrives that needs its results or does not fit in with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tiledsl.backend_cpu.emit.print_calls import dense, emit_print
from tiledsl.backend_cpu.emit.residence import BlockPlan, plan_block
from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.nests.element_loops import LoopTile
from tiledsl.backend_cpu.nests.fold_nests import emit_nest, fold_form
from tiledsl.backend_cpu.nests.fold_sinks import FindTile, FoldCustom, FoldTile
from tiledsl.backend_cpu.nests.nests import Nest
from tiledsl.backend_cpu.nests.pending import Pending
from tiledsl.backend_cpu.nests.scans import ScanTile
from tiledsl.backend_cpu.nests.sinks import AssertTile, AtomicTile, Keep, KeepForLater, Sink, StoreTile
from tiledsl.backend_cpu.nests.sorts import sort_rows
from tiledsl.backend_cpu.nests.transposed_nests import transposed
from tiledsl.backend_cpu.products.dots import (
    accumulates_in_place,
    allocate_left,
    allocate_right,
    call_dot,
    kernel_of,
    packed_through,
)
from tiledsl.backend_cpu.products.pack_groups import PackGroups
from tiledsl.backend_cpu.products.pack_panels import PackPanels, goes_by_panels
from tiledsl.backend_cpu.products.streamed_dots import (
    Side,
    StreamedDot,
    allocate_few,
    allocate_transposed,
    few_side,
    runs_along_depth,
)
from tiledsl.backend_cpu.values.context import Context
from tiledsl.backend_cpu.values.evaluate import evaluate, index_of
from tiledsl.backend_cpu.values.expressions import contiguity, expression_ops, is_lazy, op_cost, store_contiguity
from tiledsl.backend_cpu.values.storage import Buffer, Joined, PackedLeft, PackedRight, Point, Storage, groups_of
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.dtypes import DType, compute_dtype
from tiledsl.ir.types import TileType
from tiledsl.passes.analysis.element_loops import is_elementwise, loops_within
from tiledsl.passes.analysis.few import SHORT_ROW
from tiledsl.passes.cpu.grid_work import updated_row

SCALAR = Point(())
WIDEST_ROW_UNIT = 8
COLLAPSE = 8
"""Vector operations that make one element of the lanes of a vector."""


@dataclass
class Effects:
    """What a program tells its host: numbered as they are met, over all phases."""

    assertions: list[ops.Assert] = field(default_factory=list[ops.Assert])
    prints: list[ops.Print] = field(default_factory=list[ops.Print])
    residence: dict[Value, str] = field(default_factory=dict[Value, str])
    """What became of the tiles that are loaded, computed at cost, or kept."""


class BlockEmitter:
    """Writes blocks of one function; `control` ops are handed to whoever subclasses this."""

    def __init__(self, context: Context, written: frozenset[Value], effects: Effects) -> None:
        self.context = context
        self.written = written
        self.effects = effects
        self.pending = Pending(context, written)
        self.kept: set[Value] = set()
        self.readers: dict[Value, set[Op]] = {}
        """The ops that end up looping over each value of the blocks so far."""
        self.packed: dict[tuple[Value, str, str], Storage] = {}

    def block_ops(self, block: Block) -> None:
        """Writes every op but the terminator, and what they leave pending."""
        plan = self.plan(block)
        for op in block.ops:
            if op.effect == "terminator":
                break
            self.op(op)
            if op.effect != "control":
                self._pack_for_inner_dots(op, block)
            if op in plan.cuts:
                self.flush()
        self.flush()

    def plan(self, block: Block) -> BlockPlan:
        """What becomes of the tiles of a block."""
        plan = plan_block(block, self.written)
        self.kept |= plan.kept
        self.readers.update(plan.readers)
        return plan

    def op(self, op: Op) -> None:
        match op:
            case ops.Empty():
                pass  # made by the launch
            case ops.Shift():
                self.shift(op)
            case ops.Store():
                self.add(StoreTile(op))
            case ops.Atomic():
                self.atomic(op)
            case ops.Assert():
                self.effects.assertions.append(op)
                self.add(AssertTile(op, len(self.effects.assertions) - 1))
            case ops.Print():
                self.print(op)
            case ops.Reduce():
                self.reduce(op)
            case ops.Dot():
                self.dot(op)
            case ops.Scan():
                self.add(ScanTile(op))
            case ops.Sort():
                self.sort(op)
            case ops.Stack():
                self.stack(op)
            case ops.Reshape() if packed_through(self.context, op):
                pass  # packed from what it is of
            case ops.Reshape() if not is_lazy(op):
                self.reshape(op)
            case ops.Range() | ops.For() if is_elementwise(op, self.written):
                inside = [one for loop in loops_within(op) for one in (loop, *loop.body.ops)]
                scalars = [v for one in inside for v in one.operands if isinstance(v.type, TileType) and not v.shape]
                if any(self.pending.depends(v) for v in scalars):
                    self.flush()
                self.add(LoopTile(op))
            case ops.Grid() | ops.Range() | ops.For() | ops.While() | ops.If():
                self.flush()
                self.control(op)
            case _ if not op.result.shape:
                self.scalar(op)
            case _ if op.result in self.kept:
                self.add(KeepForLater(op.result))
            case ops.Load():
                self.effects.residence[op.result] = "read from memory where it is needed"
            case _:
                pass  # evaluated where it is read

    def control(self, op: Op) -> None:
        raise NotImplementedError

    # The pending nest

    def add(self, sink: Sink, homes: dict[Value, Storage] | None = None) -> None:
        """Lets a sink join the pending nest, or start the next one."""
        if not self.pending.fits(sink):
            self.flush()
        self.pending.add(sink, homes or {})

    def flush(self) -> None:
        """Writes the pending nest."""
        pending, self.pending = self.pending, Pending(self.context, self.written)
        sinks = pending.settle(self.readers, self._keep)
        if not sinks:
            return
        folded = next((s.folded for s in sinks if s.folded), ())
        cost = sum(op_cost(op) for op in expression_ops(self.context, *(v for s in sinks for v in s.reads)))
        cost += sum(sink.cost for sink in sinks)
        with self.context.scope(), self.context.writer.nest():
            nest = Nest(sinks[0].domain, sinks, folded, self._lane_axis(sinks, folded), cost)
            nest = replace(nest, reverse=any(scan.op.reverse for scan in pending.scans))
            emit_nest(self.context, transposed(self.context, nest) or replace(nest, form=fold_form(self.context, nest)))
        self.context.storage.update(pending.homes)

    def _keep(self, value: Value) -> Buffer:
        """A place in scratch for a tile that other nests read."""
        lazy = value.op is not None and is_lazy(value.op)
        self.effects.residence[value] = "computed once, kept in scratch" if lazy else "kept in scratch"
        return self.allocate(value)

    def _lane_axis(self, sinks: Sequence[Sink], folded: tuple[int, ...]) -> int | None:
        if not all(s.vectorises for s in sinks):
            return None
        if isinstance(sinks[0], AtomicTile):
            return updated_row(sinks[0].op)
        in_order = any(isinstance(s, FoldCustom) or (isinstance(s, ScanTile) and s.in_order) for s in sinks)
        domain = sinks[0].domain
        axes = [a for a, dim in enumerate(domain) if dim != 1 and not (in_order and a in folded)]
        lane = max(axes, key=lambda a: (self._contiguous(sinks, a), a), default=None)
        few = None if lane is None else domain[lane]
        if lane is None or not isinstance(few, int) or few > SHORT_ROW:
            return lane
        return min(axes, key=lambda a: (self._lane_cost(sinks, a, few, along=a == lane, folded=a in folded), a != lane))

    def _lane_cost(self, sinks: Sequence[Sink], axis: int, few: int, *, along: bool, folded: bool) -> float:
        """What a vector costs, for each of its lanes that there is: rows of a few elements leave most of them empty,
        and vectors across such rows pick theirs apart."""
        ops_read = list(expression_ops(self.context, *(value for sink in sinks for value in sink.reads)))
        accesses = sum(isinstance(op, ops.Load) and bool(op.result.shape) for op in ops_read)
        accesses += sum(isinstance(sink, (StoreTile, Keep)) for sink in sinks)
        cost = sum(map(op_cost, ops_read)) + sum(sink.cost for sink in sinks) + COLLAPSE * folded
        cost += accesses * (1 if along else 2 * few - 1)
        limit = self.context.static_limit(sinks[0].domain[axis])
        return cost / min(self.context.lanes, self.context.lanes if limit is None else max(limit, 1))

    def _contiguous(self, sinks: Sequence[Sink], axis: int) -> int:
        reads = [value for sink in sinks for value in sink.reads if value.shape == sink.domain]
        score = contiguity(self.context, reads, axis)
        for sink in sinks:
            if isinstance(sink, StoreTile):
                score += store_contiguity(sink.op, axis)
            elif isinstance(sink, Keep):
                score += len(sink.targets) * (1 if axis == len(sink.domain) - 1 else -1)
        return score

    # Ops

    def scalar(self, op: Op) -> None:
        """Evaluates a scalar on the spot."""
        reads_written = isinstance(op, ops.Load) and op.tensor in self.written
        if reads_written or (self.pending.sinks and self._scalar_depends(op)):
            self.flush()
        self.context.scalars[op.result] = evaluate(self.context, op.result, SCALAR).operand

    def _scalar_depends(self, op: Op) -> bool:
        return any(self.pending.depends(v) for v in op.operands if isinstance(v.type, TileType))

    def index(self, value: Value) -> str:
        """An integer scalar as an i64 operand."""
        return index_of(self.context, value)

    def shift(self, op: ops.Shift) -> None:
        start, extent = self.context.axes[op.axis]
        self.context.axes[op.result] = (o.add(self.context.writer, start, self.index(op.offset)), extent)

    def allocate(self, value: Value, *, dense: bool = False) -> Buffer:
        """Scratch for a tile, with room for whole micro-kernel rows: any tile of rank 2 can accumulate a dot."""
        rows = WIDEST_ROW_UNIT if len(value.shape) >= 2 and not dense else 1
        if not dense and any(_sums_down_columns(self.context, dot) for dot in _dots_into(value)):
            return allocate_transposed(self.context, value, _stored_dtype(value))
        return self.context.allocate(value.shape, _stored_dtype(value), padded=not dense, row_unit=rows)

    def atomic(self, op: ops.Atomic) -> None:
        """Twice: for a thread that is alone, and for several."""
        writer = self.context.writer
        old = self.allocate(op.result) if op.result.users and op.result.shape else None
        homes: dict[Value, Storage] | None = {op.result: old} if old is not None else None
        if not op.value.shape:
            self.add(AtomicTile(op, old), homes)
            self.flush()
            return
        self.flush()
        alone, several, done = (writer.new_label(hint) for hint in ("alone", "several", "updated"))
        writer.branch_if(writer.emit(f"icmp eq i64 {self.context.threads()}, 1"), alone, several)
        for label, is_alone in ((alone, True), (several, False)):
            writer.start(label)
            self.add(AtomicTile(op, old, alone=is_alone), homes)
            self.flush()
            writer.branch(done)
        writer.start(done)

    def reduce(self, op: ops.Reduce) -> None:
        targets = [self.allocate(v) if v.shape else None for v in op.results]
        homes: dict[Value, Storage] = {v: t for v, t in zip(op.results, targets) if t is not None}
        self.effects.residence.update(dict.fromkeys(homes, "kept in scratch"))
        if op.fn == "custom":
            self.add(FoldCustom(op, targets), homes)
        elif op.fn in ("argmax", "argmin"):
            self.add(FindTile(op, targets[0]), homes)
        else:
            self.add(FoldTile(op, targets[0]), homes)

    def reshape(self, op: ops.Reshape) -> None:
        """Moves elements: the source is stored densely, and read under the strides of the new shape."""
        self.flush()
        context, room = self.context, self.allocate(op.source, dense=True)
        # dense for this block's extents, so that both shapes number the elements alike
        self.add(Keep(op.source, [dense(context, room, op.source)]))
        self.flush()
        context.storage[op.result] = dense(context, room, op.result)

    def sort(self, op: ops.Sort) -> None:
        """Copies the tile, and puts its rows in order there."""
        self.flush()
        context, room = self.context, self.allocate(op.result, dense=True)
        room = dense(context, room, op.result)
        self.add(Keep(op.source, [room]))
        self.flush()
        with context.scope(), context.writer.nest():
            sort_rows(context, room, op.result.shape, op.axis)
        context.storage[op.result] = room

    def stack(self, op: ops.Stack) -> None:
        """Keeps each tile at its place of one room."""
        self.flush()
        context = self.context
        room = dense(context, self.allocate(op.result, dense=True), op.result)
        strides = (*room.strides[: op.axis], *room.strides[op.axis + 1 :])
        for number, source in enumerate(op.sources):
            at = o.multiply(context.writer, str(number), room.strides[op.axis])
            base = o.element_pointer(context.writer, room.base, at, room.dtype)
            self.add(Keep(source, [replace(room, base=base, strides=strides)]))
        self.flush()
        context.storage[op.result] = room

    def print(self, op: ops.Print) -> None:
        """Copies the tiles densely, then calls the host."""
        self.flush()
        tiles = {v: dense(self.context, self.allocate(v, dense=True), v) for v in op.values if v.shape}
        for value, room in tiles.items():
            self.add(Keep(value, [room]))
        self.flush()
        self.effects.prints.append(op)
        emit_print(self.context, op, len(self.effects.prints) - 1, tiles)

    def dot(self, op: ops.Dot) -> None:
        """Stores operands that are not stored yet, evaluates the accumulator into its place, multiplies."""
        side = few_side(self.context, op)
        if side is None:
            left, right = self._packed(op.a, "left", op), self._packed(op.b, "right", op)
            assert isinstance(left, PackedLeft)
            assert isinstance(right, PackedRight)
            target, fresh = self._dot_target(op)
            call_dot(self.context, op, left, right, target, fresh)
        else:
            few = self._few(op.a if side == "left" else op.b, side, op)
            wide = op.b if side == "left" else op.a
            if wide not in self.context.storage:
                self.effects.residence[wide] = "read in the loops of a dot, since the other operand is small"
            target, fresh = self._dot_target(op)
            with self.context.scope(), self.context.writer.nest():
                StreamedDot(self.context, op, side, few, target, fresh).emit()

    def _dot_target(self, op: ops.Dot) -> tuple[Buffer, str]:
        """Where the sums go, with the accumulator in it, and an i1 that says whether they overwrite what is there."""
        context = self.context
        owner = accumulates_in_place(context, op)
        fresh = "true" if op.acc is None else "false"
        if owner is not None and owner is op.acc:
            self.flush()
            target = context.storage[owner]
            slot = context.fresh.get(owner)
            if slot is not None:
                fresh = context.writer.emit(f"load i1, ptr {slot}")
                context.writer.line(f"store i1 false, ptr {slot}")
        else:
            target = context.storage[owner] if owner is not None else self.allocate(op.result)
            if op.acc is not None:
                self.add(Keep(op.acc, [target]))
            self.flush()
        assert isinstance(target, Buffer)
        assert target.dtype == kernel_of(context, op).dtype
        kept = "in scratch" if owner is None else "in the scratch of the loop's accumulator"
        self.effects.residence[op.result] = f"summed in registers, kept {kept}"
        context.storage[op.result] = target
        return target, fresh

    def _few(self, value: Value, side: Side, op: ops.Dot) -> Buffer:
        """The operand with few rows or columns, stored along k in the dtype of the sum."""
        dtype = kernel_of(self.context, op).dtype
        stored = self.context.storage.get(value)
        along = -1 if side == "left" else -2
        if isinstance(stored, Buffer) and stored.dtype == dtype and stored.strides[along] == "1":
            self.flush()
            return stored
        key = (value, f"few-{side}", dtype.name)
        if key not in self.packed:
            self.packed[key] = allocate_few(self.context, value, side, dtype)
            self.effects.residence[value] = f"kept in scratch, the small {side} operand of a dot"
            self.add(Keep(value, [self.packed[key]]))
        room = self.packed[key]
        assert isinstance(room, Buffer)
        return room

    def _packed(self, value: Value, side: Side, op: ops.Dot) -> Storage:
        kernel = kernel_of(self.context, op)
        key = (value, side, kernel.name)
        if key not in self.packed:
            make = allocate_left if side == "left" else allocate_right
            room = self.packed[key] = make(self.context, value, kernel)
            self.effects.residence[value] = f"packed in scratch as the {side} operand of a dot"
            if kernel.group > 1 and isinstance(room, PackedRight):
                self.flush()
                with self.context.scope(), self.context.writer.nest():
                    PackGroups(self.context, value, room, kernel.group).emit()
            elif isinstance(room, PackedRight) and self._is_for_dots(value) and goes_by_panels(self.context, value):
                self.flush()
                with self.context.scope(), self.context.writer.nest():
                    PackPanels(self.context, value, room).emit()
            else:
                assert isinstance(room, (PackedLeft, PackedRight))
                self.add(_packing(self.context, value, room))
        return self.packed[key]

    def _is_for_dots(self, value: Value) -> bool:
        """Whether a tile is packed and nothing else, so that no other loops could share what is read."""
        if isinstance(value.op, ops.Reshape) or self.pending.depends(value):
            return False
        return all(isinstance(user, ops.Dot) for user in value.users)

    def _pack_for_inner_dots(self, op: Op, block: Block) -> None:
        """Packs a tile where it is made, if dots in loops further inside read it."""
        for value in op.results:
            if not isinstance(value.type, TileType) or not value.shape:
                continue
            for user in value.users:
                if isinstance(user, ops.Dot) and user.parent is not block:
                    sides: tuple[tuple[Side, Value], ...] = (("left", user.a), ("right", user.b))
                    for side, operand in sides:
                        if operand is value:
                            self._store_for_inner_dot(value, side, user)

    def _store_for_inner_dot(self, value: Value, side: Side, dot: ops.Dot) -> None:
        few = few_side(self.context, dot)
        if few is None:
            self._packed(value, side, dot)
        elif few == side:
            self._few(value, side, dot)
        elif value not in self.context.storage and value not in self.kept and not isinstance(value.op, ops.Load):
            room = self._keep(value)
            self.add(Keep(value, [room]), {value: room})


def _packing(context: Context, value: Value, room: PackedLeft | PackedRight) -> Keep:
    """What packs an operand: from what it is another shape of, if nothing else holds it."""
    if isinstance(value.op, ops.Reshape) and value not in context.storage and not is_lazy(value.op):
        groups = groups_of(value.op.source.shape, value.shape)
        assert groups is not None
        sizes = tuple(context.dim(dim) for dim in value.op.source.shape)
        return Keep(value.op.source, [Joined(room, groups, sizes)])
    return Keep(value, [room])


def _dots_into(value: Value) -> list[ops.Dot]:
    """The dots that add to a tile or make it, in loops that carry it on too."""
    found = [user for user in value.users if isinstance(user, ops.Dot) and user.acc is value]
    for user in value.users:
        if isinstance(user, (ops.Range, ops.For)):
            carried = zip(user.initial, user.body.arguments[1:])
            found += [dot for start, inner in carried if start is value for dot in _dots_into(inner)]
    return [*found, value.op] if isinstance(value.op, ops.Dot) else found


def _sums_down_columns(context: Context, dot: ops.Dot) -> bool:
    """Whether vectors of the dot's results run along its rows: few columns, and a left operand that is transposed."""
    return few_side(context, dot) == "right" and not runs_along_depth(context, dot, "right")


def _stored_dtype(value: Value) -> DType:
    return compute_dtype(value.dtype) if isinstance(value.op, ops.Dot) else value.dtype

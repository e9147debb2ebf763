"""Emits a whole program: one LLVM function per phase of the entry function.

A phase is a grid, or the ops with effects that stand between grids. Each phase is a function

    i64 @phase0(ptr frame, ptr scratch, ptr state)

that takes runs of program numbers from a shared counter until there are none left, so that as many threads as there
are may call it at once. With a null scratch it does nothing but say how many bytes of scratch one thread needs. The
state is an array of words: the status (0, see `frame.PROGRAM_UNIT`), a program counter for each phase (0), the host's
callback for prints, for each phase how many programs make a run, and for each how many threads run it at most.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tiledsl.backend_cpu.calls.frame import FrameLayout, axis_symbol, layout_of, tensors_of
from tiledsl.backend_cpu.emit.blocks import Effects
from tiledsl.backend_cpu.emit.control import FunctionEmitter
from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.llvm.writer import FunctionWriter, ModuleWriter, VectorType
from tiledsl.backend_cpu.values.access import write
from tiledsl.backend_cpu.values.context import Context, Tensor
from tiledsl.backend_cpu.values.evaluate import evaluate
from tiledsl.backend_cpu.values.storage import Place, Point
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Function, Op, Value
from tiledsl.ir.dtypes import bool_, i64, is_narrow_float
from tiledsl.ir.facts import facts_of
from tiledsl.ir.scalar_functions import SCALAR_FUNCTIONS
from tiledsl.ir.symbolic import symbol_name
from tiledsl.ir.types import AxisType, TensorType, TileType
from tiledsl.passes.analysis.effects import has_effect, tensors_written
from tiledsl.passes.analysis.few import FEW, sizes_that_may_be_few
from tiledsl.passes.analysis.phases import phases_of
from tiledsl.passes.cpu.grid_work import GridWork, collect_work
from tiledsl.passes.machine import CpuMachine
from tiledsl.passes.nest.loop_nest import loop_nest

ROUNDING = 10
"""What it costs to compute in f32 for a narrow float, in the units of SCALAR_FUNCTIONS."""
UNROUNDED = ("where", "neg", "abs")
"""Functions that narrow floats need no arithmetic for."""
LONG, MANY = 8, 32
"""A program with more than so many uses of a scalar function of that cost calls it: written out each time, it would be
slow to compile."""
MOST_VERSIONS = 2
"""Sizes for which the programs of a grid are written apart: each version is as much to compile as the rest."""


@dataclass(frozen=True)
class EmittedProgram:
    """LLVM IR, with what a launch has to know of it."""

    text: str
    layout: FrameLayout
    phases: tuple[str, ...]
    """The functions to call, in order."""
    works: tuple[GridWork | None, ...]
    """What the cost model knows of each phase; None for one that is no grid."""
    effects: Effects
    """The assertions and prints by number."""


def emit_program(function: Function, machine: CpuMachine) -> EmittedProgram:
    """Emits a function in form `tile-tiled`."""
    module = ModuleWriter()
    module.called = _often_used(function)
    layout = layout_of(function)
    effects = Effects()
    phases = phases_of(function, with_fills=True)
    names: list[str] = []
    works: list[GridWork | None] = []
    for number, phase in enumerate(phases):
        names.append(f"phase{number}")
        _Phase(function, layout, machine, module, effects, len(phases)).emit(number, phase)
        grid = phase[0]
        works.append(collect_work(loop_nest(grid)) if isinstance(grid, ops.Grid) else None)
    return EmittedProgram(module.text(), layout, tuple(names), tuple(works), effects)


def _often_used(function: Function) -> frozenset[tuple[str, bool]]:
    """The scalar functions that take many instructions and that the program has many of; whether on narrow floats."""
    maps = (op for op in function.walk() if isinstance(op, ops.Map))
    counts = Counter((op.fn, is_narrow_float(op.inputs[-1].dtype)) for op in maps)
    long = {
        (fn, narrow)
        for fn, narrow in counts
        if SCALAR_FUNCTIONS[fn].cost + (ROUNDING if narrow and fn not in UNROUNDED else 0) >= LONG
    }
    return frozenset(key for key in long if counts[key] > MANY)


class _Phase:
    def __init__(
        self,
        function: Function,
        layout: FrameLayout,
        machine: CpuMachine,
        module: ModuleWriter,
        effects: Effects,
        phases: int,
    ) -> None:
        self.function = function
        self.layout = layout
        self.machine = machine
        self.module = module
        self.effects = effects
        self.phases = phases

    def emit(self, number: int, phase: list[Op]) -> None:
        signature = f"i64 @phase{number}(ptr noalias %frame, ptr noalias %scratch, ptr noalias %state)"
        writer = FunctionWriter(self.module, signature)
        context = Context(writer, self.layout, self.machine, facts_of(self.function))
        context.scratch_base = "%scratch"
        context.thread_word = 2 + 2 * self.phases + number
        with writer.in_entry():
            self._read_frame(context)
            context.callback = o.element_pointer(writer, "%state", str(1 + self.phases), i64)
            context.grain = o.element_pointer(writer, "%state", str(2 + self.phases + number), i64)
            context.counter = o.element_pointer(writer, "%state", str(1 + number), i64)
        emitter = _PhaseEmitter(context, tensors_written(self.function.body.ops), self.effects)
        with context.scope():
            emitter.top(self.function, phase)
        writer.line("ret i64 0")
        with writer.in_entry():
            nothing = writer.emit("icmp eq ptr %scratch, null")
            writer.branch_if(nothing, "query", "start")
            writer.start("query")
            writer.line(f"ret i64 {context.scratch_bytes}")
        writer.finish()

    def _read_frame(self, context: Context) -> None:
        writer, layout = context.writer, self.layout
        parameters = [p for p in self.function.parameters if isinstance(p.type, TileType)]
        for number, parameter in enumerate(parameters):
            context.scalars[parameter] = _scalar(writer, layout.scalar(number), parameter)
        for name in layout.symbols:
            context.symbols[name] = _word(writer, layout.symbol(name))
        for op in self.function.walk():
            if isinstance(op, (ops.Grid, ops.Range)):
                for block, argument in zip(op.blocks, op.body.arguments):
                    if isinstance(argument.type, AxisType) and symbol_name(argument.type.extent) is not None:
                        name = axis_symbol(argument)
                        chosen = block.kind == "upto"
                        context.block_limits[name] = _word(writer, layout.block(name)) if chosen else str(block.size)
        for number, tensor in enumerate(tensors_of(self.function)):
            type_ = tensor.type
            assert isinstance(type_, TensorType)
            base = writer.emit(f"load ptr, ptr {_slot(writer, layout.pointer(number))}")
            strides = [
                "1" if axis == type_.unit else _word(writer, layout.stride(number, axis))
                for axis in range(len(type_.shape))
            ]
            shape = tuple(context.dim(dim) for dim in type_.shape)
            context.tensors[tensor] = Tensor(base, tuple(strides), shape, type_)


def _slot(writer: FunctionWriter, word: int) -> str:
    return o.element_pointer(writer, "%frame", str(word), i64)


def _word(writer: FunctionWriter, word: int) -> str:
    return writer.emit(f"load i64, ptr {_slot(writer, word)}")


def _scalar(writer: FunctionWriter, word: int, parameter: Value) -> str:
    """A scalar parameter: the low bytes of its word."""
    type_ = VectorType(parameter.dtype)
    if parameter.dtype == bool_:
        return writer.emit(f"trunc i64 {_word(writer, word)} to i1")
    return writer.emit(f"load {type_}, ptr {_slot(writer, word)}")


class _PhaseEmitter(FunctionEmitter):
    def top(self, function: Function, phase: list[Op]) -> None:
        """The function body: scalars and pure control flow in every phase, effects only in their own."""
        alone = not any(isinstance(op, ops.Grid) for op in phase)
        if alone:
            self._only_first()
        plan = self.plan(function.body)
        for op in function.body.ops:
            if op in phase and isinstance(op, ops.Grid):
                self.grid(op)
                return
            if op in phase and isinstance(op, ops.Empty):
                self._fill(op)
            elif op in phase or _pure(op):
                self.op(op)
            if op in plan.cuts:
                self.flush()
        self.flush()

    def _only_first(self) -> None:
        """Lets one thread through: a phase that is no grid is a single program."""
        writer = self.context.writer
        turn = writer.emit(f"atomicrmw add ptr {self.context.counter}, i64 1 monotonic, align 8")
        first, others = writer.new_label("first"), writer.new_label("others")
        writer.branch_if(writer.emit(f"icmp eq i64 {turn}, 0"), first, others)
        writer.start(others)
        writer.line("ret i64 0")
        writer.start(first)

    def _fill(self, op: ops.Empty) -> None:
        """Sets a new tensor, which is dense, to its fill value."""
        context, writer = self.context, self.context.writer
        assert op.fill is not None
        self.flush()
        tensor = context.tensors[op.result]
        value = evaluate(context, op.fill, Point(())).operand
        count = "1"
        for size in tensor.shape:
            count = o.multiply(writer, count, size)
        with writer.loop("0", count) as index:
            write(writer, tensor.base, Place(index, "1"), op.dtype, 1, value)

    def grid(self, op: ops.Grid) -> None:
        """Programs, one after the other, as the shared counter hands them out."""
        context, writer = self.context, self.context.writer
        self.flush()
        stops = [self.index(stop) for stop in op.stops]
        start, rooms = context.scratch_bytes, list[tuple[str, str]]()
        done = writer.new_label("versions")
        for few in sizes_that_may_be_few(op, context.facts)[:MOST_VERSIONS]:
            this, other = writer.new_label("few"), writer.new_label("many")
            with writer.in_entry():
                is_few = writer.emit(f"icmp sle i64 {context.limit(few)}, {FEW}")
            writer.branch_if(is_few, this, other)
            writer.start(this)
            name = symbol_name(few)
            assert name is not None
            with context.version(frozenset({name})):
                self._programs(op, stops)
            writer.branch(done)
            writer.start(other)
            rooms.append((is_few, context.scratch_bytes))
            context.scratch_bytes = start  # only one of the versions runs
        self._programs(op, stops)
        writer.branch(done)
        writer.start(done)
        with writer.in_entry():
            for is_few, size in reversed(rooms):
                other = context.scratch_bytes
                context.scratch_bytes = writer.emit(f"select i1 {is_few}, i64 {size}, i64 {other}")

    def _programs(self, op: ops.Grid, stops: list[str]) -> None:
        context, writer, packed = self.context, self.context.writer, dict(self.packed)
        sizes = [
            self.block_size(argument, block) if isinstance(argument.type, AxisType) else "1"
            for argument, block in zip(op.body.arguments, op.blocks)
        ]
        counts = [o.ceil_divide(writer, stop, size) for stop, size in zip(stops, sizes)]
        total = "1"
        for count in counts:
            total = o.multiply(writer, total, count)
        head, inside, done = writer.new_label("next"), writer.new_label("run"), writer.new_label("finished")
        grain = writer.emit(f"load i64, ptr {context.grain}")
        writer.branch(head)
        writer.start(head)
        first = writer.emit(f"atomicrmw add ptr {context.counter}, i64 {grain} monotonic, align 8")
        writer.branch_if(writer.emit(f"icmp slt i64 {first}, {total}"), inside, done)
        writer.start(inside)
        last = o.smaller(writer, o.add(writer, first, grain), total)
        with writer.loop(first, last) as number, context.scope():
            context.program = number
            left = number
            places: list[str] = []
            for count in reversed(counts[1:]):
                places.insert(0, o.remainder(writer, left, count))
                left = o.divide(writer, left, count)
            places[:0] = [left] * len(counts[:1])  # below its count: a division may take as long as a short row
            for argument, block, place, size, stop in zip(op.body.arguments, op.blocks, places, sizes, stops):
                self.axis_block(argument, block, o.multiply(writer, place, size), stop)
            self.block_ops(op.body)
        writer.branch(head)
        writer.start(done)
        self.packed = packed


def _pure(op: Op) -> bool:
    """Whether repeating the op in every phase is harmless: it writes nothing."""
    return not isinstance(op, (ops.Grid, ops.Return)) and not has_effect(op)

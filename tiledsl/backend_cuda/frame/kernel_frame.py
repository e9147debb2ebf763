"""The state of emission of one CUDA function: its parameters, names, values, and text so far."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from tiledsl.backend_cuda.frame.kernel_code import KernelParameter
from tiledsl.backend_cuda.frame.names import LOOPS, Names, of_program
from tiledsl.backend_cuda.frame.overlap_kernels import Overlap, tensors_used_by
from tiledsl.backend_cuda.frame.program_frame import ProgramFrame
from tiledsl.backend_cuda.frame.source_map import comment_of
from tiledsl.backend_cuda.frame.writer import Writer
from tiledsl.backend_cuda.functions.barrier_functions import named_barrier
from tiledsl.backend_cuda.functions.casts import cast
from tiledsl.backend_cuda.functions.index_text import dim_text, operand_text, thread_text
from tiledsl.backend_cuda.functions.scalars import bare, c_type, constant
from tiledsl.backend_cuda.functions.storage import Pieces, Registers, Scalar, SharedMemory, Storage
from tiledsl.ir.core import Op, Value
from tiledsl.ir.dtypes import DType, bool_, f64, i64, u64
from tiledsl.ir.gpu.tensor_maps import TensorMap
from tiledsl.ir.layouts.fold_plans import pieces_of
from tiledsl.ir.layouts.layout import WARP, Digit, RegisterLayout
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.tile_ops import Constant, Size
from tiledsl.ir.types import TensorType
from tiledsl.passes.analysis.sizes import constant_of
from tiledsl.support.location import BUILTIN, Location

T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """Threads of each block, from `first` on, that do something of their own: all of them, or those of a role."""

    first: int
    threads: int
    head: Writer
    """Where they compute what they know from the start."""
    depth: int
    """How many scopes are open there."""
    barrier: int = 0
    """The named barrier that the threads of a role meet at; 0 for all threads."""


class KernelFrame:
    """One CUDA function. `writer` is where text goes; `entry` is the text before everything else.

    Within a role, `threads`, `thread` and the like are of the role: numbered from its first thread on.
    """

    def __init__(
        self,
        program: ProgramFrame,
        threads: int,
        cluster: int,
        written: frozenset[Value],
        emit: Callable[[KernelFrame, Op], None],
        overlap: Overlap,
    ) -> None:
        self.program = program
        self.preamble = program.preamble
        self.capability = program.capability
        self.cluster = cluster
        self.written = written
        """The tensors that the kernel writes to."""
        self.reads_what_it_writes = False
        """Whether a tensor is read while threads of the kernel write to it."""
        self.writes_to_blocks = False
        """Whether blocks write to each other's shared memory."""
        self.overlap = overlap
        self.coherent = written | overlap.contended
        """The tensors that something may write to while the kernel runs, which a read-only cache would miss."""
        self.names = Names()
        self.entry = Writer(1)
        self.writer = self.entry
        self.values: dict[Value, Storage] = {}
        self.parameters: dict[KernelParameter, str] = {}
        self.coarse: dict[Value, DType] = {}
        """The f32 values that need not be accurate (see `coarse_values`)."""
        self.held_words = 0
        """Registers of a thread for tiles that wait for a fold."""
        self.recomputes = False
        """Whether some tiles are computed again behind a fold, so that others need not be held."""
        self.nesting = 0
        """How many loops and branches stand around the code that is being written."""
        self.program_number = "0"
        """The number of the program that this thread works on."""
        self.exchanged: set[Value] = set()
        """The buffers through which the blocks of the cluster exchange partial results."""
        self.barriers_end = 0
        """The line of `entry` after those that make the barriers of these buffers."""
        self.cluster_barriers = False
        """Whether there has been a barrier of the cluster."""
        self.uses_shared = False
        """Whether anything goes through shared memory."""
        self.has_roles = False
        self.mbarriers: list[tuple[int, int]] = []
        """The offsets of runs of mbarriers, and how many each has."""
        self.accumulators: dict[Op, Registers] = {}
        """The registers of products by warpgroups that were made ready before the fence."""
        self.pieces: dict[str, Pieces] = {}
        """Of arrays that are put together at the end of the turn of a loop."""
        self.kept_behind: set[Op] = set()
        """Waits for products that what stands before them is computed before, by a branch."""
        self._waits: list[Writer] = []
        """The texts in which the kernels before this one are waited for."""
        self._outer: list[Writer] = []
        """The texts that stand before the role."""
        self._emit = emit
        self._scopes: list[dict[object, str]] = [{}]
        self._all = self._part = Part(0, threads, self.entry, 1)
        self._loop_variables: list[str] = []
        self._line: tuple[str, int] | None = None

    # Text

    def line(self, text: str) -> None:
        self.writer.line(text)

    def comment(self, location: Location) -> None:
        """The user's line, if it is another than that of the text before."""
        here = (location.file, location.line)
        if location.file == BUILTIN.file or here == self._line:
            return
        self._line = here
        source = " ".join(location.source.split())
        mark = comment_of(location)
        self.line(f"// {source}  {mark}" if source and not source.endswith("\\") else mark)

    def use(self, function: str) -> str:
        """The name of a device function that the program then has."""
        return self.preamble.use(function)

    # Earlier kernels

    def wait_before(self, op: Op) -> None:
        """Where the op, or one in it, is the first to touch what an earlier kernel may still work on: waits for it.

        Asked for each op, the outer before the inner, so that all threads wait, once, outside of loops and branches.
        """
        if self.overlap.contended and not self._has_waited and tensors_used_by([op]) & self.overlap.contended:
            self._wait_for_earlier()

    def wait_at_end(self) -> None:
        """A kernel that begins early waits at the latest here: its end is to mean that all earlier ones have ended."""
        if self.overlap.begins_early and not self._has_waited:
            self._wait_for_earlier()

    @property
    def _has_waited(self) -> bool:
        # the entry runs first, though text is added to it late: a wait further down is none for it
        return any(writer in self._waits for writer in (self.entry, self.writer, *self._outer))

    def _wait_for_earlier(self) -> None:
        self.line(f"{self.use('wait_for_earlier')}();")
        if self.overlap.releases_behind:
            self.line(f"{self.use('let_next_begin')}();")
        self._waits.append(self.writer)

    @contextmanager
    def scope(self) -> Generator[None]:
        """What is computed once inside is not known outside."""
        self._scopes.append({})
        yield
        self._scopes.pop()

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Generator[None]:
        """Braces, and a scope."""
        with self.writer.block(head, tail), self.scope():
            yield

    @contextmanager
    def unrolled(self, wanted: str, count: int) -> Generator[str]:
        """A loop over 0 .. count-1 that is written out by the compiler; gives the name of its variable, or `0` if it
        is run once. The loops of a kernel may share a name, one within another not."""
        if count == 1:
            with self.scope():
                yield "0"
            return
        assert wanted in LOOPS, f"{wanted} is no name of a loop variable"
        name = wanted
        while name in self._loop_variables:
            name += wanted
        self._loop_variables.append(name)
        with self.writer.unrolled(name, count), self.scope():
            yield name
        self._loop_variables.pop()

    @contextmanager
    def rolled(self, wanted: str, count: int) -> Generator[str]:
        """A loop that runs so many times; gives the name of its variable, which is no register's index."""
        name = self.names.fresh(wanted)
        self.line("#pragma unroll 1")
        with self.block(f"for (int {name} = 0; {name} < {count}; ++{name})"):
            yield name

    @contextmanager
    def in_entry(self) -> Generator[None]:
        """Writes at the start of the function for a while: what is known outside of all loops."""
        with self._at_head(self._all):
            yield

    @contextmanager
    def _at_head(self, part: Part) -> Generator[None]:
        before = self.writer, self._scopes, self._line, self._part
        self.writer, self._scopes, self._part = part.head, self._scopes[: part.depth], part
        yield
        self.writer, self._scopes, self._line, self._part = before

    @contextmanager
    def role(self, head: str, first: int, threads: int, barrier: int, beginning: str = "") -> Generator[None]:
        """What some of the threads do, after a `beginning`: for a while, they are all that there are."""
        writer, all_threads = self.writer, self._part
        self._outer.append(writer)
        with writer.block(head), self.scope():
            start = Writer(writer.depth)
            if beginning:
                start.line(beginning)
            self.writer, self._part = Writer(writer.depth), Part(first, threads, start, len(self._scopes), barrier)
            self.nesting += 1
            yield
            self.nesting -= 1
            writer.lines += [*start.lines, *self.writer.lines]
            self.writer, self._part = writer, all_threads
        self._outer.pop()

    def once(self, key: object, make: Callable[[], str]) -> str:
        """The variable that `make` defines, or the one that it defined before where that can be seen."""
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        made = make()
        self._scopes[-1][key] = made
        return made

    def define(self, type_: str, wanted: str, expression: str) -> str:
        """A new constant; its name."""
        name = self.names.fresh(wanted)
        declared = f"{type_} const" if type_.endswith("*") else f"const {type_}"
        self.line(f"{declared} {name} = {bare(expression)};")
        return name

    # Parameters

    def parameter(self, parameter: KernelParameter, wanted: str) -> str:
        """The name of a parameter of the function, which then has it."""
        if parameter not in self.parameters:
            self.parameters[parameter] = self.names.fresh(wanted)
        return self.parameters[parameter]

    def size(self, symbol: str) -> str:
        return self.parameter(KernelParameter("size", symbol=symbol), of_program(symbol))

    def dim(self, dim: Dim) -> str:
        """A size as a C expression."""
        return dim_text(dim, self.size, self.use)

    def tensor(self, value: Value) -> str:
        """The pointer to a tensor's first element."""
        return self.parameter(KernelParameter("tensor", self.program.tensors[value]), of_program(value.name))

    def tensor_map(self, value: Value, wanted: TensorMap) -> str:
        """The name of a tensor map, which the kernel fetches when it begins."""
        parameter = KernelParameter("map", self.program.map_number(value, wanted))
        known = parameter in self.parameters
        name = self.parameter(parameter, of_program(value.name, "map"))
        if not known:
            with self.in_entry():
                self.line(f"if (threadIdx.x == 0) {self.use('prefetch_tensor_map')}(&{name});")
        return name

    def stride(self, value: Value, axis: int) -> str:
        """The stride of a tensor along an axis, in elements."""
        type_ = value.type
        assert isinstance(type_, TensorType)
        if type_.unit == axis:
            return "1"
        number = self.program.tensors[value]
        return self.parameter(KernelParameter("stride", number, axis), of_program(value.name, f"stride{axis}"))

    # Values

    def storage(self, value: Value) -> Storage:
        """Where a value stands. One of the function's level is computed at the start of the kernel."""
        found = self.values.get(value)
        if found is None:
            found = self._at_entry(value)
            self.values[value] = found
        return found

    def _at_entry(self, value: Value) -> Storage:
        op = value.op
        match op:
            case Constant():
                return Scalar(constant(op.value, op.dtype), op.dtype)
            case Size():
                text = self.dim(op.value)
                return Scalar(text if isinstance(op.value, int) else operand_text(text), i64)
            case None:
                return self._scalar_parameter(value)
            case _:
                assert not value.shape, f"%{value.name} is not written"
                with self.in_entry():
                    self._emit(self, op)
                return self.values[value]

    def _scalar_parameter(self, value: Value) -> Scalar:
        dtype = value.dtype
        parameter = KernelParameter("scalar", self.program.scalars[value], symbol=dtype.name)
        name = self.parameter(parameter, of_program(value.name))
        wide = f64 if dtype.is_float else u64 if dtype == u64 else i64
        if dtype == wide:
            return Scalar(name, dtype)
        with self.in_entry():
            text = f"{name} != 0" if dtype == bool_ else cast(name, wide, dtype, self.preamble)
            return Scalar(self.define(self.c_type(dtype), of_program(value.name, str(dtype)), text), dtype)

    def scalar(self, value: Value) -> str:
        """A scalar as a C expression."""
        found = self.storage(value)
        assert isinstance(found, Scalar), f"%{value.name} is no scalar"
        return found.text

    def shared(self, value: Value) -> SharedMemory:
        found = self.storage(value)
        assert isinstance(found, SharedMemory), f"%{value.name} is no buffer"
        return found

    @staticmethod
    def c_type(dtype: DType) -> str:
        """The C type of a register value."""
        return c_type(dtype)

    def new_registers(self, wanted: str, dtype: DType, slots: int) -> Registers:
        """Declares an array of registers."""
        registers = Registers(self.names.fresh(wanted), dtype, slots)
        self.line(f"{registers.declaration};")
        return registers

    # Threads

    @property
    def threads(self) -> int:
        """How many there are in each block, or of the role in each block."""
        return self._part.threads

    @property
    def thread(self) -> str:
        """The number of this thread in the program, or in its role."""
        if self.cluster == 1:
            return self.local_thread
        return self._head_once("thread", "unsigned", "thread", f"{self.rank} * {self.threads}u + {self._place}")

    @property
    def local_thread(self) -> str:
        """The number of this thread in its block, or in its role there."""
        if self.cluster > 1 and not self._part.first:
            return "threadIdx.x"
        return self._head_once("local thread", "unsigned", "thread", self._place)

    @property
    def _place(self) -> str:
        first = self._part.first
        return f"threadIdx.x - {first}" if first else "threadIdx.x"

    @property
    def warp(self) -> str:
        """The number of this warp in its block, or in its role there: known to be the same in all lanes."""
        if self.threads == WARP:
            return "0"
        return self.once_in_head("unsigned", "warp", f"__shfl_sync(0xffffffffu, {self.local_thread} / {WARP}, 0)")

    @property
    def issues(self) -> str:
        """Whether this is the one thread of its block, or of the role there, that does what only one does."""
        elected = f"{self.use('elect_lane')}()"
        if self.warp == "0":
            return self.once_in_head("bool", "issues", elected)
        # asked anew each time: else the compiler would forget that it is one thread, and make loops over threads
        return f"{self.warp} == 0 && {elected}"

    def barrier(self) -> str:
        """The statement by which the threads of the block, or of the role there, meet."""
        if not self._part.barrier:
            return "__syncthreads();"
        return f"{self.preamble.use(named_barrier('sync', self._part.barrier, self.threads))}();"

    @property
    def rank(self) -> str:
        """The number of this block in its cluster."""
        return self._entry_once(
            "rank", lambda: self._define_in_entry("unsigned", "rank", f"{self.use('cluster_rank')}()")
        )

    @property
    def shared_memory(self) -> str:
        """The shared memory of the block, as an array of bytes."""

        def make() -> str:
            self.uses_shared = True
            with self.in_entry():
                name = self.names.fresh("shared_memory")
                self.line(f"extern __shared__ __align__(1024) unsigned char {name}[];")
            return name

        return self._entry_once("shared memory", make)

    @property
    def shared_base(self) -> str:
        """The address of the shared memory, within shared memory."""
        text = f"{self.use('shared_address')}({self.shared_memory})"
        if self.has_roles:  # where lanes are known to agree, descriptors of matrices stay in uniform registers
            text = f"__shfl_sync(0xffffffffu, {text}, 0)"
        return self._entry_once("shared base", lambda: self._define_in_entry("unsigned", "shared_base", text))

    def _define_in_entry(self, type_: str, wanted: str, text: str) -> str:
        with self.in_entry():
            return self.define(type_, wanted, text)

    def _entry_once(self, key: object, make: Callable[[], str]) -> str:
        scope = self._scopes[0]
        if key not in scope:
            scope[key] = make()
        return scope[key]

    def once_here(self, type_: str, wanted: str, text: str) -> str:
        """A constant where text is being written: the variable of it, maybe one from before that can be seen."""
        return self.once((type_, text), lambda: self.define(type_, wanted, text))

    def _head_once(self, key: object, type_: str, wanted: str, text: str) -> str:
        scope = self._scopes[self._part.depth - 1]
        if key not in scope:
            with self._at_head(self._part):
                scope[key] = self.define(type_, wanted, text)
        return scope[key]

    def once_in_head(self, type_: str, wanted: str, text: str) -> str:
        """What threads know from the start: the variable of it, which is defined where their part begins."""
        return self._head_once((type_, text), type_, wanted, text)

    def coordinate_of(self, layout: RegisterLayout, axis: int, thread: str) -> str:
        """The part of the coordinate along an axis of a layout that is due to the thread of that number."""
        digits = _with_all_threads(layout, self.threads * self.cluster)
        return thread_text(digits, axis, thread) if any(d.axis == axis for d in digits) else "0"

    def thread_coordinate(self, layout: RegisterLayout, axis: int) -> str:
        """The thread's part of the coordinate along an axis of a layout: a variable, or `0`."""
        text = self.coordinate_of(layout, axis, self.thread)
        if text in ("0", self.thread):
            return text if text == "0" else f"(int){text}"
        return self.once_in_head("int", coordinate_name(layout.rank, axis), text)

    def is_first(self, layout: RegisterLayout, *, of_block: bool = False) -> str:
        """Whether this thread is the first of those, in the program or in its block, that hold its elements.

        Empty if every thread is."""
        tests: list[str] = []
        total = self.threads * self.cluster
        for piece in pieces_of(_with_all_threads(layout, total), self.threads):
            if piece.axis is None and not (of_block and piece.step >= self.threads):
                text = self.thread if piece.step == 1 else f"{self.thread} / {piece.step}"
                whole = piece.step * piece.size == total
                tests.append(f"{text} == 0" if whole else f"{text} % {piece.size} == 0")
        if not tests:
            return ""
        text = " && ".join(tests)
        return self.once_in_head("bool", "is_first", text)

    def extent(self, value: Value, capacity: int) -> str:
        """An extent as an int of at most `capacity`; empty if it is that much, so that nothing needs a mask."""
        known = constant_of(value)
        if known is not None:
            return "" if known >= capacity else str(max(known, 0))
        text = self.scalar(value)
        return self.once(
            ("extent", text, capacity),
            lambda: self.define("int", of_program(value.name, "extent"), f"{self.use('limited')}({text}, {capacity})"),
        )


def coordinate_name(rank: int, axis: int) -> str:
    """What the coordinate along an axis of a tile is called."""
    if rank <= 2:
        return ("element",)[axis] if rank == 1 else ("row", "column")[axis]
    return ("row", "column")[axis - rank + 2] if axis >= rank - 2 else f"batch{axis}"


def _with_all_threads(layout: RegisterLayout, threads: int) -> tuple[Digit, ...]:
    """The digits of the thread number, with one more where there are more threads than the layout speaks of."""
    assert threads % layout.threads == 0, f"{layout} is not one of {threads} threads"
    copies = threads // layout.threads
    return (Digit(copies, None, 0), *layout.thread_digits) if copies > 1 else layout.thread_digits

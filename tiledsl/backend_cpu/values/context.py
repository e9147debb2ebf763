"""What emission knows at any moment: the writer, the frame, where every value is, and how much scratch is taken."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tiledsl.backend_cpu.calls.frame import FrameLayout
from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.llvm.writer import FunctionWriter
from tiledsl.backend_cpu.values.storage import Buffer, Point, Storage
from tiledsl.ir import dtypes
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import DType, i64
from tiledsl.ir.facts import Facts
from tiledsl.ir.symbolic import Dim, Opaque, Symbol, symbol_name
from tiledsl.ir.types import Shape, TensorType
from tiledsl.passes.analysis.few import is_few
from tiledsl.passes.machine import CpuMachine

CACHE_LINE = 64


@dataclass(frozen=True)
class Tensor:
    """A tensor in memory: base pointer, strides in elements and sizes, as operands."""

    base: str
    strides: tuple[str, ...]
    shape: tuple[str, ...]
    type: TensorType


@dataclass(frozen=True)
class Element:
    """An evaluated value: one operand for all lanes (lanes == 1), or a vector."""

    operand: str
    lanes: int


class Context:
    """The state of emitting one function."""

    def __init__(self, writer: FunctionWriter, layout: FrameLayout, machine: CpuMachine, facts: Facts) -> None:
        self.writer = writer
        self.layout = layout
        self.machine = machine
        self.facts = facts
        self.lanes = machine.lanes(dtypes.f32)
        """Lanes of every vector, whatever the dtype: those of f32."""
        self.tensors: dict[Value, Tensor] = {}
        self.scalars: dict[Value, str] = {}
        self.storage: dict[Value, Storage] = {}
        self.axes: dict[Value, tuple[str, str]] = {}
        """(start, extent) of each block of an axis."""
        self.symbols: dict[str, str] = {}
        """Operand of each size symbol and each axis extent."""
        self.block_limits: dict[str, str] = {}
        """Operand of the largest extent that each axis symbol can have."""
        self.fresh: dict[Value, str] = {}
        """Carried accumulators that start as zeros: an i1 slot, true until the first dot overwrites the buffer."""
        self.owned: set[Value] = set()
        """Carried tiles: their buffers may be written once nobody reads the old value."""
        self.counter = ""
        """Pointer to the program counter of this phase."""
        self.grain = ""
        """Pointer to the number of programs that a thread takes at a time."""
        self.thread_word = 0
        """The word of the state that says how many threads run this phase, at most."""
        self.callback = ""
        """Pointer to the host's callback for prints."""
        self.few: frozenset[str] = frozenset()
        """The sizes (symbols) that are known to be at most `FEW` in the code that is written now."""
        self.inside: frozenset[tuple[Value, str]] = frozenset()
        """Axes whose blocks are known to lie within a size (an operand) in the code that is written now."""
        self.program = "0"
        """Number of the program within its grid."""
        self.scratch_base = ""
        self.scratch_bytes = "0"
        self._memos: list[dict[tuple[Value, Point], Element]] = [{}]

    # Sizes

    def dim(self, dim: Dim) -> str:
        """A size as an i64 operand."""
        return self._polynomial(dim, self.symbols)

    def limit(self, dim: Dim) -> str:
        """The largest value that a size can take in this launch, as an operand known at the function's entry."""
        return self._polynomial(dim, {**self.symbols, **self.block_limits})

    def _polynomial(self, dim: Dim, symbols: dict[str, str]) -> str:
        if isinstance(dim, int):
            return str(dim)
        writer, total = self.writer, "0"
        for monomial, coefficient in dim.terms:
            product = str(coefficient)
            for atom in monomial:
                product = o.multiply(writer, product, self._atom(atom, symbols))
            total = o.add(writer, total, product)
        return total

    def _atom(self, atom: Symbol | Opaque, symbols: dict[str, str]) -> str:
        if isinstance(atom, Symbol):
            return symbols[atom.name]
        left, right = self._polynomial(atom.left, symbols), self._polynomial(atom.right, symbols)
        match atom.operation:
            case "floordiv":
                return o.divide(self.writer, left, right)
            case "mod":
                return o.remainder(self.writer, left, right)
            case "min":
                return o.smaller(self.writer, left, right)
            case "max":
                return o.larger(self.writer, left, right)

    def static_limit(self, dim: Dim) -> int | None:
        """The largest value that a size can take in any launch, if there is one."""
        return self.facts.bounds(dim)[1]

    def whole_vectors(self, dim: Dim) -> bool:
        """Whether a size is surely a multiple of the vector length."""
        return self.facts.divisible(dim, self.lanes)

    def is_few(self, dim: Dim) -> bool:
        """Whether a size is known to be at most `FEW` here."""
        return is_few(self.facts, dim) or symbol_name(dim) in self.few

    def threads(self) -> str:
        """How many threads run this phase, at most, as an operand."""
        with self.writer.in_entry():
            at = o.element_pointer(self.writer, "%state", str(self.thread_word), i64)
            return self.writer.emit(f"load i64, ptr {at}")

    # Scratch

    def allocate(self, shape: Shape, dtype: DType, *, padded: bool = True, row_unit: int = 1) -> Buffer:
        """A row-major scratch buffer for the largest tile of that shape.

        `padded` rounds rows up to whole vectors; `row_unit` rounds the number of rows up (for a dot's accumulator).
        """
        writer = self.writer
        with writer.in_entry():
            sizes = [self.limit(dim) for dim in shape]
            if padded and sizes:
                sizes[-1] = o.round_up(writer, sizes[-1], self.lanes)
            if row_unit > 1:
                sizes[-2] = o.round_up(writer, sizes[-2], row_unit)
                # one more vector per row keeps rows of 2**n bytes out of the same cache set
                sizes[-1] = o.add(writer, sizes[-1], str(self.lanes))
            strides = row_major(writer, sizes)
            total = o.multiply(writer, strides[0], sizes[0]) if sizes else "1"
            base = self.allocate_bytes(o.multiply(writer, total, str(dtype.bytes)))
        return Buffer(base, strides, dtype, padded)

    def allocate_bytes(self, count: str) -> str:
        """A pointer to `count` bytes of scratch, aligned to a cache line. Called inside `writer.in_entry()`."""
        writer = self.writer
        base = writer.emit(f"getelementptr inbounds i8, ptr {self.scratch_base}, i64 {self.scratch_bytes}")
        self.scratch_bytes = o.add(writer, self.scratch_bytes, o.round_up(writer, count, CACHE_LINE))
        return base

    # Writing the same ops twice

    @contextmanager
    def version(self, few: frozenset[str]) -> Generator[None]:
        """For ops that are written once more under another assumption: what is known of values is forgotten again."""
        kept = dict(self.scalars), dict(self.storage), dict(self.axes), dict(self.symbols), dict(self.fresh)
        owned, before = set(self.owned), self.few
        self.few = few
        try:
            with self.scope():
                yield
        finally:
            self.scalars, self.storage, self.axes, self.symbols, self.fresh = kept
            self.owned, self.few = owned, before

    # Values evaluated so far

    def recall(self, value: Value, point: Point) -> Element | None:
        """The element, if it was evaluated in code that dominates this point."""
        for memo in reversed(self._memos):
            found = memo.get((value, point))
            if found is not None:
                return found
        return None

    def remember(self, value: Value, point: Point, element: Element) -> None:
        self._memos[-1][value, point] = element

    @contextmanager
    def scope(self) -> Generator[None]:
        """Forgets on leaving what was evaluated inside: code after a loop is not dominated by its body."""
        self._memos.append({})
        try:
            yield
        finally:
            self._memos.pop()


def row_major(writer: FunctionWriter, sizes: Sequence[str]) -> tuple[str, ...]:
    """The strides of a dense row-major array."""
    strides = ["1"] * len(sizes)
    for axis in range(len(sizes) - 2, -1, -1):
        strides[axis] = o.multiply(writer, strides[axis + 1], sizes[axis + 1])
    return tuple(strides)

"""Writes LLVM IR as text, one function at a time.

Text, because it is what llvmlite parses in any case, and building it from strings is many times faster than building
objects. A value is its operand text (`%t7`, `3`, `0x7FF0000000000000`); who emits an instruction knows its type.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tiledsl.backend_cpu.llvm.outline import MOST_LOOPS, loops, outline
from tiledsl.ir.dtypes import DType

LIKELY = "!0"
"""The metadata of branches that nearly always go one way."""
_ELEMENT = {
    "f64": "double", "f32": "float", "f16": "half", "bf16": "i16", "f8e4m3": "i8", "f8e5m2": "i8", "bool": "i1",
}  # fmt: skip


@dataclass(frozen=True)
class VectorType:
    """An LLVM first-class type for `lanes` elements of a dtype; one lane is a scalar.

    bool is `i1` in registers (a byte in memory); bf16 and the 8-bit floats are held as their bits.
    """

    dtype: DType
    lanes: int = 1

    @property
    def element(self) -> str:
        """`float`, `i64`, ..."""
        return _ELEMENT.get(self.dtype.name) or f"i{self.dtype.bits}"

    def __str__(self) -> str:
        return self.element if self.lanes == 1 else f"<{self.lanes} x {self.element}>"

    @property
    def suffix(self) -> str:
        """The overload suffix of intrinsics: `f32`, `v16f32`, `v8i64`."""
        element = {"double": "f64", "float": "f32", "half": "f16"}.get(self.element, self.element)
        return element if self.lanes == 1 else f"v{self.lanes}{element}"

    def of(self, dtype: DType) -> VectorType:
        """As many lanes of another dtype."""
        return replace(self, dtype=dtype)


class ModuleWriter:
    """Collects functions, constants and the declarations that they need."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.declarations: dict[str, str] = {}
        self.constants: dict[str, str] = {}
        self.metadata: dict[str, str] = {}
        self.names: set[str] = set()
        """Functions written on demand, so that each is written once."""
        self.nests: dict[str, str] = {}
        """The name of each loop nest that is a function, by its text."""
        self.called: frozenset[tuple[str, bool]] = frozenset()
        """The scalar functions (and whether on narrow floats) that the program uses so often that they are called, not
        written out each time.
        """

    def add_nest(self, write: Callable[[str], str]) -> str:
        """Adds a function that is written for its name, unless there is one of that text. Gives its name."""
        body = write("")
        if body not in self.nests:
            self.nests[body] = f"nest{len(self.nests)}"
            self.functions.append(write(self.nests[body]))
        return self.nests[body]

    def text(self, triple: str = "") -> str:
        """The whole module."""
        head = [f'target triple = "{triple}"'] if triple else []
        metadata = (f"{name} = {node}" for name, node in self.metadata.items())
        return "\n".join([*head, *self.constants.values(), *self.declarations.values(), *self.functions, *metadata, ""])


class FunctionWriter:
    """Writes one function. Local names are numbered; labels are kept unique."""

    def __init__(self, module: ModuleWriter, signature: str, attributes: str = "nounwind") -> None:
        """`signature` is everything between `define` and the attributes: `void @f(ptr noalias %args)`."""
        self.module = module
        self._signature = signature
        self._attributes = attributes
        self._entry: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self._regions: list[tuple[int, int]] = []
        self.label = "start"

    def fresh(self) -> str:
        """A new local name, `%t12`."""
        self._count += 1
        return f"%t{self._count}"

    def emit(self, instruction: str) -> str:
        """Appends `%tN = instruction` and gives `%tN`."""
        name = self.fresh()
        self._lines.append(f"  {name} = {instruction}")
        return name

    def line(self, instruction: str) -> None:
        """Appends an instruction without a result."""
        self._lines.append(f"  {instruction}")

    def alloca(self, type_: str, align: int | None = None) -> str:
        """A stack slot, allocated once in the entry block wherever this is called."""
        name = self.fresh()
        self._entry.append(f"  {name} = alloca {type_}" + (f", align {align}" if align else ""))
        return name

    @contextmanager
    def in_entry(self) -> Generator[None]:
        """Writes to the end of the entry block for a while; what is written there may use only what the entry
        defines.
        """
        outer, self._lines = self._lines, self._entry
        try:
            yield
        finally:
            self._lines = outer

    def new_label(self, hint: str) -> str:
        """A label that nothing else has."""
        self._count += 1
        return f"{hint}{self._count}"

    def start(self, label: str) -> None:
        """Begins the basic block of that label; the one before must have ended with a branch."""
        self._lines.append(f"{label}:")
        self.label = label

    def branch(self, label: str) -> None:
        self.line(f"br label %{label}")

    def branch_if(self, condition: str, then: str, otherwise: str, *, likely: bool = False) -> None:
        """`likely`: the condition nearly always holds; what is done otherwise may well take a jump."""
        weights = ""
        if likely:
            self.module.metadata[LIKELY] = '!{!"branch_weights", i32 1000, i32 1}'
            weights = f", !prof {LIKELY}"
        self.line(f"br i1 {condition}, label %{then}, label %{otherwise}{weights}")

    def declare(self, name: str, result: str, parameters: str) -> None:
        """Makes sure that the module declares `result @name(parameters)`."""
        self.module.declarations.setdefault(name, f"declare {result} @{name}({parameters})")

    def call(self, name: str, result: str, arguments: list[tuple[str, str]]) -> str:
        """Calls a declared-on-demand function with (type, value) arguments."""
        self.declare(name, result, ", ".join(t for t, _ in arguments))
        text = f"call {result} @{name}({', '.join(f'{t} {v}' for t, v in arguments)})"
        if result == "void":
            self.line(text)
            return ""
        return self.emit(text)

    @contextmanager
    def loop(self, start: str, stop: str, step: str = "1", hint: str = "loop") -> Generator[str]:
        """`for i in range(start, stop, step)` over i64; gives the operand text of i. `step` is positive."""
        head, body_, done = (
            self.new_label(f"{hint}.head"),
            self.new_label(f"{hint}.body"),
            self.new_label(f"{hint}.done"),
        )
        slot = self.alloca("i64")
        self.line(f"store i64 {start}, ptr {slot}")
        self.branch(head)
        self.start(head)
        index = self.emit(f"load i64, ptr {slot}")
        self.branch_if(self.emit(f"icmp slt i64 {index}, {stop}"), body_, done)
        self.start(body_)
        yield index
        self.line(f"store i64 {self.emit(f'add nsw i64 {index}, {step}')}, ptr {slot}")
        self.branch(head)
        self.start(done)

    @contextmanager
    def nest(self) -> Generator[None]:
        """Says that what is written inside is a loop nest, which may become a function. One holds no other."""
        start = len(self._lines)
        yield
        self._regions.append((start, len(self._lines)))

    def splat(self, type_: VectorType, value: str) -> str:
        """A scalar operand repeated over the lanes of `type_`."""
        if type_.lanes == 1:
            return value
        one = self.emit(f"insertelement {type_} poison, {type_.element} {value}, i64 0")
        return self.emit(f"shufflevector {type_} {one}, {type_} poison, <{type_.lanes} x i32> zeroinitializer")

    def finish(self) -> None:
        """Adds the function, which must have ended with `ret`, to the module."""
        entry, body = self._entry, self._lines
        if loops("\n".join(body)) > MOST_LOOPS:
            entry, body = outline(entry, body, self._regions, self.fresh, self.module.add_nest)
        head = f"define {self._signature} {self._attributes} {{"
        leaves_entry = any(line.startswith(("  br", "  ret")) for line in entry[-1:])
        entry = entry if leaves_entry else [*entry, "  br label %start"]
        lines = [head, "entry:", *entry, "start:", *body, "}"]
        self.module.functions.append("\n".join(lines))

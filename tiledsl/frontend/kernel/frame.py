"""One running function of a kernel: the kernel itself, or a helper while it is inlined."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import NoReturn, cast

import numpy as np

from tiledsl.frontend.language.values import Auto, MemoryLevel
from tiledsl.frontend.language.word_advice import function_advice, language_words, name_advice
from tiledsl.frontend.source.kernel_source import KernelFunction, KernelObject, KernelSource
from tiledsl.frontend.words.lowering import Lowering
from tiledsl.frontend.words.values import FrontValue, Operand, Static, Tuple, Undefined
from tiledsl.ir.dtypes import DType
from tiledsl.support.errors import Label, fail
from tiledsl.support.location import Location
from tiledsl.support.suggest import nearest

CONSTANT_TYPES = (
    bool, int, float, str, type(None), type(...), DType, MemoryLevel, Auto, np.dtype, FunctionType,
    BuiltinFunctionType, ModuleType, KernelFunction, type,
)  # fmt: skip
"""What may be captured from outside of a kernel: it cannot change, or is code. Tuples of these too."""
HELPER = "make it a helper with `@tile.func`"
"""What to do with a function of the user's."""


@dataclass
class Frame:
    """The variables of a running function and where it was called from.

    `run_time_depth` counts the run-time loops and branches around the current statement: no `return` in there.
    """

    low: Lowering
    source: KernelSource
    caller: Location | None
    scope: dict[str, FrontValue]
    size_names: dict[str, Location] = field(default_factory=dict)
    """Names that stand for the size of an axis since `M, K = a.shape`: naming again asserts equality."""
    assigned: dict[str, Location] = field(default_factory=dict)
    """Where each variable was last assigned."""
    run_time_depth: int = 0

    def location(self, node: ast.AST) -> Location:
        return self.source.location(node, self.caller)

    def fail(
        self, node: ast.AST, code: str, *, labels: Sequence[Label] = (), notes: Sequence[str] = (), **names: object
    ) -> NoReturn:
        """Raises a catalogued error at a node."""
        fail(code, self.location(node), labels=labels, notes=notes, **names)

    def operand(self, node: ast.AST, value: FrontValue) -> Operand:
        return Operand(value, self.source.segment(node), self.location(node))

    def read_name(self, node: ast.Name) -> FrontValue:
        """What a name stands for: a variable, or a constant from outside. Raises TileSyntaxError if nothing."""
        value = self.scope.get(node.id)
        if isinstance(value, Undefined):
            label = Label(value.location, "assigned here")
            self.fail(node, "name-undefined-here", labels=[label], notes=value.notes, name=node.id, reason=value.reason)
        if value is not None:
            return value
        found, captured = self.source.lookup(node.id)
        if not found:
            self.fail(node, "name-unknown", name=node.id, hint=self._hint(node.id))
        return self.constant(node, captured)

    def is_known(self, name: str) -> bool:
        """Whether a name stands for something, or did."""
        return name in self.scope or self.source.lookup(name)[0]

    def _hint(self, name: str) -> str:
        """A name that may have been meant."""
        known = [n for n, value in self.scope.items() if not isinstance(value, Undefined)]
        close = nearest(name, [*known, *self.source.visible_names()])
        if close is not None:
            return f"did you mean `{close}`?"
        advice = function_advice(name) or name_advice(name, None)
        word = nearest(name, language_words())
        return advice or ("assign it first" if word is None else f"did you mean `tile.{word}`?")

    def constant(self, node: ast.AST, value: object) -> FrontValue:
        """A Python value from outside of the kernel. Raises TileTypeError for what could change unseen."""
        if isinstance(value, np.generic):
            return self.constant(node, cast(object, value.item()))  # pyright: ignore[reportUnknownMemberType]
        if isinstance(value, tuple):
            items = cast(tuple[object, ...], value)
            return Tuple(tuple(self.constant(node, item) for item in items))
        if isinstance(value, CONSTANT_TYPES):
            return Static(cast(object, value))
        if isinstance(value, KernelObject):
            itself = vars(value)["__wrapped__"] is self.source.function
            apart = "call it before or after this one, or make it a `@tile.func`"
            hint = "loop in it, or give it a second `tile.grid`" if itself else apart
            which = "this kernel itself" if itself else "a kernel"
            self.fail(node, "kernel-called", text=self.source.segment(node), which=which, hint=hint)
        if callable(value):
            hint = function_advice(getattr(value, "__name__", "")) or HELPER
            self.fail(node, "captured-callable", text=self.source.segment(node), hint=hint)
        self.fail(node, "captured-object", text=self.source.segment(node), kind=type(value).__name__)

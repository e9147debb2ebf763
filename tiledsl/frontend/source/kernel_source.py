"""The Python source of a kernel, read when it is first needed, with true line and column numbers."""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
from collections.abc import Callable
from functools import cached_property
from types import CodeType, FunctionType
from typing import Any

from tiledsl.frontend.language.active_trace import ACTIVE
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail
from tiledsl.support.function_source import source_lines
from tiledsl.support.location import Location


class KernelSource:
    """A Python function as the front end sees it: signature, syntax tree, and what its free names stand for.

    Raises TileSyntaxError at once for what is not a plain function; the source itself is read at first use, through
    linecache, so that notebooks, doctests and the interactive prompt work. A lambda has no tree: it can be a formula.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not isinstance(function, FunctionType):
            fail("not-a-function", caller_location(), what=type(function).__name__)
        self.function: FunctionType = function
        self.name: str = function.__name__
        self.file: str = function.__code__.co_filename
        self.definition = Location(self.file, function.__code__.co_firstlineno)
        self.signature = inspect.signature(function)
        self._reject_odd_functions()

    def _reject_odd_functions(self) -> None:
        code: CodeType = self.function.__code__
        scope, _, _ = self.function.__qualname__.rpartition(".")
        if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            fail("kernel-async", self.definition, name=self.name)
        if code.co_flags & inspect.CO_GENERATOR:
            fail("kernel-generator", self.definition, name=self.name)
        if scope and not scope.endswith("<locals>"):
            fail("kernel-method", self.definition, name=self.name, scope=scope)
        for parameter in self.signature.parameters.values():
            if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
                fail("kernel-star-parameter", self.definition, name=self.name, parameter=str(parameter))

    @cached_property
    def tree(self) -> ast.FunctionDef:
        """The function's syntax tree. Its positions are those of `text`; `location` translates them."""
        lines, _ = self._lines
        # An indented function (a closure, say) is parsed under an `if`, so that its columns stay true.
        source = f"if 1:\n{''.join(lines)}" if lines[0][:1].isspace() else f"\n{''.join(lines)}"
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef) and node.name == self.name:
                return node
        fail("kernel-lambda", self.definition)

    @cached_property
    def _lines(self) -> tuple[list[str], int]:
        """The lines of the function, decorators included, and the number of the first one."""
        try:
            return source_lines(self.function)
        except OSError:
            is_typed = self.file == "<stdin>" and sys.version_info < (3, 13)
            typed = "; Python 3.13 and later also keep what is typed at the prompt" if is_typed else ""
            fail("source-unreadable", self.definition, name=self.name, file=self.file, typed=typed)

    @property
    def text(self) -> str:
        """The source text, decorators included."""
        return "".join(self._lines[0])

    def location(self, node: ast.AST, caller: Location | None = None) -> Location:
        """Where a node of `tree` stands in the user's file, as seen through `caller`."""
        line: int = getattr(node, "lineno", 1)
        end_line: int = getattr(node, "end_lineno", None) or line
        column = self._character(line, getattr(node, "col_offset", 0))
        end_column = self._character(end_line, getattr(node, "end_col_offset", None) or column)
        first = self._lines[1] - 2
        return Location(self.file, line + first, column + 1, end_line + first, end_column + 1, caller)

    def segment(self, node: ast.AST) -> str:
        """The text of a node of `tree`."""
        line, end_line = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
        if line != end_line or not 2 <= line <= len(self._lines[0]) + 1:
            return ast.unparse(node)
        start = self._character(line, getattr(node, "col_offset", 0))
        return self._lines[0][line - 2][start : self._character(line, getattr(node, "end_col_offset", 0))]

    def _character(self, line: int, byte: int) -> int:
        """The character offset of a byte offset (what `ast` gives) in a line of the tree."""
        text = self._lines[0][line - 2] if 2 <= line <= len(self._lines[0]) + 1 else ""
        return byte if text.isascii() else len(text.encode()[:byte].decode(errors="ignore"))

    def lookup(self, name: str) -> tuple[bool, object]:
        """Whether a free name of the function stands for something, and for what: closure, globals, Python's own."""
        code = self.function.__code__
        for free, cell in zip(code.co_freevars, self.function.__closure__ or ()):
            if free == name:
                try:
                    return True, cell.cell_contents
                except ValueError:  # assigned further down in the enclosing function
                    return False, None
        namespace: dict[str, object] = self.function.__globals__
        if name in namespace:
            return True, namespace[name]
        return (True, getattr(builtins, name)) if hasattr(builtins, name) else (False, None)

    def visible_names(self) -> list[str]:
        """Every free name that `lookup` would find, without Python's own."""
        return [*self.function.__code__.co_freevars, *self.function.__globals__]


class KernelObject:
    """What `@tile.kernel` makes, as far as the front end knows it."""

    __wrapped__: FunctionType


class KernelFunction:
    """What `@tile.func` makes: a function that kernels call, inlined at each call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.source = KernelSource(function)
        if self.source.name == "<lambda>":
            fail("kernel-lambda", self.source.definition)
        self.__name__ = self.source.name
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Only kernels call it, and formulas, in which it is plain Python. Raises TileSyntaxError."""
        if ACTIVE.get() is not None:
            return self.__wrapped__(*args, **kwargs)
        fail("outside-kernel", caller_location(), name=self.__name__, instead="a plain Python function")

    def __repr__(self) -> str:
        return f"<tile.func {self.__name__}>"


def func(function: Callable[..., Any]) -> KernelFunction:
    """Makes a helper that kernels can call: `@tile.func`. It is inlined, may take and return tiles, scalars, tensors,
    tuples and compile-time values, and cannot call itself.
    """
    return KernelFunction(function)

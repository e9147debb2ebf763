"""What a kernel can read from outside of itself at compile time: globals, closures, helpers, members of modules.

Found from the function's code object alone, without the front end: every name that the code mentions and that stands
for something outside. That may be more than the kernel uses, never less. The values go into the cache key, and are
compared by identity at each call, so that a changed constant or a redefined helper is never run stale.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from tiledsl.ir.dtypes import DType
from tiledsl.runtime.calls.specialise import is_tuple
from tiledsl.support.function_source import source_lines

_MISSING = object()
_PART_OF_THE_KEY = ("tiledsl", "numpy", "ml_dtypes", "math", "builtins")
"""Modules whose members change only with versions, which are in every key."""


@dataclass(frozen=True)
class Watched:
    """A name outside of the kernel, with the value that it had when the kernel was looked at."""

    name: str
    namespace: Mapping[str, object]
    value: object


def changed(watched: tuple[Watched, ...]) -> Watched | None:
    """The first name that no longer stands for what it did, if any."""
    for one in watched:
        if one.namespace.get(one.name, _MISSING) is not one.value:
            return one
    return None


class CapturedCell(Mapping[str, object]):
    """The variable of an enclosing function, as a namespace of one name."""

    def __init__(self, name: str, cell: Any) -> None:
        self._name = name
        self._cell = cell

    def __getitem__(self, key: str) -> object:
        if key == self._name:
            try:
                return self._cell.cell_contents
            except ValueError:  # not assigned yet
                pass
        raise KeyError(key)

    def get(self, key: str, default: object = None) -> object:
        """As of any mapping; a call asks for each name that its kernel reads."""
        try:
            return self._cell.cell_contents if key == self._name else default
        except ValueError:
            return default

    def __iter__(self) -> Iterator[str]:
        return iter((self._name,))

    def __len__(self) -> int:
        return 1


class Captured:
    """What one function can read. `texts` (for the cache key) and `watched` are of one moment."""

    def __init__(self, function: FunctionType) -> None:
        self.texts: list[str] = []
        self.watched: list[Watched] = []
        self._seen: set[int] = set()
        self._add_function(function)

    def _add_function(self, function: FunctionType) -> None:
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        code = function.__code__
        try:
            lines, first = source_lines(function)
        except OSError:  # a formula needs no source; a kernel in tile form will say that it does
            lines, first = [code.co_code.hex(), repr(code.co_consts), repr(code.co_names)], code.co_firstlineno
        self.texts.append(f"{function.__module__}.{function.__qualname__} {code.co_filename}:{first}")
        self.texts += lines
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._add_value(default, frozenset())
        names = frozenset(_names_in(function.__code__))
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            self._add_name(name, CapturedCell(name, cell), names)
        for name in sorted(names):
            if name in function.__globals__:
                self._add_name(name, function.__globals__, names)

    def _add_name(self, name: str, namespace: Mapping[str, object], names: frozenset[str]) -> None:
        value = namespace.get(name, _MISSING)
        if not _is_stable_module(value):
            self.watched.append(Watched(name, namespace, value))
        self.texts.append(name)
        self._add_value(value, names)

    def _add_value(self, value: object, names: frozenset[str]) -> None:
        """Adds a text that tells the value from others. `names` are those whose attributes the code may ask for."""
        wrapped: object = getattr(value, "__wrapped__", value)
        if isinstance(wrapped, FunctionType):  # a helper or a kernel
            self._add_function(wrapped)
        elif isinstance(value, ModuleType):
            self.texts.append(value.__name__)
            self._add_module(value, names)
        elif is_tuple(value):
            self.texts.append(f"tuple of {len(value)}")
            for item in value:
                self._add_value(item, names)
        elif value is None or isinstance(value, (bool, int, float, str, DType, np.dtype, type)):
            self.texts.append(f"{type(value).__name__} {value!r}")  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(value, BuiltinFunctionType):
            self.texts.append(f"{value.__module__}.{value.__qualname__}")
        else:  # words of the language, or what a kernel cannot read at all
            own = type(value).__module__.startswith("tiledsl.")
            self.texts.append(f"{type(value).__qualname__} {value!r}" if own else type(value).__qualname__)

    def _add_module(self, module: ModuleType, names: frozenset[str]) -> None:
        if id(module) in self._seen or _is_stable_module(module):
            return
        self._seen.add(id(module))
        for name in sorted(names & vars(module).keys()):
            self._add_name(name, vars(module), names)


def _is_stable_module(value: object) -> bool:
    return isinstance(value, ModuleType) and value.__name__.partition(".")[0] in _PART_OF_THE_KEY


def _names_in(code: CodeType) -> Iterator[str]:
    """Every name and attribute that the code, and the code of functions inside of it, mentions."""
    yield from code.co_names
    yield from code.co_freevars
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)

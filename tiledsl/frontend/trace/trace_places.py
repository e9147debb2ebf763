"""Where in the user's source a traced operation stands, and what the user's variables are called."""

from __future__ import annotations

import inspect
import linecache
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from types import CodeType, FrameType
from typing import Any

from tiledsl.support.caller import caller_location
from tiledsl.support.location import BUILTIN, Location

HAS_COLUMNS = sys.version_info >= (3, 11)
"""Whether Python tells in which columns of a line it is."""


class Places:
    """The user's frames from an operation out to the start of the trace, `root`; what is ours between is left out."""

    def __init__(self, root: CodeType) -> None:
        self.root = root
        self._spans: dict[tuple[CodeType, int], Location] = {}

    def frames(self) -> Iterator[FrameType]:
        """The user's frames, the innermost first."""
        frame = inspect.currentframe()
        while frame is not None and frame.f_code is not self.root:
            if not is_internal(frame):
                yield frame
            frame = frame.f_back

    def here(self) -> Location | None:
        """The expression that runs now, with the chain of calls that led to it; None outside of the user's code."""
        location: Location | None = None
        for frame in reversed(list(self.frames())):
            location = replace(self._span(frame), caller=location)
        return location

    def called(self) -> Location | None:
        """The line that called into this package: that of an op of the library is the user's, not one within it."""
        return caller_location()

    def _span(self, frame: FrameType) -> Location:
        key = (frame.f_code, frame.f_lasti)
        if key not in self._spans:
            self._spans[key] = span(frame)
        return self._spans[key]


def span(frame: FrameType) -> Location:
    """The expression that a frame runs; the text of its line where Python does not tell columns (3.10)."""
    code = frame.f_code
    if HAS_COLUMNS and sys.version_info >= (3, 11):
        line, end_line, column, end_column = next(islice(code.co_positions(), frame.f_lasti // 2, None))
        if line is not None and column is not None:
            first = _characters(code.co_filename, line, column)
            last = _characters(code.co_filename, end_line or line, end_column or column)
            return Location(code.co_filename, line, first + 1, end_line or line, last + 1)
    text = linecache.getline(code.co_filename, frame.f_lineno).rstrip()
    indent = len(text) - len(text.lstrip())
    return Location(code.co_filename, frame.f_lineno, indent + 1, frame.f_lineno, max(len(text), indent + 1) + 1)


def _characters(file: str, line: int, offset: int) -> int:
    """The character offset of a byte offset, which is what Python tells."""
    text = linecache.getline(file, line)
    return offset if text.isascii() else len(text.encode()[:offset].decode(errors="ignore"))


def is_internal(frame: FrameType) -> bool:
    """Whether a frame is the compiler's own; the library of ops is written as users write."""
    module: object = frame.f_globals.get("__name__", "")
    if not isinstance(module, str):
        return False
    return (module == "tiledsl" or module.startswith("tiledsl.")) and not module.startswith("tiledsl.ops")


def source_text(location: Location) -> str:
    """The text of a span in one line, if it can be read and is no longer than a line."""
    lines = [linecache.getline(location.file, i).rstrip("\n") for i in range(location.line, location.end_line + 1)]
    lines[-1] = lines[-1][: location.end_column - 1]
    lines[0] = lines[0][location.column - 1 :]
    text = " ".join(line.strip() for line in lines)
    return text if len(text) <= 80 else ""


def definition(fn: Callable[..., Any]) -> Location:
    """Where a function is defined: the line of its `def`, below the decorators; that of a lambda, or of an object's
    `__call__`.
    """
    function: Any = inspect.unwrap(fn)
    call = inspect.getattr_static(kind_of(function), "__call__", None)
    code = getattr(function, "__code__", None) or getattr(call, "__code__", None)
    if not isinstance(code, CodeType):
        return BUILTIN
    for line in range(code.co_firstlineno, code.co_firstlineno + 20):
        text = linecache.getline(code.co_filename, line).rstrip()
        found = re.search(rf"\bdef {code.co_name}\b.*", text)
        if found is not None:
            return Location(code.co_filename, line, found.start() + 1, line, len(text) + 1)
    return Location(code.co_filename, code.co_firstlineno)


def kind_of(value: object) -> type:
    """The class of a value."""
    return type(value)


def parameter_place(place: Location, name: str) -> Location:
    """Where a parameter stands in the head of a function that is defined at `place`; else that place."""
    for line in range(place.line, place.line + 10):
        text = linecache.getline(place.file, line).rstrip()
        found = re.compile(rf"\b{re.escape(name)}\b").search(text, place.column + 3 if line == place.line else 0)
        if found is not None:
            return Location(place.file, line, found.start() + 1, line, found.end() + 1)
        if text.endswith(":"):
            break
    return place

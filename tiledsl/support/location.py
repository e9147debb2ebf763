"""Where in the user's source a thing comes from, with the chain of inlined calls."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Location:
    """A span of source text. Lines and columns count from 1; `end_column` is one past the last.

    `caller` is the call site through which the code at this location was inlined:
    for a line inside a `@tile.func` it is the line of the kernel that calls it.
    """

    file: str
    line: int
    column: int = 1
    end_line: int = 0
    end_column: int = 0
    caller: Location | None = None

    def __post_init__(self) -> None:
        if self.end_line == 0:
            object.__setattr__(self, "end_line", self.line)
        if self.end_column == 0:
            object.__setattr__(self, "end_column", self.column + 1)

    def chain(self) -> Iterator[Location]:
        """This location, then its call sites from the innermost outwards."""
        here: Location | None = self
        while here is not None:
            yield here
            here = here.caller

    @property
    def source(self) -> str:
        """The text of the span if it is within one line and can be read, else nothing."""
        if self.end_line != self.line:
            return ""
        return linecache.getline(self.file, self.line)[self.column - 1 : self.end_column - 1]

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


BUILTIN = Location("<tiledsl>", 1)
"""For ops that the compiler makes out of nothing the user wrote (tests, hand-built modules)."""

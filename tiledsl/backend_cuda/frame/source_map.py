"""From a line of CUDA C, or of PTX, back to the line of the user's file that it was made for.

Generated lines end in a comment that names the user's line; a line without one belongs to the last comment above it:

    float y = x * 2.0f;  // scale.py:7
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from tiledsl.support.location import Location

_COMMENT = re.compile(r"// (?P<file>[^/\\]+?):(?P<line>\d+)\s*$")


def comment_of(location: Location) -> str:
    """The comment that stands at the end of a line of CUDA C made for `location`: `// scale.py:7`."""
    return f"// {PurePath(location.file).name}:{location.line}"


def user_location(source: str, line: int, locations: Sequence[Location]) -> Location | None:
    """The location that line number `line` (from 1) of `source` was made for.

    A comment names only a file's last part; `locations` tell the whole, and of those on the very line the first is
    taken, with its columns and calls. Without a comment above the line it is the first of `locations`.
    """
    for text in reversed(source.splitlines()[:line]):
        if match := _COMMENT.search(text):
            return _completed(match["file"], int(match["line"]), locations)
    return locations[0] if locations else None


def _completed(file: str, line: int, locations: Sequence[Location]) -> Location:
    same_file = [location for location in locations if PurePath(location.file).name == file]
    for location in same_file:
        if location.line == line:
            return location
    return Location(same_file[0].file if same_file else file, line)


@dataclass(frozen=True)
class _Mark:
    """A `.loc` of PTX: a place of CUDA C, and the place it was inlined at."""

    place: tuple[int, int, int]
    caller: tuple[int, int, int] | None


_LOC = re.compile(r"^\s*\.loc\s+(\d+) (\d+) (\d+)(?:, function_name [^,]+, inlined_at (\d+) (\d+) (\d+))?")


def line_of_ptx(ptx: str, line: int) -> int | None:
    """The line of CUDA C, in the kernel itself and not in a function inlined there, that a line of PTX was made for.

    `ptx` must have been made with line information. None if nothing is known.
    """
    marks = [mark for text in ptx.splitlines()[:line] if (mark := _mark(text))]
    if not marks:
        return None
    mark = marks.pop()
    while mark.caller is not None:
        outer = next((other for other in reversed(marks) if other.place == mark.caller), None)
        if outer is None or outer == mark:
            return mark.caller[1]
        mark = outer
    return mark.place[1]


def _mark(text: str) -> _Mark | None:
    match = _LOC.match(text)
    if not match:
        return None
    numbers = [int(number) for number in match.groups() if number is not None]
    file, line, column, *caller = numbers
    return _Mark((file, line, column), (caller[0], caller[1], caller[2]) if caller else None)

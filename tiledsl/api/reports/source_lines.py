"""The lines of a program that something comes from, as people write them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePath

from tiledsl.support.location import BUILTIN, Location

_PACKAGE = str(Path(__file__).parents[1])


def source_text(place: Location, others: Iterable[Location]) -> str:
    """`model.py:12, 14-16`: the lines of ops that run together, where one of them is at `place`; the line of that alone
    if it is not among them (the ops are those of an equal part of the program). Nothing for what nobody wrote."""
    lines: dict[str, set[int]] = {}
    for location in map(users_place, others):
        lines.setdefault(location.file, set()).add(location.line)
    here = users_place(place)
    if here.line not in lines.get(here.file, ()):
        lines = {here.file: {here.line}}
    lines = {file: found for file, found in lines.items() if file != BUILTIN.file and not file.startswith(_PACKAGE)}
    return "; ".join(_in_file(file, sorted(found)) for file, found in lines.items())


def users_place(location: Location) -> Location:
    """The innermost of a place and its call sites that is outside of this package, which `tiledsl.ops` is within."""
    return next((place for place in location.chain() if not place.file.startswith(_PACKAGE)), location)


def _in_file(file: str, lines: list[int]) -> str:
    name = PurePath(file).name if file.endswith(".py") else file  # a node of a model is named as it is
    runs: list[tuple[int, int]] = []
    for line in lines:
        if runs and line == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], line
        else:
            runs.append((line, line))
    spans = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs if last > 0)
    return f"{name}:{spans}" if spans else name

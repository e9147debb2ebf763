"""The classes of errors a user can meet, the catalogue that holds their words, and the renderer.

Every message lives in a catalogue file as an `ErrorSpec` under a short code, raised by `fail(code, location, ...)`.
So each has one place, one wording and (a test sees to it) one test.

>>> fail("name-unknown", location, name="foo", hint="did you mean `tile.floor`?")
examples.py:7:12: TileSyntaxError: name `foo` is not defined
    7 |     acc = foo(x)
      |           ^^^
  fix: did you mean `tile.floor`?
"""

from __future__ import annotations

import linecache
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from tiledsl.support.location import Location


class TileError(Exception):
    """Base of all errors that tiledsl raises at its users.

    `code` names the entry of the catalogue, `location` the user's source (None where there is none),
    `message` the first line without its place, `fix` the advice.
    """

    code: str = ""
    location: Location | None = None
    message: str = ""
    fix: str = ""


class TileSyntaxError(TileError):
    """Python, or IR text, that the language does not have."""


class TileTypeError(TileError, TypeError):
    """A value of the wrong dtype or kind."""


class TileAttributeError(TileTypeError, AttributeError):
    """An attribute that a value does not have, also for those who only ask whether it has it."""


class TileShapeError(TileError, ValueError):
    """Sizes or ranks that do not fit each other."""


class TileLayoutError(TileError):
    """Layouts that cannot be reconciled."""


class TileResourceError(TileError):
    """More of a memory level or of registers than the machine has."""


class TileUnsupportedError(TileError, NotImplementedError):
    """Something sensible that this version cannot do."""


class TileRuntimeError(TileError, RuntimeError):
    """A fault while a kernel runs: a failed assertion, a device that is not there."""


class TileRaceError(TileError):
    """Accesses to memory in no order: programs of a grid that meet, elements that are read before they are written."""


class TilePerformanceWarning(UserWarning):
    """Code that is right, and slower than it could be."""


@dataclass(frozen=True)
class ErrorSpec:
    """One entry of the catalogue. `message` and `fix` are `str.format` templates over the same names."""

    kind: type[TileError]
    message: str
    fix: str


CATALOGUE: dict[str, ErrorSpec] = {}
"""Every message of the project by its code. Filled by the modules of `tiledsl.support.catalogue`."""


def register(entries: Mapping[str, ErrorSpec]) -> None:
    """Adds entries to the catalogue; a code can be taken once."""
    for code, spec in entries.items():
        assert code not in CATALOGUE, f"error code {code!r} is declared twice"
        CATALOGUE[code] = spec


@dataclass(frozen=True)
class Label:
    """A second place that an error speaks of, with what is to be said of it."""

    location: Location
    text: str


def make_error(
    code: str, location: Location | None, *, labels: Sequence[Label] = (), notes: Sequence[str] = (), **names: object
) -> TileError:
    """The error of entry `code`, ready to be raised; `names` fill its template."""
    spec = CATALOGUE[code]
    message = spec.message.format(**names)
    fix = spec.fix.format(**names)
    error = spec.kind(render(spec.kind.__name__, message, fix, location, labels, notes))
    error.code = code
    error.location = location
    error.message = message
    error.fix = fix
    return error


def fail(
    code: str, location: Location | None, *, labels: Sequence[Label] = (), notes: Sequence[str] = (), **names: object
) -> NoReturn:
    """Raises the error of entry `code` at `location`."""
    raise make_error(code, location, labels=labels, notes=notes, **names)


def add_note(error: TileError, note: str) -> None:
    """Adds a line to the text of an error, before the fix."""
    fix = f"\n  fix: {error.fix}" if error.fix else ""
    error.args = (f"{str(error).removesuffix(fix)}\n  note: {note}{fix}",)


def add_place(error: TileError, label: Label) -> None:
    """Adds a place to the text of an error, before the fix."""
    fix = f"\n  fix: {error.fix}" if error.fix else ""
    lines = [f"  {label.location}: {label.text}", *excerpt(label.location)]
    error.args = ("\n".join((str(error).removesuffix(fix), *lines)) + fix,)


def render(
    kind: str,
    message: str,
    fix: str,
    location: Location | None,
    labels: Sequence[Label] = (),
    notes: Sequence[str] = (),
) -> str:
    """The whole text of an error: place, message, source with carets, labels, call chain, notes, fix."""
    lines = [f"{location}: {kind}: {message}" if location else f"{kind}: {message}"]
    if location:
        lines += excerpt(location)
        for label in labels:
            lines.append(f"  {label.location}: {label.text}")
            lines += excerpt(label.location)
        for caller in list(location.chain())[1:]:
            lines.append(f"  called from {caller}:")
            lines += excerpt(caller)
    lines += [f"  note: {note}" for note in notes]
    if fix:
        lines.append(f"  fix: {fix}")
    # Python prints "Class: text" itself; starting on a line of its own keeps carets under their columns.
    return "\n" + "\n".join(lines)


def excerpt(location: Location) -> list[str]:
    """The source line with carets under the span, or nothing where the source cannot be read."""
    text = linecache.getline(location.file, location.line).rstrip("\n")
    if not text:
        return []
    gutter = f"{location.line:5d} | "
    start, end = location.column, location.end_column if location.end_line == location.line else len(text) + 1
    if not text[start - 1 : end - 1].strip():  # nothing is told but the line
        start, end = len(text) - len(text.lstrip()) + 1, len(text) + 1
    width = max(1, min(end, len(text) + 1) - start)
    # Tabs stay tabs, so that the carets line up whatever the terminal makes of them.
    pad = "".join("\t" if c == "\t" else " " for c in text[: start - 1])
    return [gutter + text, " " * (len(gutter) - 2) + "| " + pad + "^" * width]

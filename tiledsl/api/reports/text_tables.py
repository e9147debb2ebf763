"""Plain text for a terminal: tables, paragraphs, quantities."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from tiledsl.runtime.programs.artifact import Note

WIDTH = 110
"""Columns at which sentences are wrapped. Tables are as wide as they are."""


def columns(rows: Sequence[tuple[str, ...]], indent: int = 2) -> list[str]:
    """Rows with their cells under each other."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    return [" " * indent + "  ".join(f"{cell:{w}}" for cell, w in zip(row, widths)).rstrip() for row in rows]


def entries(pairs: Iterable[tuple[str, str]], indent: int = 2) -> list[str]:
    """Words, and beside each what there is to say of it, wrapped."""
    pairs = list(pairs)
    width = max((len(word) for word, _ in pairs), default=0)
    lines: list[str] = []
    for word, text in pairs:
        lines += paragraph(f"{word:{width}}  {text}", indent, indent + width + 2)
    return lines


def paragraph(text: str, indent: int = 2, hanging: int | None = None) -> list[str]:
    """Text wrapped; lines but the first are indented by `hanging` if that is given."""
    following = " " * (indent if hanging is None else hanging)
    return textwrap.wrap(
        text, WIDTH, initial_indent=" " * indent, subsequent_indent=following,
        break_long_words=False, break_on_hyphens=False, drop_whitespace=True,
    )  # fmt: skip


def notes(found: Iterable[Note], file: str, indent: int = 2) -> list[str]:
    """One paragraph for each, behind its line; the file is named where it is not the kernel's own."""
    lines: list[str] = []
    for note in found:
        place = f"line {note.line}" if note.file == file else f"{Path(note.file).name}:{note.line}"
        lines += paragraph(f"{place}  {note.text} [{note.pass_name}]", indent, indent + len(place) + 2)
    return lines


def size(count: float) -> str:
    """`3.5 MiB`"""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} GiB"


def shortened(text: str, most: int) -> str:
    """The text, or its beginning."""
    return text if len(text) <= most else text[: most - 3] + "..."

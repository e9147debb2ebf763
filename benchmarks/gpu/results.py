"""What a measurement found: a table for people, all numbers as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.figures import RESULTS


@dataclass
class Results:
    """One subcommand's run. `table` are the rows as they are printed, `numbers` the same with all that was measured."""

    kind: str
    title: str
    columns: tuple[str, ...]
    run: Mapping[str, str]
    notes: list[str] = field(default_factory=list[str])
    table: list[list[str]] = field(default_factory=list[list[str]])
    numbers: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    failures: int = 0
    """Kernels that raised an error or gave a wrong result."""

    def start(self) -> None:
        """Prints the head of the table."""
        print(f"\n{self.title}\n{', '.join(f'{name} {value}' for name, value in self.run.items())}")
        print(table_line(self.columns, self.columns), flush=True)

    def add(self, cells: Sequence[str], numbers: Mapping[str, Any]) -> None:
        """Prints and keeps a row. `numbers` may hold dataclasses."""
        print(table_line(self.columns, cells), flush=True)
        self.table.append(list(cells))
        self.numbers.append(json.loads(json.dumps(numbers, default=asdict)))

    def note(self, text: str) -> None:
        """Says something aloud, once, and keeps it."""
        if text not in self.notes:
            self.notes.append(text)
            print(f"  {text}", flush=True)

    def save(self, directory: Path = RESULTS) -> Path:
        """Writes gpu-KIND.json in place of an earlier one. Gives the path."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"gpu-{self.kind}.json"
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        return path

    @staticmethod
    def load(path: Path) -> Results:
        """The inverse of `save`."""
        stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        stored["columns"] = tuple(stored["columns"])
        return Results(**stored)


def table_line(columns: Sequence[str], cells: Sequence[str]) -> str:
    """Cells in columns: the first to the left, the rest to the right and at least as wide as their heads."""
    rest = [f"{cell:>{max(len(column), 8)}}" for column, cell in zip(columns[1:], cells[1:])]
    return "  ".join([f"{cells[0]:34}", *rest]).rstrip()


def microseconds(seconds: float) -> str:
    """A time in us, with three digits or more."""
    us = 1e6 * seconds
    return f"{us:.2f}" if us < 100 else f"{us:.1f}" if us < 1000 else f"{us:.0f}"


def verdict(met: bool) -> str:
    return "met" if met else "NOT MET"

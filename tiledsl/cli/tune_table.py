"""How searches go on, for people: a live table in a terminal, a line for each task elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TextIO

from tiledsl.autotune.searching.outcome import Outcome
from tiledsl.autotune.searching.task import Task

HEAD = ("task", "sizes", "predicted", "best", "gain", "plans", "state")


@dataclass
class Row:
    """One task."""

    task: Task
    plans: int = 0
    best: float | None = None
    gain: str = ""
    state: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        predicted = self.task.pick.predicted
        return (
            self.task.kernel, self.task.sizes, _time(predicted), _time(self.best), self.gain, str(self.plans),
            self.state,
        )  # fmt: skip


class Table:
    """Told by searches how they go on; a context in which it is shown."""

    def __init__(self, seconds: float, file: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`seconds`: how long the whole may take; `file`: where it is shown, default: standard output."""
        self._file = sys.stdout if file is None else file
        self._clock = clock
        self._seconds = seconds
        self._ends = clock() + seconds
        self._rows: dict[int, Row] = {}
        self._live: Any = None

    def __enter__(self) -> Table:
        self._ends = self._clock() + self._seconds
        if self._file.isatty():
            from rich.console import Console  # costs start-up time
            from rich.live import Live

            self._live = Live(console=Console(file=self._file), get_renderable=self._table, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def trying(self, task: Task, tried: int, best: float | None, what: str) -> None:
        """As `Listener.trying`."""
        row = self._rows.setdefault(id(task), Row(task))
        row.plans, row.best, row.state = tried, best, what.split(" ", 1)[0]

    def done(self, task: Task, outcome: Outcome) -> None:
        """As `Listener.done`."""
        row = self._rows.setdefault(id(task), Row(task))
        row.gain = f"{outcome.gain:.3f}"
        row.state = "known" if outcome.known else "done" if outcome.finished else "not finished"
        if self._live is None:
            print("  ".join(cell for cell in row.cells if cell), file=self._file, flush=True)

    def _table(self) -> Any:
        from rich.table import Table as RichTable

        left = max(0.0, self._ends - self._clock())
        table = RichTable(*HEAD, box=None, title=f"{left:.0f} s left", title_justify="left")
        for row in self._rows.values():
            table.add_row(*row.cells)
        return table


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1e6:.4g} us" if seconds < 1e-3 else f"{seconds * 1e3:.4g} ms"

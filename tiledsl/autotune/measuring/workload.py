"""What is run to measure plans: a program with its arguments, opened in the process that measures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tiledsl.autotune.measuring.runner import Checked


class Bench(Protocol):
    """A program in this process, with all that it is run on."""

    def prepare(self, *, others: bool = False) -> None:
        """Makes what plans are compared with, on the given arguments or on the `others`, as `confirm` does. It may take
        long, and plans are not to blame for it."""
        ...

    def check(self, plan: str, /) -> Checked:
        """As `Runner.check`; a plan that hangs or ends the process does so here."""
        ...

    def confirm(self, plan: str, /) -> Checked:
        """As `Runner.confirm`."""
        ...

    def ready(self, plans: Sequence[str], /) -> None:
        """Makes all ready that timing these plans takes, and times nothing: others may be doing the same."""
        ...

    def seconds(self, plan: str, /) -> float:
        """One sample: seconds of a call by a plan that is `ok`."""
        ...


class Workload(Protocol):
    """All that it takes to make a bench. It is pickled, and opened by another process."""

    def open(self) -> Bench:
        """Raises TileError where that cannot be done."""
        ...

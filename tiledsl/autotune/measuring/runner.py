"""What a search asks of whoever runs plans: whether they are right, and how long they take beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tiledsl.autotune.records.record import State

FINAL_PARTS = 4
"""Processes that finals are held in, one after the other. Where memory lies may favour a plan for as long as a process
lives: who wins has to win in each of them."""


@dataclass(frozen=True)
class Checked:
    """What became of a plan's code and results. `reason`: why it is not `ok`; `error`: the largest difference from the
    reference, as a part of the typical size; `checked`: on which inputs; `code`: digest of the code."""

    state: State
    reason: str = ""
    error: float | None = None
    checked: tuple[str, ...] = ()
    code: str = ""

    def and_then(self, later: Checked) -> Checked:
        """What is known of a plan after a later check of it."""
        errors = [error for error in (self.error, later.error) if error is not None]
        names = tuple(dict.fromkeys((*self.checked, *later.checked)))
        return Checked(later.state, later.reason, max(errors, default=None), names, later.code or self.code)


@dataclass(frozen=True)
class Failed:
    """A plan that did not survive being timed."""

    plan: str
    state: State
    reason: str


@dataclass(frozen=True)
class Rounds:
    """Seconds of a call, for each plan in each round; and who ended them early, if somebody did."""

    times: Sequence[tuple[float, ...]]
    failed: Failed | None = None


class Runner(Protocol):
    """Runs plans of one program, for one question. Of one thread."""

    @property
    def waited(self) -> float:
        """Seconds for which `check` has waited for compilers so far."""
        ...

    def begin(self) -> None:
        """Starts what takes a while to start, and does not wait for it."""
        ...

    def ahead(self, plans: Sequence[str], /) -> None:
        """Is told which plans will be checked soon."""
        ...

    def check(self, plan: str, /) -> Checked:
        """Compares what code by a plan gives with the reference, on the given arguments. Says what went wrong; raises
        nothing for it."""
        ...

    def confirm(self, plan: str, /) -> Checked:
        """The same on all other inputs, for a plan that is about to win."""
        ...

    def ready(self, plans: Sequence[str], /) -> None:
        """Is told which plans may be timed in the processes to come, the pick first. Does not wait for them."""
        ...

    def rounds(self, plans: Sequence[str], count: int, /) -> Rounds:
        """Times plans that are `ok` one after the other, in so many rounds; in every second one in reverse order."""
        ...

    def renew(self) -> None:
        """Has what comes be timed in another process: memory lies elsewhere there, which may favour another plan."""
        ...

    def close(self) -> None:
        """Ends what was started."""
        ...

"""What a search asks of whoever runs plans: whether they are right, and how long they take beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tiledsl.autotune.records.record import State


@dataclass(frozen=True)
class Checked:
    """What became of a plan's code and results. `reason`: why it is not `ok`; `error`: the largest difference from the
    reference, as a part of the typical size; `checked`: on which inputs; `code`: digest of the code."""

    state: State
    reason: str = ""
    error: float | None = None
    checked: tuple[str, ...] = ()
    code: str = ""


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

    def ahead(self, plans: Sequence[str], /) -> None:
        """Is told which plans will be checked soon."""
        ...

    def check(self, plan: str, /) -> Checked:
        """Compares what code by a plan gives with the reference. Says what went wrong; raises nothing for it."""
        ...

    def rounds(self, plans: Sequence[str], count: int, /) -> Rounds:
        """Times plans that are `ok` one after the other, in so many rounds; in every second one in reverse order."""
        ...

    def renew(self) -> None:
        """Has what comes be timed in a new process: memory lies elsewhere there, which may favour another plan."""
        ...

    def close(self) -> None:
        """Ends what was started."""
        ...

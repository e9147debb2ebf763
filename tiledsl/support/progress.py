"""Says that something takes long, and how far it is: what runs for some seconds only is not mentioned."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

_LOOK = 1.0
"""Seconds after which the rest can be told from what was done."""
_LONG = 10.0
"""Seconds that are worth mentioning; also between two messages."""


def to_stderr(text: str) -> None:
    """One line on standard error."""
    print(text, file=sys.stderr, flush=True)


class Progress:
    """Counts steps of about equal length. Silent unless they will take more than 10 seconds, by the first ones."""

    def __init__(
        self,
        what: str,
        total: int,
        say: Callable[[str], None] = to_stderr,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`what` is done in `total` steps; `say` takes lines for the user."""
        self._what = what
        self._total = total
        self._say = say
        self._clock = clock
        self._started = clock()
        self._next = self._started + _LOOK
        self._done = 0
        self._said = False

    def step(self) -> None:
        """One more step is done."""
        self._done += 1
        now = self._clock()
        if now < self._next or self._done >= self._total:
            return
        left = (now - self._started) / self._done * (self._total - self._done)
        if left > _LONG or self._said:
            self._said = True
            self._say(f"{self._what}: {self._done} of {self._total} done, about {left:.0f} s left")
            self._next = now + _LONG
        else:
            self._next = now + _LOOK

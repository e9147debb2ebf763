"""The processes on this machine that searches share, and what runs a workload with them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tiledsl.autotune.measuring.child import Children
from tiledsl.autotune.measuring.crew import Crew
from tiledsl.autotune.measuring.host import HostRunner
from tiledsl.autotune.measuring.runner import FINAL_PARTS
from tiledsl.autotune.measuring.workload import Workload

MOST_SHARED = 1 << 28
"""Bytes of arguments, above which there is one process at a time: each has them all."""


@dataclass
class Staff:
    """Those that compile, and those that measure: only the latter start with a GPU, which takes a second."""

    builders: Children = field(default_factory=Children)
    measurers: Children = field(default_factory=Children)

    def crew(self, workload: Workload, size: int, checkers: int = 1) -> Crew:
        """Who measures a workload with arguments of `size` bytes: one for the race, and one for each part of its
        finals; `checkers` of them check."""
        members = [HostRunner(workload, self.measurers)]
        if size <= MOST_SHARED:
            others = range(1, 1 + FINAL_PARTS)
            members += [HostRunner(workload, self.measurers, prepares=number < checkers) for number in others]
        return Crew(members, min(checkers, len(members)))

    def __enter__(self) -> Staff:
        return self

    def __exit__(self, *_: object) -> None:
        self.builders.close()
        self.measurers.close()

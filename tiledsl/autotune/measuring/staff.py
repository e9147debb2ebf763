"""The processes on this machine that searches share, and what runs a workload with them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tiledsl.autotune.measuring.child import Children
from tiledsl.autotune.measuring.crew import Crew
from tiledsl.autotune.measuring.host import HostRunner
from tiledsl.autotune.measuring.runner import FINAL_PARTS
from tiledsl.autotune.measuring.workload import Workload
from tiledsl.passes.machine import available_cores

GPU_CHECKERS = 4
"""Processes that check plans for a GPU at once: most of a check is copies, and the work of one core."""
MOST_SHARED = 1 << 28
"""Bytes of arguments, above which there is one process at a time: each has them all."""


@dataclass
class Staff:
    """Those that compile, those that measure on the CPU, and those that measure on a GPU: to start with one takes a
    second, and the cores are idle there while plans are timed, so that the reference may have several."""

    builders: Children = field(default_factory=Children)
    measurers: Children = field(default_factory=Children)
    with_gpu: Children = field(default_factory=lambda: Children(max(1, available_cores() // GPU_CHECKERS)))

    def crew(self, workload: Workload, size: int, *, on_gpu: bool = False) -> Crew:
        """Who measures a workload with arguments of `size` bytes: one for the race, and one for each part of its
        finals. On a GPU several of them check, and all start at once: there a process takes a second to start, and
        the cores have nothing else to do. On a CPU it takes a third of that, and most searches come to no finals."""
        hosts, checkers = (self.with_gpu, GPU_CHECKERS) if on_gpu else (self.measurers, 1)
        members = [HostRunner(workload, hosts)]
        if size <= MOST_SHARED:
            others = range(1, 1 + FINAL_PARTS)
            members += [HostRunner(workload, hosts, prepares=number < checkers) for number in others]
        return Crew(members, min(checkers, len(members)), at_once=on_gpu)

    def __enter__(self) -> Staff:
        return self

    def __exit__(self, *_: object) -> None:
        for children in (self.builders, self.measurers, self.with_gpu):
            children.close()

"""The processes on this machine that searches share, and what runs a workload with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tiledsl.autotune.measuring import with_device, worker
from tiledsl.autotune.measuring.child import Children
from tiledsl.autotune.measuring.crew import Crew
from tiledsl.autotune.measuring.host import HostRunner
from tiledsl.autotune.measuring.messages import Prepares
from tiledsl.autotune.measuring.workload import Bench, Workload
from tiledsl.passes.machine import available_cores

ON_CPU: tuple[Prepares, ...] = ("check", "nothing", "nothing", "nothing", "nothing")
ON_GPU: tuple[Prepares, ...] = ("check", "check", "time", "time", "confirm")
"""What the processes that measure make ready; the first one times the race, and the others hold a part of the finals
each. Two check plans for a GPU, each of which runs the reference first, by several cores: more of them take cores from
compilers, which checks are faster than."""
_HERE = __name__.rpartition(".")[0]
TO_BUILD = (f"{_HERE}.with_compiler", f"{_HERE}.with_parser")
"""What processes begin with that compile: they are forked from one that has it, and has started no driver."""
TO_MEASURE = (f"{_HERE}.cuda_device", f"{_HERE}.cuda_workload", f"{_HERE}.with_parser")
"""What those begin with that measure on a GPU: they import it themselves, while they begin to work with the device."""
MOST_SHARED = 1 << 28
"""Bytes of arguments, above which there is one process at a time: each has them all."""


@dataclass(frozen=True)
class WorkWithDevice:
    """Nothing but work with a device, which takes a while to begin in each process."""

    device: int

    def open(self) -> Bench:
        from tiledsl.autotune.measuring.cuda_device import CudaDevice  # the driver

        begun: Any = CudaDevice(self.device)
        return begun


@dataclass
class Staff:
    """Those that compile, those that measure on the CPU, and those that measure on a GPU: to start with one takes a
    second, and the cores are idle there while plans are timed, so that the reference may have several."""

    builders: Children = field(default_factory=lambda: Children(imports=TO_BUILD))
    measurers: Children = field(default_factory=Children)
    with_gpu: Children = field(default_factory=lambda: Children(max(1, available_cores() // len(ON_GPU))))

    def begin(self, device: int) -> None:
        """Starts those that measure on a GPU, and what those that compile come from; does not wait for it. A search
        has other things to do first."""
        script = str(Path(with_device.__file__).resolve())
        self.with_gpu.starts = (script, str(device), worker.__name__, *TO_MEASURE)
        self.builders.begin()
        self.with_gpu.ready(len(ON_GPU), WorkWithDevice(device))

    def crew(self, workload: Workload, size: int, *, on_gpu: bool = False) -> Crew:
        """Who measures a workload with arguments of `size` bytes: one for the race, and one for each part of its
        finals. On a GPU several of them check, and all start at once: there a process takes a second to start, and
        the cores have nothing else to do. On a CPU it takes a third of that, and most searches come to no finals."""
        hosts, roles = (self.with_gpu, ON_GPU) if on_gpu else (self.measurers, ON_CPU)
        if size > MOST_SHARED:
            roles = roles[:1]
        members = [HostRunner(workload, hosts, prepares=role) for role in roles]
        return Crew(members, roles.count("check"), at_once=on_gpu)

    def __enter__(self) -> Staff:
        return self

    def __exit__(self, *_: object) -> None:
        for children in (self.builders, self.measurers, self.with_gpu):
            children.close()

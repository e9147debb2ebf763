"""Profiles: how long each kernel took, beside the least that it could take, and what that limit is.

Times are measured, floors are those of audits. On a GPU the start of a launch is in neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tiledsl.api.reports.text_tables import columns, paragraph, size
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.passes.machine import CpuMachine
from tiledsl.passes.nest.kernel_audit import KernelAudit

HEAD = (
    "kernel",
    "runs",
    "time",
    "share",
    "one run",
    "floor",
    "of the floor",
    "limit",
    "must move",
    "bytes/s",
    "mul-adds/s",
)


@dataclass(frozen=True)
class Floor:
    """The least seconds that a launch could take; `limit`: what takes them, `memory`, `products` or `launch`."""

    seconds: float
    limit: str
    must_bytes: float
    multiply_adds: float | None = None
    predicted: float | None = None
    """Seconds that the model expects of the plan."""


@dataclass(frozen=True)
class ProfiledKernel:
    """A kernel with all its runs in a call. `seconds`: of one run, the median; where runs differ, their mean."""

    name: str
    source: str
    runs: int
    seconds: float
    samples: int
    floor: Floor

    @property
    def total(self) -> float:
        """Seconds of all runs."""
        return self.runs * self.seconds


@dataclass(frozen=True)
class Profile:
    """All kernels of something, those that take most time first. `str()` is a table; `data()` is for scripts."""

    name: str
    arch: str
    machine: str
    kernels: tuple[ProfiledKernel, ...]
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Of all launches of a call."""
        return sum(kernel.total for kernel in self.kernels)

    @property
    def floor(self) -> float:
        """The sum of the floors of all launches."""
        return sum(kernel.runs * kernel.floor.seconds for kernel in self.kernels)

    def __str__(self) -> str:
        rows = [HEAD, *(_row(kernel, self.seconds) for kernel in self.kernels)]
        lines = [f"{self.name} on {self.machine}", *columns(rows)]
        runs = sum(kernel.runs for kernel in self.kernels)
        if runs > 1:
            together = f"{runs} launches take {_time(self.seconds)}; their floors are {_time(self.floor)}, "
            lines.append(f"  {together}{self.floor / self.seconds:.0%} of that")
        for note in self.notes:
            lines += paragraph(note, 2, 4)
        return "\n".join(lines)

    def data(self) -> dict[str, Any]:
        """The same for scripts: seconds and bytes."""
        kernels = [
            {
                "name": kernel.name, "source": kernel.source or None, "runs": kernel.runs, "seconds": kernel.seconds,
                "samples": kernel.samples, "floor": kernel.floor.seconds, "limit": kernel.floor.limit,
                "must_bytes": kernel.floor.must_bytes, "multiply_adds": kernel.floor.multiply_adds,
                "predicted": kernel.floor.predicted,
            }
            for kernel in self.kernels
        ]  # fmt: skip
        return {
            "name": self.name, "arch": self.arch, "machine": self.machine, "seconds": self.seconds, "floor": self.floor,
            "kernels": kernels, "notes": list(self.notes),
        }  # fmt: skip


def floor_of(audit: KernelAudit, machine: GpuMachine | CpuMachine) -> Floor:
    """The floor of an audit, without the start of a launch on a GPU."""
    moving = audit.must_bytes / machine.copied_bytes_per_second
    return _floor(moving, audit.products_floor, machine, audit.must_bytes, audit.multiply_adds, audit.predicted)


def floor_of_bytes(count: int, machine: GpuMachine | CpuMachine) -> Floor:
    """That of what moves so many bytes, and computes whatever it does."""
    return _floor(count / machine.copied_bytes_per_second, 0.0, machine, count)


def _floor(
    moving: float,
    products: float,
    machine: GpuMachine | CpuMachine,
    must_bytes: float,
    multiply_adds: float | None = None,
    predicted: float | None = None,
) -> Floor:
    work, launch = max(moving, products), machine.speeds.launch if isinstance(machine, CpuMachine) else 0.0
    limit = "launch" if launch > work else "products" if products > moving else "memory"
    return Floor(launch + work, limit, must_bytes, multiply_adds, predicted)


def note_of(machine: GpuMachine | CpuMachine) -> str:
    """What floors and times on a machine stand for."""
    if isinstance(machine, CpuMachine):
        return (
            f"floors are for {machine.cores} cores, each with one vector multiply-add in a cycle at "
            f"{machine.speeds.clock / 1e9:.2g} GHz, and memory that was not measured: more than 100% means that the "
            "machine is faster than that. Times are by the wall, so what else runs here is in them"
        )
    stated = "were measured" if machine.speeds.measured else "are as its maker states"
    return f"speeds behind the floors {stated}; launches are timed in a row, without their start, caches warm"


def _row(kernel: ProfiledKernel, every: float) -> tuple[str, ...]:
    floor = kernel.floor
    return (
        kernel.name, str(kernel.runs), _time(kernel.total), f"{kernel.total / every:.0%}", _time(kernel.seconds),
        _time(floor.seconds), f"{floor.seconds / kernel.seconds:.0%}", floor.limit, size(floor.must_bytes),
        f"{size(floor.must_bytes / kernel.seconds)}/s", _rate(floor.multiply_adds, kernel.seconds),
    )  # fmt: skip


def _rate(multiply_adds: float | None, seconds: float) -> str:
    return f"{multiply_adds / seconds:.2g}" if multiply_adds else ""


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"

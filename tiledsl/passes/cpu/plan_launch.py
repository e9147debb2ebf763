"""What a launch of a program on a CPU does: blocks, programs and threads of each grid, and how long that should take.

    gemm 1000^3 in f32 on 2 cores     m=336 n=512 k=256: 6 programs on 2 threads, 21 ms, of which products 93%

A call plans its launch from work that was kept beside the code (`grid_work.py`), an audit
from the work of programs that are not compiled yet: both by the same blocks and cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tiledsl.passes.cpu.choose_blocks import launch_blocks
from tiledsl.passes.cpu.cpu_cost import CpuTimes, cpu_times
from tiledsl.passes.cpu.cpu_plan import CpuPlan
from tiledsl.passes.cpu.grid_work import GridWork, grid_programs
from tiledsl.passes.machine import CpuMachine

WORTH_A_THREAD = 60_000.0
"""Cycles of the cost model below which a second thread costs more than it helps."""


@dataclass(frozen=True)
class CpuLaunch:
    """What was chosen for one set of sizes. `blocks`: by symbol, of all grids; `programs` and `threads`: of each one.
    `times`: cycles that the busiest thread of each spends, all grids together."""

    blocks: Mapping[str, int]
    programs: tuple[int, ...]
    threads: tuple[int, ...]
    times: CpuTimes
    clock: float
    """Cycles per second."""

    def __str__(self) -> str:
        blocks = ", ".join(f"{name}={block}" for name, block in self.blocks.items())
        threads = max(self.threads, default=1)
        return f"{blocks}{', ' * bool(blocks)}{threads} thread{'s' * (threads != 1)}"

    @property
    def plan(self) -> CpuPlan:
        """What was chosen, without what follows from it."""
        return CpuPlan(tuple(self.blocks.items()), self.threads)

    @property
    def seconds(self) -> float:
        """Predicted, from the first program to the last; the clock is a guess."""
        return self.times.cycles / self.clock


def plan_launch(
    works: Sequence[GridWork | None], machine: CpuMachine, sizes: Mapping[str, int], threads: int
) -> CpuLaunch:
    """The launch of a program whose grids have that work; None is what runs once. `sizes` has every size symbol."""
    blocks: dict[str, int] = {}
    for work in works:
        if work is not None:
            blocks.update(launch_blocks(work, machine, sizes, threads))
    programs = _programs(works, sizes, blocks)
    times = _times(works, machine, sizes, blocks, [threads] * len(works))
    alone = _times(works, machine, sizes, blocks, [1] * len(works))
    counts = tuple(
        1
        if number * single.cycles <= -(-number // threads) * time.cycles
        else max(1, min(threads, number, int(number * time.cycles / WORTH_A_THREAD)))
        for number, time, single in zip(programs, times, alone)
    )
    times = [single if count == 1 else time for count, time, single in zip(counts, times, alone)]
    return CpuLaunch(blocks, programs, counts, _busy(programs, counts, times), machine.speeds.clock)


def launch_by(
    plan: CpuPlan, works: Sequence[GridWork | None], machine: CpuMachine, sizes: Mapping[str, int]
) -> CpuLaunch:
    """The launch that a plan asks for, which the program can be run by (`why_no_plan`)."""
    blocks = dict(plan.blocks)
    programs = _programs(works, sizes, blocks)
    counts = tuple(max(1, min(count, number)) for count, number in zip(plan.threads, programs))
    busy = _busy(programs, counts, _times(works, machine, sizes, blocks, counts))
    return CpuLaunch(blocks, programs, counts, busy, machine.speeds.clock)


def _programs(works: Sequence[GridWork | None], sizes: Mapping[str, int], blocks: Mapping[str, int]) -> tuple[int, ...]:
    """Of each grid."""
    return tuple(1 if work is None else grid_programs(work, sizes, blocks) for work in works)


def _times(
    works: Sequence[GridWork | None],
    machine: CpuMachine,
    sizes: Mapping[str, int],
    blocks: Mapping[str, int],
    counts: Sequence[int],
) -> list[CpuTimes]:
    """Of one program of each grid, which so many threads run: updates are dearer for several."""
    return [
        CpuTimes() if work is None else cpu_times(work, machine, sizes, blocks, alone=count == 1)
        for work, count in zip(works, counts)
    ]


def _busy(programs: Sequence[int], counts: Sequence[int], times: Sequence[CpuTimes]) -> CpuTimes:
    """Of the busiest thread of each grid, all grids together."""
    rounds = [-(-number // count) for number, count in zip(programs, counts)]
    return CpuTimes(*(sum(r * t for r, t in zip(rounds, of_grids)) for of_grids in zip(*times)))

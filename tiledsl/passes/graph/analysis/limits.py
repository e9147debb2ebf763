"""What one kernel of a target can hold at once, and how many programs it runs, as fusion has to know it."""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.machine import CpuMachine
from tiledsl.support.location import BUILTIN


@dataclass(frozen=True)
class Limits:
    """In elements. `columns`: of a product's row that is folded; `head`: what two products in a row have whole; `row`:
    what one program has of a tensor along all axes that it has whole, where there is no product; `across`: the same of
    axes across memory, which are streamed beyond that if they can be.
    """

    columns: int
    head: int
    row: int
    across: int


CPU_LIMITS = Limits(columns=16384, head=1024, row=1 << 22, across=1 << 22)
GPU_LIMITS = Limits(columns=1024, head=640, row=1 << 18, across=1 << 10)


def limits_of(arch: str) -> Limits:
    """The limits of `cpu`, `reference` or a GPU architecture."""
    return GPU_LIMITS if arch.startswith("sm_") else CPU_LIMITS


def busy_programs(arch: str, host: CpuMachine) -> int:
    """How many programs keep all of a target busy, `host` if it is no GPU architecture."""
    return gpu_machine(arch, BUILTIN).multiprocessors if arch.startswith("sm_") else host.cores

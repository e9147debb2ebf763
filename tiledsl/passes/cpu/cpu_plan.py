"""What is chosen for one launch on a CPU, as data and as text: `m=256, n=512, k=256, 2/1 threads`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tiledsl.passes.cpu.grid_work import Axis, GridWork

_BLOCK = re.compile(r"([^\s=]+)=(\d+)")
_THREADS = re.compile(r"(\d+(?:/\d+)*) threads?")


@dataclass(frozen=True)
class CpuPlan:
    """`blocks`: by symbol, of all grids of the program; `threads`: of each grid, and of what runs once."""

    blocks: tuple[tuple[str, int], ...]
    threads: tuple[int, ...]

    def with_block(self, name: str, size: int) -> CpuPlan:
        """The plan with another size of the blocks of an axis."""
        return replace(self, blocks=tuple((known, size if known == name else old) for known, old in self.blocks))

    def __str__(self) -> str:
        """`parse_cpu_plan` reads it."""
        words = [f"{name}={size}" for name, size in self.blocks]
        return ", ".join([*words, "/".join(map(str, self.threads)) + " threads"])


def parse_cpu_plan(text: str) -> CpuPlan:
    """The plan of which `text` is the text form. Raises ValueError, with the word that is none of a plan's."""
    blocks: dict[str, int] = {}
    threads: tuple[int, ...] = ()
    for word in (part.strip() for part in text.split(",")):
        if match := _THREADS.fullmatch(word):
            threads = tuple(map(int, match[1].split("/")))
        elif match := _BLOCK.fullmatch(word):
            blocks[match[1]] = int(match[2])
        else:
            raise ValueError(f"`{word}` is nothing that a plan for a CPU says")
    return CpuPlan(tuple(blocks.items()), threads)


def why_no_plan(plan: CpuPlan, works: Sequence[GridWork | None], threads: int) -> str | None:
    """Why code with these grids cannot run by a plan, on at most so many threads; None if it can."""
    blocks, axes = dict(plan.blocks), {axis.symbol: axis for axis in every_axis(works)}
    if blocks.keys() != axes.keys():
        wanted, given = (", ".join(sorted(names)) or "none" for names in (axes, blocks))
        return f"the program has blocks of {wanted}, and the plan of {given}"
    for name, size in blocks.items():
        axis = axes[name]
        if axis.kind == "fixed" and size != axis.limit:
            return f"`{name}={size}`: the program says {axis.limit}"
        if not 1 <= size <= axis.limit or (size % axis.unit and size != axis.limit):
            return f"`{name}={size}` is no multiple of {axis.unit} up to {axis.limit}"
    if len(plan.threads) != len(works):
        return f"the program has {len(works)} grids, and the plan threads of {len(plan.threads)}"
    if not all(1 <= count <= threads for count in plan.threads):
        return f"there are {threads} threads, and the plan has {max(plan.threads)}"
    return None


def every_axis(works: Sequence[GridWork | None]) -> Iterator[Axis]:
    """The axes whose blocks a launch chooses, or is given: those of grids and of the loops inside."""
    for work in works:
        if work is not None:
            yield from (*work.axes, *work.loops)

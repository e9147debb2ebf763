"""What decisions of a plan with specialised warps know and share: the grid, the machine, what the program asks for, and
what was refused. `decisions.py` has the decisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tiledsl.passes.gpu.plans.product_plans.product_nest import ProductNest
from tiledsl.passes.gpu.plans.product_plans.tilings import Tiling
from tiledsl.passes.gpu_machine import GpuMachine


@dataclass(frozen=True)
class Families:
    """The kinds of tilings that there is a lowering for, beside cooperative ones."""

    pingpong: bool = False
    splits: bool = False
    resident: bool = False


MADE = Families(pingpong=True, resident=True)
"""What calls get. Shared loops are not among it: as they were measured last, they took longer than others."""
EVERY = Families(pingpong=True, splits=True, resident=True)


class Contract(NamedTuple):
    """What the program says: sizes of blocks (`rows` those of a cluster), stages. None: to be chosen."""

    rows: int | None = None
    columns: int | None = None
    depth: int | None = None
    stages: int | None = None


OPEN = Contract()
"""Everything is to be chosen."""


class Refusal(NamedTuple):
    """A tiling as far as it was decided, and why there is none like it."""

    tiling: Tiling
    reason: str


@dataclass
class Search:
    """What decisions know. `refused` lists what was refused, if anybody asks for it."""

    nest: ProductNest
    machine: GpuMachine
    contract: Contract = OPEN
    families: Families = MADE
    refused: list[Refusal] | None = field(default=None)

    def refuse(self, tiling: Tiling, reason: str) -> None:
        """Notes why a tiling is left out."""
        if self.refused is not None:
            self.refused.append(Refusal(tiling, reason))

    def tilings(self, decisions: Sequence[Decision]) -> Iterator[Tiling]:
        """All that fit the machine, and may make sense for the sizes, by decisions in their order."""
        return self._decided(decisions, Tiling(0, 0, 0))

    def _decided(self, decisions: Sequence[Decision], tiling: Tiling) -> Iterator[Tiling]:
        if not decisions:
            yield tiling
            return
        for option in decisions[0].options(self, tiling):
            yield from self._decided(decisions[1:], option)


class Decision(Protocol):
    """One choice of a plan."""

    @property
    def name(self) -> str:
        """In a word."""
        ...

    def options(self, search: Search, tiling: Tiling) -> Iterator[Tiling]:
        """The tiling with each option that is left."""
        ...


def programs_of(machine: GpuMachine, tiling: Tiling) -> int:
    """How many clusters of a tiling there can be at once."""
    usable = machine.multiprocessors if tiling.across == 1 else machine.multiprocessors_in_clusters(tiling.across)
    return usable * tiling.resident // tiling.cluster

"""What a search is of: one question about one program, with the plans to try."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tiledsl.autotune.candidates.candidate import Candidate
from tiledsl.autotune.candidates.evolve import Breeder
from tiledsl.autotune.records.record import Trial
from tiledsl.runtime.programs.plan_source import PlanQuestion


@dataclass(frozen=True)
class Task:
    """`text`: the program's TILE text, for people; `candidates` gives at most so many plans beside the pick, by the
    winners of searches for other sizes, nearest first. `floor`: seconds that no code could be below, if that is known.
    """

    kernel: str
    question: PlanQuestion
    text: str
    pick: Candidate
    candidates: Callable[[Sequence[str], int], Sequence[Candidate]]
    floor: float | None = None
    breeder: Callable[[Sequence[tuple[PlanQuestion, Sequence[Trial]]]], Breeder] | None = None
    """Breeds more plans from those that were timed, by what was tried for other sizes; None where there are no more."""

    @property
    def sizes(self) -> str:
        """`M=64, N=32`."""
        return ", ".join(f"{name}={size}" for name, size in self.question.sizes)


@dataclass(frozen=True)
class Budget:
    """How long a search may take, and how many plans it may measure beside the model's pick."""

    seconds: float = 30.0
    trials: int = 20

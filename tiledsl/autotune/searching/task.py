"""What a search is of: one question about one program, with the plans to try."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tiledsl.autotune.candidates.candidate import Candidate
from tiledsl.autotune.candidates.evolve import Breeder
from tiledsl.autotune.records.record import Trial
from tiledsl.runtime.programs.plan_source import PlanQuestion


@dataclass(frozen=True)
class Task:
    """`text`: the program's TILE text, for people; `plan`: the model's pick; `candidates` gives at most so many plans
    beside it, by the winners of searches for other sizes, nearest first. `predicted`: the pick's seconds by the model.
    `floor`: seconds that no code could be below, if that is known.
    """

    kernel: str
    question: PlanQuestion
    text: str
    plan: str
    candidates: Callable[[Sequence[str], int], Sequence[Candidate]]
    predicted: Callable[[], float | None] = lambda: None
    floor: float | None = None
    breeder: Callable[[Sequence[tuple[PlanQuestion, Sequence[Trial]]]], Breeder] | None = None
    """Breeds more plans from those that were timed, by what was tried for other sizes; None where there are no more."""
    generations: int = 3
    """How often: where plans have to be compiled, each time is one of waiting."""
    libraries: str = ""
    """The library whose calls are among the candidates, with its version; empty: there are none among them."""

    @cached_property
    def pick(self) -> Candidate:
        """The model's pick. Who only asks whether the answer is known needs no more than `plan`."""
        return Candidate(self.plan, self.predicted(), "the model's pick")

    @property
    def sizes(self) -> str:
        """`M=64, N=32`."""
        return ", ".join(f"{name}={size}" for name, size in self.question.sizes)


@dataclass(frozen=True)
class Budget:
    """How long a search may take, and how many plans it may measure beside the model's pick."""

    seconds: float = 30.0
    trials: int = 20

"""Where plans come from: what a back end asks before it plans by itself, and who may answer.

A plan source is handed down to whatever binds programs to sizes. The model is no source: it is what is asked when
there is none, or when the source has no answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from tiledsl.runtime.programs.program import AnyLoadedProgram, Program

Numbers = tuple[int, ...]


@dataclass(frozen=True)
class PlanQuestion:
    """All that may change which plan is best. Two questions with equal fields have one answer.

    `program`: a digest; `target`: `cpu`, or a GPU's architecture; `device`: the machine in words, empty where code is
    made for a GPU that is not there. `sizes`: by symbol, in the order of their names. `strides`, in elements, of each
    tensor on a CPU; `alignment` and `lying` of each on a GPU, as `Plan` has them. `threads`: on a CPU.
    """

    program: str
    target: str
    device: str
    sizes: tuple[tuple[str, int], ...]
    strides: tuple[Numbers, ...] = ()
    alignment: Numbers = ()
    lying: Numbers = ()
    threads: int = 0


GROUPING = "grouping "
"""How the program of a question begins that is about a near tie of groups (`passes/graph/groups/ties.py`), before what
the tie is known by. Its plans are these two; it has no sizes, since those of a graph are numbers."""
TOGETHER, APART = "one kernel", "kernels apart"


@dataclass(frozen=True)
class Answer:
    """A plan as text. `code`: the digest of the code that was measured by it; empty: any will do. `origin`: where the
    plan comes from, in words for reports."""

    plan: str
    code: str = ""
    origin: str = field(default="", compare=False)


def sizes_in_order(sizes: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Sizes as questions have them."""
    return tuple(sorted(sizes.items()))


class PlanSource(Protocol):
    """Answers questions. Threads may share it."""

    def plan_for(self, question: PlanQuestion, /) -> Answer | None:
        """The plan to take; None: the model is to plan."""
        ...

    def refused(self, question: PlanQuestion, answer: Answer, reason: str, /, *, expected: bool = False) -> None:
        """Is told that its answer was not used, and why. `expected`: as where a library is not on this machine, which
        is nothing to warn of."""
        ...

    def mark(self) -> str:
        """Changes whenever an answer may change, so that answers may be kept under it; empty: they may not be kept.
        Must be cheap: every build asks for it."""
        ...

    def devices(self, target: str, /) -> Sequence[str]:
        """The devices that it has plans for, of those that run code for `target`, in words."""
        ...

    def groupings(self, target: str, device: str, /) -> Mapping[str, bool]:
        """What was measured there against the model's decision: whether ops are one kernel, by near tie."""
        ...


@dataclass(frozen=True)
class PlansFor:
    """A source of plans as one build asks it. `device`: where the module will run, in words, or empty where that is
    not known; `mark`: that of the source."""

    source: PlanSource
    device: str = ""
    mark: str = ""


@runtime_checkable
class AsksForPlans(Protocol):
    """A program whose plans may come from outside."""

    def load_with(self, plans: PlanSource, /) -> AnyLoadedProgram:
        """As `Program.load`; what it binds asks `plans` first."""
        ...


ACTIVE_PLANS: ContextVar[PlanSource | None] = ContextVar("tiledsl_plans", default=None)
"""What the calls of this thread (or task) ask, instead of the default."""


def loaded_program(program: Program, plans: PlanSource | None) -> Any:
    """The program in this process, asking `plans` if there is a source and if it asks at all."""
    if plans is not None and isinstance(program, AsksForPlans):
        return program.load_with(plans)
    return program.load()

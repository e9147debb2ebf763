"""Plans for a GPU: those that the model ranks, the best of each family, what is near the pick, winners elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from tiledsl.autotune.candidates.candidate import NEAR, Candidate, different, in_turns
from tiledsl.autotune.candidates.rules import Facts, plans_by_rules
from tiledsl.backend_cuda.program import CudaProgram
from tiledsl.passes.gpu.plan import Plan, RankedPlan, parse_plan, why_no_plan
from tiledsl.passes.gpu.plans.choose_plans import ranked_plans
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.runtime.programs.plan_source import PlanQuestion

MOST_SPECIALISED = 24
"""Plans with specialised warps that are looked at, for each grid."""


class CudaSpace:
    """The plans that there are for one question about a program."""

    def __init__(self, program: CudaProgram, question: PlanQuestion) -> None:
        self._program = program
        self._question = question
        self.sizes = dict(question.sizes)

    @cached_property
    def _ranked(self) -> dict[str, RankedPlan]:
        question, machine = self._question, gpu_machine(self._program.arch)
        ranked = ranked_plans(
            self._program.module.entry, machine, self.sizes, question.alignment, MOST_SPECIALISED, question.lying
        )  # fmt: skip
        return {str(one.plan): one for one in ranked}

    @cached_property
    def plan(self) -> str:
        """What a call takes: the model's best plan that passes the gate. Compiles it; nothing is ranked where the disk
        knows it."""
        question = self._question
        return str(self._program.picked(self.sizes, question.alignment, question.lying).plan)

    @property
    def predicted(self) -> float | None:
        """Seconds of that plan by the model."""
        found = self._ranked.get(self.plan)
        return None if found is None else found.seconds

    @property
    def pick(self) -> Candidate:
        """That plan with its prediction."""
        return Candidate(self.plan, self.predicted, "the model's pick")

    @property
    def seconds(self) -> dict[str, float]:
        """What the model predicts, of each plan that it predicts something for."""
        return {plan: one.seconds for plan, one in self._ranked.items() if one.seconds}

    @property
    def facts(self) -> Facts:
        """What rules are told."""
        return Facts(self.sizes, alignment=self._question.alignment)

    def ranked(self) -> list[Candidate]:
        """All plans, the best by the model first."""
        return [Candidate(text, one.seconds, "ranked by the model") for text, one in self._ranked.items()]

    def families(self) -> list[Candidate]:
        """The best plan of each family: plans of one go about a grid in the same way."""
        best: dict[object, Candidate] = {}
        for text, one in self._ranked.items():
            best.setdefault(family_of(one.plan), Candidate(text, one.seconds, "the best of its family"))
        return list(best.values())

    def is_legal(self, plan: str) -> bool:
        """Whether code by a plan would be right for the question."""
        try:
            return why_no_plan(parse_plan(plan), self.sizes, self._question.alignment) is None
        except ValueError:
            return False


def neighbours(plan: Plan, sizes: Mapping[str, int]) -> list[Candidate]:
    """Plans that differ from one by a single decision, twice or half as large, where warps all do the same.

    Whether they are any good is for compilers, and for the measurement, to find: some of them are refused.
    """
    found: list[tuple[str, Plan]] = []
    for number, (name, size) in enumerate(plan.blocks):
        for other in (2 * size, size // 2):
            if other:
                blocks = (*plan.blocks[:number], (name, other), *plan.blocks[number + 1 :])
                found.append((name, replace(plan, blocks=blocks)))
    for number, grid in enumerate(plan.grids):
        if grid.roles:
            continue
        changes = [("threads", threads) for threads in (2 * grid.threads, grid.threads // 2) if 32 <= threads <= 1024]
        changes += [("row_threads", count) for count in (2 * grid.row_threads, grid.row_threads // 2) if count]
        changes += [("stages", stages) for stages in (grid.stages + 1, grid.stages - 1) if stages > 1 < grid.stages]
        for name, value in changes:
            grids = (*plan.grids[:number], replace(grid, **{name: value}), *plan.grids[number + 1 :])
            found.append((name.replace("_", " "), replace(plan, grids=grids)))
    return [
        Candidate(str(with_true_divisors(other, sizes)), None, f"another choice of {name}")
        for name, other in found
        if not any(grid.roles for grid in other.grids)
    ]


def with_true_divisors(plan: Plan, sizes: Mapping[str, int]) -> Plan:
    """The plan without what it promises of sizes that they do not keep: that they are multiples of its blocks."""
    return replace(plan, divisors=tuple((name, by) for name, by in plan.divisors if sizes.get(name, 1) % by == 0))


def family_of(plan: Plan) -> object:
    """Equal for plans that differ in numbers alone."""
    grids = [
        (
            one.roles,
            one.swapped,
            one.split,
            one.flat,
            one.counted,
            one.splits > 1,
            one.stages > 1,
            one.programs > 0,
            one.cluster > 1,
        )
        for one in plan.grids
    ]
    return tuple(grids), bool(plan.parts), bool(plan.turned), plan.forwarded


def cuda_candidates(
    space: CudaSpace,
    winners: Sequence[str],
    most: int,
    libraries: Callable[[], Sequence[Candidate]] = tuple,
) -> list[Candidate]:
    """At most so many plans beside the pick. `winners`: of searches for other sizes of the program, nearest first;
    `libraries`: gives calls of libraries, if they are to be tried."""
    pick, limit = space.plan, NEAR * (space.predicted or math.inf)
    ranked = space.ranked()
    near = [one for one in ranked if one.predicted is not None and one.predicted <= limit]
    seeds = [Candidate(plan, None, "the winner at other sizes") for plan in winners if space.is_legal(plan)]
    around = neighbours(parse_plan(pick), space.sizes)
    ruled = [
        Candidate(str(other), None, f"by rule {name}")
        for name, other in plans_by_rules("cuda", parse_plan(pick), space.facts)
    ]
    groups = [different(group) for group in (libraries(), seeds, ruled, near, space.families(), around, ranked)]
    return [one for one in in_turns(groups, most + 1) if one.plan != pick][:most]

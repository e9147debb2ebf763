"""Plans for a CPU: the model's pick, what is near it by the model, and its neighbours by single decisions.

The decisions of a launch are the size of each block and the threads of each grid. One piece of code serves them all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product

from tiledsl.autotune.candidates.candidate import NEAR, Candidate, different, in_turns
from tiledsl.autotune.candidates.residual import Sample
from tiledsl.autotune.candidates.rules import Facts, plans_by_rules
from tiledsl.autotune.records.record import Trial
from tiledsl.backend_cpu.calls.program import CpuProgram
from tiledsl.passes.cpu.choose_blocks import launch_candidates
from tiledsl.passes.cpu.cpu_plan import CpuPlan, every_axis, parse_cpu_plan, why_no_plan
from tiledsl.passes.cpu.grid_work import Axis, axis_length
from tiledsl.passes.cpu.plan_launch import CpuLaunch, launch_by, plan_launch
from tiledsl.runtime.programs.plan_source import PlanQuestion

MOST_CROSSED = 200
"""Mixtures of two plans that are looked at."""
MOST_PREDICTED = 2000
"""Plans whose times are predicted, 20 us each."""


class CpuSpace:
    """The plans that there are for one question about a program."""

    def __init__(self, program: CpuProgram, question: PlanQuestion) -> None:
        self._program = program
        self._sizes = dict(question.sizes)
        self._threads = question.threads
        self.axes: Mapping[str, Axis] = {axis.symbol: axis for axis in every_axis(program.works)}

    @property
    def pick(self) -> Candidate:
        """What the model chooses."""
        launch = plan_launch(self._program.works, self._program.machine, self._sizes, self._threads)
        return Candidate(str(launch.plan), self._program.machine.speeds.launch + launch.seconds, "the model's pick")

    def candidate(self, plan: CpuPlan, why: str) -> Candidate:
        """A plan with its prediction."""
        launch = self.launch(plan)
        return Candidate(str(launch.plan), self._program.machine.speeds.launch + launch.seconds, why)

    def launch(self, plan: CpuPlan) -> CpuLaunch:
        """What a legal plan comes to."""
        return launch_by(plan, self._program.works, self._program.machine, self._sizes)

    def text(self, plan: CpuPlan) -> str:
        """A legal plan, with no more threads than there are programs."""
        return str(self.launch(plan).plan)

    @property
    def facts(self) -> Facts:
        """What rules are told."""
        return Facts(self._sizes, self.axes, self._threads)

    def is_legal(self, plan: CpuPlan) -> bool:
        return why_no_plan(plan, self._program.works, self._threads) is None

    def sizes_of(self, name: str) -> list[int]:
        """Block sizes worth trying for an axis: those that leave blocks equally long, and powers of two of its unit."""
        axis = self.axes[name]
        if axis.kind == "fixed":
            return [axis.limit]
        length = max(1, axis_length(axis, self._sizes))
        whole = min(axis.limit, -(-length // axis.unit) * axis.unit)
        steps = [axis.unit << power for power in range(math.ceil(math.log2(max(1, whole // axis.unit))) + 1)]
        found = {
            *launch_candidates(axis, self._sizes, self._threads),
            *(size for size in steps if size <= whole),
            whole,
        }
        return sorted(found, reverse=True)

    def changes(self, plan: CpuPlan) -> Iterator[tuple[str, CpuPlan]]:
        """Plans that differ from one by the next larger or smaller choice of a single decision, and by which."""
        blocks = dict(plan.blocks)
        for name, size in blocks.items():
            options = sorted({*self.sizes_of(name), size})
            at = options.index(size)
            for other in options[max(0, at - 1) : at] + options[at + 1 : at + 2]:
                yield name, replace(plan, blocks=tuple({**blocks, name: other}.items()))
        for grid, count in enumerate(plan.threads):
            for other in sorted({1, self._threads} - {count}):
                threads = tuple(other if number == grid else old for number, old in enumerate(plan.threads))
                yield "threads", replace(plan, threads=threads)

    def near(self, plan: CpuPlan) -> list[Candidate]:
        """All combinations of blocks as far as there are not too many, the best by the model first."""
        options = {name: self.sizes_of(name) for name in self.axes}
        while math.prod(map(len, options.values())) > MOST_PREDICTED:  # every second size of whoever has most
            longest = max(options, key=lambda name: len(options[name]))
            options[longest] = options[longest][::2]
        found = [
            self.candidate(replace(plan, blocks=tuple(zip(options, choice))), "near by the model")
            for choice in product(*options.values())
        ]
        return sorted(found, key=lambda one: one.predicted or 0.0)


class BredCpuPlans:
    """The space as a breeder sees it."""

    def __init__(self, space: CpuSpace) -> None:
        self._space = space

    def mutated(self, plan: str) -> Iterator[str]:
        """As `BredSpace.mutated`."""
        for _, other in self._space.changes(parse_cpu_plan(plan)):
            yield self._space.text(other)

    def crossed(self, one: str, other: str) -> Iterator[str]:
        """As `BredSpace.crossed`: the blocks of each axis, and the threads, from either."""
        first, second = parse_cpu_plan(one), parse_cpu_plan(other)
        sizes = dict(second.blocks)
        choices = [sorted({(name, size), (name, sizes[name])}) for name, size in first.blocks]
        threads = sorted({first.threads, second.threads})
        for blocks, count in islice(product(product(*choices), threads), MOST_CROSSED):
            yield self._space.text(CpuPlan(blocks, count))

    def predicted(self, plan: str) -> float:
        """As `BredSpace.predicted`."""
        return self._space.candidate(parse_cpu_plan(plan), "").predicted or 0.0

    def terms(self, plan: str) -> tuple[float, ...]:
        """The logarithms of its blocks, and the shares of the model's time."""
        parsed = parse_cpu_plan(plan)
        launch = self._space.launch(parsed)
        blocks = [math.log2(size) for _, size in parsed.blocks]
        return (*blocks, *(time / max(launch.times.cycles, 1.0) for time in launch.times))


def cpu_samples(
    program: CpuProgram, tried: Sequence[tuple[PlanQuestion, Sequence[Trial]]]
) -> list[list[Sample]]:  # fmt: skip
    """What was measured for other sizes of a program, one group for each question: plans that its code cannot run by
    are left out."""
    groups: list[list[Sample]] = []
    for question, trials in tried:
        space = CpuSpace(program, question)
        bred, group = BredCpuPlans(space), dict[str, Sample]()
        for trial in trials:
            if trial.times is not None and space.is_legal(parse_cpu_plan(trial.plan)):
                ratio = trial.times.median if trial.ratio is None else trial.ratio.median
                group[trial.plan] = Sample(bred.terms(trial.plan), bred.predicted(trial.plan), ratio)
        groups.append(list(group.values()))
    return groups


def cpu_candidates(space: CpuSpace, winners: Sequence[str], most: int) -> list[Candidate]:
    """At most so many plans beside the pick. `winners`: of searches for other sizes of the program, nearest first."""
    pick = space.pick
    plan = parse_cpu_plan(pick.plan)
    limit = NEAR * (pick.predicted or math.inf)
    near = [one for one in space.near(plan) if (one.predicted or 0.0) <= limit]
    neighbours = [space.candidate(other, f"another choice of {name}") for name, other in space.changes(plan)]
    seeds = [
        space.candidate(seed, "the winner at other sizes")
        for seed in map(parse_cpu_plan, winners)
        if space.is_legal(seed)
    ]
    ruled = [
        space.candidate(other, f"by rule {name}")
        if space.is_legal(other)
        else Candidate(str(other), None, f"by rule {name}")
        for name, other in plans_by_rules("cpu", plan, space.facts)
    ]
    found = in_turns([different(group) for group in (seeds, ruled, near, neighbours)], most + 1)
    return [one for one in found if one.plan != pick.plan][:most]

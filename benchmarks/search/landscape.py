"""How well plans are bred, on machines that nobody has: their times are the model's but for something that it does not
know, so that thousands of plans cost nothing, and every one can be looked at."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from statistics import geometric_mean
from typing import Any

import numpy as np

from gemm import gemm
from tiledsl.autotune.candidates.cpu_candidates import BredCpuPlans, CpuSpace, cpu_candidates
from tiledsl.autotune.candidates.evolve import Breeder
from tiledsl.autotune.candidates.residual import Sample
from tiledsl.backend_cpu.calls.program import CpuProgram, question_of
from tiledsl.passes.cpu.cpu_plan import CpuPlan

Sizes = tuple[int, int, int]
TRIALS = 20
MACHINES = 10
"""For each size; each is wrong about something else."""
SIZES: tuple[Sizes, ...] = ((512, 512, 512), (64, 2048, 1024), (1000, 300, 700))
WRONG = 0.15
"""How far the model is off, as the spread of the weights of its terms in the logarithm of time."""
NOISE = 0.02


@cache
def space(m: int, n: int, k: int) -> CpuSpace:
    """The plans of a product in f32, by two threads of the machine at hand."""
    program = gemm.compile(_empty(m, k), _empty(k, n)).program
    assert isinstance(program, CpuProgram)
    question = question_of(program, {"M": m, "N": n, "K": k}, ((k, 1), (n, 1), (n, 1)), 2)
    return CpuSpace(program, question)


def machine(made: CpuSpace, seed: int) -> Callable[[str], float]:
    """Seconds of plans on a machine about which the model is wrong: by how large blocks are, and what takes time."""
    bred, source = BredCpuPlans(made), random.Random(seed)
    weights = [source.gauss(0, WRONG) for _ in bred.terms(made.pick.plan)]

    @cache
    def seconds(plan: str) -> float:
        wrong = sum(weight * term for weight, term in zip(weights, bred.terms(plan)))
        return bred.predicted(plan) * math.exp(wrong + NOISE * random.Random(plan).gauss(0, 1))

    return seconds


def bred(
    made: CpuSpace,
    seconds: Callable[[str], float],
    seed: int,
    *,
    uses_residual: bool,
    others: Sequence[Sequence[Sample]] = (),
) -> list[float]:
    """The best time after each trial, where plans are bred. `others`: samples at other sizes."""
    breeder = Breeder(BredCpuPlans(made), seed, uses_residual=uses_residual, others=others)
    plans = [made.pick.plan, *(one.plan for one in cpu_candidates(made, [], 8))]
    while len(plans) < TRIALS:
        new = breeder.next({plan: seconds(plan) for plan in plans}, (), 4)
        if not new:
            break
        plans += [one.plan for one in new]
    return best_so_far(map(seconds, plans[:TRIALS]))


def samples_of(made: CpuSpace, seed: int) -> list[Sample]:
    """What a search at other sizes has measured on the same machine."""
    seconds, space_ = machine(made, seed), BredCpuPlans(made)
    plans = [made.pick.plan, *(one.plan for one in cpu_candidates(made, [], TRIALS))]
    return [Sample(space_.terms(plan), space_.predicted(plan), seconds(plan)) for plan in plans]


def at_random(made: CpuSpace, seconds: Callable[[str], float], seed: int) -> list[float]:
    """The same with plans that are drawn from all legal ones, behind the model's pick."""
    source, plans = random.Random(seed), [made.pick.plan]
    while len(plans) < TRIALS:
        blocks = tuple((name, source.choice(made.sizes_of(name))) for name in made.axes)
        plans.append(made.text(CpuPlan(blocks, (source.choice([1, 2]),))))
    return best_so_far(map(seconds, plans))


def best_so_far(times: Iterable[float]) -> list[float]:
    found: list[float] = []
    for time in times:
        found.append(min([time, *found[-1:]]))
    return found


def table(sizes: Iterable[Sizes] = SIZES, machines: int = MACHINES) -> list[tuple[str, ...]]:
    """For each size, gains over the model's pick: the geometric mean over machines, with equal trials."""
    rows: list[tuple[str, ...]] = [
        ("product", "random", "random, half", "bred, half", "bred", "without residual", "others known", "others, half")
    ]
    sizes = list(sizes)
    for one in sizes:
        made = space(*one)
        gains: list[list[float]] = [[] for _ in rows[0][1:]]
        for seed in range(machines):
            seconds = machine(made, seed)
            drawn, with_it = at_random(made, seconds, seed), bred(made, seconds, seed, uses_residual=True)
            without = bred(made, seconds, seed, uses_residual=False)
            known = [samples_of(space(*other), seed) for other in sizes if other != one]
            taught = bred(made, seconds, seed, uses_residual=True, others=known)
            half = TRIALS // 2 - 1
            pick = seconds(made.pick.plan)
            found = (
                drawn[-1],
                drawn[half],
                with_it[min(half, len(with_it) - 1)],
                with_it[-1],
                without[-1],
                taught[-1],
                taught[min(half, len(taught) - 1)],
            )
            for kept, best in zip(gains, found):
                kept.append(pick / best)
        name = "x".join(map(str, one))
        rows.append((name, *(f"{geometric_mean(kept):.3f}" for kept in gains)))
    return rows


def _empty(*shape: int) -> Any:
    return np.empty(shape, np.float32)

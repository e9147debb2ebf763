"""How many plans for a GPU have to be compiled, on machines that nobody has: their times are the model's but for errors
of a given spread, of which half comes from decisions of the plan, and the rest from nothing that anybody knows."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from statistics import fmean, geometric_mean, pstdev
from typing import Any

import numpy as np

from gemm import gemm
from tiledsl.api.calls.cuda_tasks import LEAST_CHANCE
from tiledsl.autotune.candidates.bred_cuda import BredCudaPlans
from tiledsl.autotune.candidates.cuda_candidates import CudaSpace, cuda_candidates
from tiledsl.autotune.candidates.evolve import Breeder
from tiledsl.backend_cuda.program import CudaProgram

Sizes = tuple[int, int, int]
TRIALS = 20
FIRST = 8
MACHINES = 20
SPREADS = (0.03, 0.08, 0.15)
"""How far the model is off, in the logarithm of time."""
SIZES: tuple[Sizes, ...] = ((512, 512, 512), (2000, 1000, 3000), (16, 8192, 8192), (777, 4096, 4096))


@cache
def space(m: int, n: int, k: int) -> CudaSpace:
    """The plans of a product in f16 on an H200."""
    program = gemm.compile(_empty(m, k), _empty(k, n), arch="sm_90").program
    assert isinstance(program, CudaProgram)
    return CudaSpace(program, program.question({"M": m, "N": n, "K": k}, (16,) * 3, (16,) * 3, "an H200"))


def machine(made: CudaSpace, spread: float, seed: int) -> dict[str, float]:
    """Seconds of all plans that the model has ranked, on one machine."""
    predicted, source = made.seconds, random.Random(seed)
    bred = BredCudaPlans(predicted)
    weights = [source.gauss(0, 1) for _ in bred.terms(made.plan)]
    wrong = {plan: sum(w * term for w, term in zip(weights, bred.terms(plan))) for plan in predicted}
    size = pstdev(wrong.values()) or 1.0
    part = spread / math.sqrt(2)
    return {
        plan: time * math.exp(part * (wrong[plan] / size + random.Random(f"{plan} {seed}").gauss(0, 1)))
        for plan, time in predicted.items()
    }


def tried(made: CudaSpace, seconds: Mapping[str, float], seed: int, count: int) -> list[str]:
    """The plans that a search times, the pick first: `count` of them, and then those that are likely enough to win."""
    first = [one.plan for one in cuda_candidates(made, [], TRIALS) if one.plan in seconds][:count]
    plans = [made.plan, *first]
    if count < TRIALS:
        breeder = Breeder(BredCudaPlans(made.seconds), seed, least_chance=LEAST_CHANCE)
        plans += [one.plan for one in breeder.next({plan: seconds[plan] for plan in plans}, (), TRIALS - count)]
    return plans


def table(
    sizes: Iterable[Sizes] = SIZES, spreads: Sequence[float] = SPREADS, machines: int = MACHINES
) -> list[tuple[str, ...]]:
    """Gains over the model's pick, of the best of all plans, of all 20 at once, and of few at first; and how many plans
    the last one compiles."""
    rows: list[tuple[str, ...]] = [("product", "model off by", "the best", "20 at once", "8 first", "plans then")]
    for one in sizes:
        for spread in spreads:
            gains: list[list[float]] = [[], [], []]
            counts: list[int] = []
            for seed in range(machines):
                made = space(*one)
                seconds = machine(made, spread, seed)
                few = tried(made, seconds, seed, FIRST)
                counts.append(len(few) - 1)
                for kept, plans in zip(gains, (seconds, tried(made, seconds, seed, TRIALS), few)):
                    kept.append(seconds[made.plan] / min(seconds[plan] for plan in plans))
            name = "x".join(map(str, one))
            rows.append((name, f"{spread:.2f}", *(f"{geometric_mean(g):.3f}" for g in gains), f"{fmean(counts):.1f}"))
    return rows


def _empty(*shape: int) -> Any:
    return np.empty(shape, np.float16)

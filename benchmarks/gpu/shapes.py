"""Products of shapes that no list has, drawn from classes with a seed, beside PyTorch and beside their predictions.

    odd         sizes that nothing divides                skinny      up to 16 rows or columns, and one
    split       a small result, a long sum                few waves   tiles for one or two rounds of the device

Each class has as many products with rows of the right operand in memory (NN) as with its columns (NT). With another
seed (`TILEDSL_SHAPES_SEED`) they are others: a class is measured, not its members.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

from benchmarks.gpu.device import describe
from benchmarks.gpu.results import Results
from benchmarks.gpu.timing import Clock, CudaClock
from benchmarks.gpu.zoo import COLUMNS, measure_cases, summarise
from benchmarks.zoo.case import Family, ZooCase

EACH = 10
"""Products of a class."""
Draw = Callable[[random.Random], tuple[int, int, int]]


def _odd(draw: random.Random) -> tuple[int, int, int]:
    m, n, k = (draw.randrange(301, 4200, 2) for _ in range(3))
    return m, n, k


def _skinny(draw: random.Random) -> tuple[int, int, int]:
    few, many, k = draw.choice((1, 1, 2, 4, 8, 12, 16)), 64 * draw.randrange(48, 256), 64 * draw.randrange(32, 160)
    return (few, many, k) if draw.random() < 0.6 else (many, few, k)


def _split(draw: random.Random) -> tuple[int, int, int]:
    return 16 * draw.randrange(2, 24), 16 * draw.randrange(2, 24), 256 * draw.randrange(64, 768)


def _few_waves(draw: random.Random) -> tuple[int, int, int]:
    m, n = 8 * draw.randrange(64, 360), 8 * draw.randrange(64, 560)
    return m, n, 64 * draw.randrange(16, 96)


CLASSES: dict[str, Draw] = {"odd": _odd, "skinny": _skinny, "split": _split, "few waves": _few_waves}


def cases(seed: int = 0) -> list[ZooCase]:
    """The products of every class."""
    found: list[ZooCase] = []
    for name, draw_sizes in CLASSES.items():
        draw, family = random.Random(f"{name} {seed}"), Family(name)
        for number in range(EACH):
            m, n, k = draw_sizes(draw)
            order = "NT" if number % 2 else "NN"
            right = "bf16[n,k]" if order == "NT" else "bf16[k,n]"
            formula: Callable[[Any, Any], Any] = _by_columns if order == "NT" else _by_rows
            found.append(family(f"{m}x{n}x{k} {order}", f"bf16[m,k], {right}*0.05", f"m={m} n={n} k={k}", formula))
    return found


def _by_rows(x: Any, w: Any) -> Any:
    return x @ w


def _by_columns(x: Any, w: Any) -> Any:
    return x @ w.T


def measure(torch: Any, only: str = "", clock: Clock | None = None) -> Results:
    """Measures those of a class, or of a shape, whose name contains `only`."""
    results = Results("shapes", "Products of shapes that are drawn", COLUMNS, describe(torch))
    results.start()
    seed = int(os.environ.get("TILEDSL_SHAPES_SEED", "0"))
    chosen = [case for case in cases(seed) if only in f"{case.family}: {case.name}"]
    measure_cases(torch, chosen, clock or CudaClock(torch), results)
    summarise(results)
    return results

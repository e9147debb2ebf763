"""How good the planner's order is: the first plans for each product in bf16, checked, then measured.

The pick is the first plan that the gate lets pass, as in a call. `of best`: its time over that of the fastest of all
that were measured. The rank correlation is Spearman's, between the predicted order and the measured one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, geometric_mean
from typing import Any

from benchmarks.gpu.checking import check
from benchmarks.gpu.device import describe
from benchmarks.gpu.forced_plans import Planner, Ranked, chosen_plans, compile_one, launch_of, plans_of, workers
from benchmarks.gpu.peers.common import first_line
from benchmarks.gpu.products import PRODUCTS, Product, Values, draw, result_of
from benchmarks.gpu.results import Results, microseconds, verdict
from benchmarks.gpu.timing import Clock, CudaClock, in_turns

MOST_PLANS = 20
ROUNDS = 5
BAR = 1.05
"""The geometric mean of `of best` may be this."""
COLUMNS = ("what", "plans", "pick us", "best us", "of best", "place", "correlation", "bar", "")


@dataclass(frozen=True)
class Measured:
    """A plan's place in the predicted order, from 0 on; the predicted seconds, if there are any, and the measured."""

    place: int
    plan: str
    predicted: float | None
    seconds: float
    refused: str
    """Why a call would not take it."""


def measure(torch: Any, only: str = "", clock: Clock | None = None, planner: Planner = chosen_plans) -> Results:
    """Measures the plans for all products in bf16 whose names contain `only`."""
    clock = clock or CudaClock(torch)
    results = Results("ranking", f"The first {MOST_PLANS} plans of each product", COLUMNS, describe(torch))
    results.start()
    products = [p for p in PRODUCTS if p.kind == "bf16" and only in p.name]
    with workers() as executor:
        waiting = {product: _compiling(product, planner, executor) for product in products}
        for _, alike in groupby(products, lambda product: product.data):
            values: Values | None = None
            for product in alike:
                values = values or draw(torch, product)
                one(torch, product, values, waiting[product], clock, results)
    for summary in summaries(results.numbers):
        results.add(*summary)
    return results


def _compiling(product: Product, planner: Planner, executor: Executor) -> list[tuple[Ranked, Future[tuple[str, str]]]]:
    """The plans, on their way to the disk."""
    plans = plans_of(product, planner, MOST_PLANS)
    return [(ranked, executor.submit(compile_one, product, ranked.plan)) for ranked in plans]


def one(
    torch: Any,
    product: Product,
    values: Values,
    waiting: Sequence[tuple[Ranked, Future[tuple[str, str]]]],
    clock: Clock,
    results: Results,
) -> None:
    """Checks and measures the plans for one product, and adds its row."""
    tensors = [values.a, values.b(product.order)]
    c = torch.empty((product.m, product.n), dtype=result_of(torch, product.kind), device="cuda")
    calls: dict[str, Callable[[], object]] = {}
    refused: dict[str, str] = {}
    for place, (ranked, compiled) in enumerate(waiting):
        problem, refusal = compiled.result()
        name = str(place)
        if not problem:
            try:
                call = launch_of(torch, product, ranked.plan, [*tensors, c])
                _, problem = check(torch, call, c, values.expected)
                calls[name], refused[name] = call, refusal
            except Exception as failure:
                problem = f"{type(failure).__name__}: {first_line(str(failure))}"
        if problem:
            calls.pop(name, None)
            results.failures += 1
            results.note(f"FAILED {product.name}, plan ({ranked.plan}): {problem}")
    times = in_turns(clock, calls, rounds=ROUNDS)
    measured = [
        Measured(place, str(ranked.plan), ranked.seconds, times[str(place)].median, refused[str(place)])
        for place, (ranked, _) in enumerate(waiting)
        if str(place) in times
    ]
    if measured:
        results.add(*row(product.name, measured))


def row(name: str, measured: Sequence[Measured]) -> tuple[list[str], dict[str, Any]]:
    """The cells of a row, and its numbers."""
    pick = next((one for one in measured if not one.refused), measured[0])
    best = min(measured, key=lambda one: one.seconds)
    regret = pick.seconds / best.seconds
    predicted = [one.place if one.predicted is None else one.predicted for one in measured]
    correlation = spearman(predicted, [one.seconds for one in measured])
    cells = [
        name, str(len(measured)), microseconds(pick.seconds), microseconds(best.seconds), f"{regret:.3f}",
        str(best.place + 1), "" if correlation is None else f"{correlation:.2f}", "", "",
    ]  # fmt: skip
    numbers: dict[str, Any] = {
        "what": name, "of_best": regret, "correlation": correlation, "pick": pick.plan, "best": best.plan,
        "plans": list(measured), "bar": None, "met": None,
    }  # fmt: skip
    return cells, numbers


def summaries(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """A row for the geometric mean of all."""
    if rows:
        mean = geometric_mean([float(row["of_best"]) for row in rows])
        correlations = [float(row["correlation"]) for row in rows if row["correlation"] is not None]
        correlation = fmean(correlations) if correlations else None
        met = mean <= BAR
        what = f"geomean ({len(rows)})"
        text = "" if correlation is None else f"{correlation:.2f}"
        cells = [what, "", "", "", f"{mean:.3f}", "", text, f"{BAR:.2f}", verdict(met)]
        yield cells, {"what": what, "of_best": mean, "correlation": correlation, "bar": BAR, "met": met}


def spearman(one: Sequence[float], other: Sequence[float]) -> float | None:
    """The correlation of the ranks of two sequences; None where all of one are equal. Equal values share a rank."""
    a, b = ranks(one), ranks(other)
    mean_a, mean_b = fmean(a), fmean(b)
    shared = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b))
    spread = sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b)
    return shared / spread**0.5 if spread > 0 else None


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value, from 0 on: of equal ones their mean."""
    return [sum(v < x for v in values) + (sum(v == x for v in values) - 1) / 2 for x in values]

"""The zoo on a device: each formula beside PyTorch, eager and compiled, and beside the time that was predicted for it.

Results are checked against PyTorch's in f32 first. Times are of the device alone, in turns, the L2 cache flushed; the
peer is the better of eager PyTorch and torch.compile. A measured time outside of 0.7 to 1.4 of the predicted one is a
fault of the model or of the code, and is listed.
"""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, partial
from statistics import geometric_mean
from typing import Any

from benchmarks.gpu.checking import TOLERANCE, check
from benchmarks.gpu.device import describe, machine_at_hand
from benchmarks.gpu.peers.common import first_line
from benchmarks.gpu.results import Results, microseconds
from benchmarks.gpu.timing import Clock, CudaClock, in_turns
from benchmarks.gpu.workers import Failure, Turn, in_workers
from benchmarks.zoo.case import ZooCase
from benchmarks.zoo.cases import CASES
from tiledsl.runtime.calls.outputs import as_tuple

COLUMNS = ("what", "us", "kernels", "predicted", "measured / it", "floor us", "eager us", "compiled us", "peer / ours")
OURS, EAGER, COMPILED = "fused", "eager", "compiled"
TRUSTED = (0.7, 1.4)
COMPILE_MODE = os.environ.get("TILEDSL_ZOO_COMPILE", "max-autotune-no-cudagraphs")
"""The mode of torch.compile; `default` takes minutes instead of hours, `0` leaves it out."""
PATIENCE = 240.0
"""Seconds for a case of a worker: some take torch.compile longer."""
TF32_TOLERANCE = 1e-3
"""Operands have 11 significant bits."""


@dataclass(frozen=True)
class Outcome:
    """What is known of a case: the cells of its row and the numbers behind them, or why there are none."""

    cells: list[str]
    numbers: dict[str, Any]
    notes: list[str]
    problem: str = ""


def measure(torch: Any, only: str = "", clock: Clock | None = None, *, family: str = "", workers: int = 1) -> Results:
    """Measures the cases of a family (of all without one) whose name contains `only`. Several `workers` compile at the
    same time, and measure one after the other."""
    results = Results("zoo", "The zoo", COLUMNS, describe(torch))
    results.start()
    chosen = [c for c in CASES if family in ("", c.family) and only in c.name]
    if workers > 1:
        names = [case.name for case in chosen]
        for name, found in in_workers(names, outcome_in_worker, workers, PATIENCE):
            add_outcome(name, found, results)
    else:
        measure_cases(torch, chosen, clock or CudaClock(torch), results)
    summarise(results)
    return results


def measure_cases(torch: Any, cases: Sequence[ZooCase], clock: Clock, results: Results) -> None:
    """Adds a row for each case that gives what is expected, and notes of those that do not."""
    for case in cases:
        try:
            found = outcome(torch, case, clock)
        except Exception as failure:  # the others are still worth knowing
            found = Outcome([], {}, [], f"{type(failure).__name__}: {first_line(str(failure))}")
        add_outcome(case.name, found, results)
        torch.cuda.empty_cache()


def add_outcome(name: str, found: Outcome | Failure, results: Results) -> None:
    """Adds what became of a case: its row, or why it has none."""
    if isinstance(found, Failure):
        found = Outcome([], {}, [], found.reason)
    for text in found.notes:
        results.note(text)
    if found.problem:
        results.failures += 1
        results.note(f"FAILED {name}: {found.problem}")
    else:
        results.add(found.cells, found.numbers)


@cache
def clock_of_process() -> Clock:
    """The clock of a process, for all that it measures."""
    return CudaClock(importlib.import_module("torch"))


def outcome_in_worker(name: str, turn: Turn) -> Outcome:
    """The outcome of the case of that name, in a process of its own."""
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(1)
    (case,) = (case for case in CASES if case.name == name)
    try:
        return outcome(torch, case, clock_of_process(), turn)
    finally:
        torch.cuda.empty_cache()


def outcome(torch: Any, case: ZooCase, clock: Clock, turn: Turn | None = None) -> Outcome:
    """Checks and times a case; times when it is its `turn`."""
    tensors = case.tensors(torch)
    fused = case.fused()
    audit = fused.audit(machine_at_hand())
    call = partial(fused.build(), *tensors)
    problem = _problem(torch, case, tensors, call)
    if problem:
        return Outcome([], {}, [], problem)
    given = (*tensors, *case.extras())
    contenders: dict[str, Callable[[], object]] = {OURS: call, EAGER: partial(case.expected, torch, *given)}
    if COMPILE_MODE != "0":
        torch._dynamo.reset()  # cases share functions: else it gives up on the ninth, and guesses that sizes vary
        compiled = torch.compile(partial(case.expected, torch), dynamic=False, mode=COMPILE_MODE)
        contenders[COMPILED] = partial(compiled, *given)
    torch.backends.cuda.matmul.allow_tf32 = case.tf32
    notes: list[str] = []
    running = _those_that_run(contenders, notes, case.name)
    with turn or nullcontext():
        times = in_turns(clock, running)
    ours = times[OURS].median
    peer = min((times[name].median for name in times if name != OURS), default=math.nan)
    off = ours / audit.predicted
    cells = [
        f"{case.family}: {case.name}", microseconds(ours), str(sum(k.runs for k in audit.kernels)),
        microseconds(audit.predicted), f"{off:.2f}", microseconds(audit.floor),
        *(microseconds(times[name].median) if name in times else "" for name in (EAGER, COMPILED)),
        f"{peer / ours:.2f}",
    ]  # fmt: skip
    numbers = {
        "what": case.name, "family": case.family, "times": times, "predicted": audit.predicted, "floor": audit.floor,
        "peer": peer / ours, "bar": 1.0, "met": TRUSTED[0] <= off <= TRUSTED[1],
    }  # fmt: skip
    return Outcome(cells, numbers, notes)


def _those_that_run(
    contenders: dict[str, Callable[[], object]], notes: list[str], name: str
) -> dict[str, Callable[[], object]]:
    """A peer that cannot do this (or not in this memory) is left out, and said so."""
    problems = {who: _problem_of(call) for who, call in contenders.items() if who != OURS}
    for who, problem in problems.items():
        if problem:
            notes.append(f"{who} left out of {name}: {problem}")
    return {who: call for who, call in contenders.items() if not problems.get(who)}


def _problem_of(call: Callable[[], object]) -> str:
    try:
        call()
    except Exception as failure:
        return f"{type(failure).__name__}: {first_line(str(failure))}"
    return ""


def _problem(torch: Any, case: ZooCase, tensors: list[Any], call: Callable[[], Any]) -> str:
    """What is wrong with the result, if anything: against PyTorch in f32."""
    wide = [tensor.float() if tensor.is_floating_point() else tensor for tensor in tensors]
    expected = as_tuple(case.expected(torch, *wide, *case.extras()))
    given = as_tuple(call())
    # what is rounded between ops that PyTorch keeps in f32 here, and sums of 16-bit products
    allowed = 4 * TOLERANCE["torch.bfloat16"] / 5 if case.narrow else TOLERANCE["torch.float32"] * 10
    allowed = TF32_TOLERANCE if case.tf32 else allowed
    for ours, theirs in zip(given, expected):
        _, problem = check(torch, partial(_same, ours), None, theirs, allowed)
        if problem:
            return problem
    return ""


def _same(value: object) -> object:
    return value


def summarise(results: Results) -> None:
    """Geometric means by family, how far predictions are off, and where they are faults."""
    families: dict[str, list[float]] = {}
    for row in results.numbers:
        if not math.isnan(row["peer"]):
            families.setdefault(row["family"], []).append(row["peer"])
    for family, ratios in families.items():
        mean = geometric_mean(ratios)
        results.note(f"{family}: geometric mean {mean:.3f} of the best peer, least {min(ratios):.3f}")
    off = {row["what"]: row["times"][OURS]["median"] / row["predicted"] for row in results.numbers}
    if off:
        mean = sum(abs(math.log(ratio)) for ratio in off.values()) / len(off)
        outside = sorted(((r, w) for w, r in off.items() if not TRUSTED[0] <= r <= TRUSTED[1]), reverse=True)
        results.note(
            f"predictions: mean absolute log error {mean:.3f}, {len(outside)} of {len(off)} outside of {TRUSTED}"
        )
        for ratio, what in outside:
            results.note(f"fault of the model or of the code: {what} took {ratio:.2f} of what was predicted")

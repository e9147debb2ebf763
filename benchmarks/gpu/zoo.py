"""The zoo on a device: each formula beside PyTorch, eager and compiled, and beside the time that was predicted for it.

Results are checked against PyTorch's in f32 first. Times are of the device alone, in turns, the L2 cache flushed. A
measured time outside of 0.7 to 1.4 of the predicted one is a fault of the model or of the code, and is counted.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import tiledsl
from benchmarks.gpu.checking import TOLERANCE, check
from benchmarks.gpu.device import describe
from benchmarks.gpu.peers import first_line
from benchmarks.gpu.results import Results, microseconds
from benchmarks.gpu.timing import Clock, CudaClock, in_turns
from benchmarks.zoo.case import ZooCase
from benchmarks.zoo.cases import cases
from tiledsl.ir.dtypes import f32
from tiledsl.runtime.outputs import as_tuple

COLUMNS = ("what", "us", "kernels", "predicted", "measured / it", "floor us", "eager us", "compiled us", "peer / ours")
OURS, EAGER, COMPILED = "fused", "eager", "compiled"
TRUSTED = (0.7, 1.4)
COMPILE_PEERS = os.environ.get("TILEDSL_ZOO_COMPILE", "1") != "0"


def measure(torch: Any, only: str = "", clock: Clock | None = None) -> Results:
    """Measures all cases whose family or name contains `only`."""
    clock = clock or CudaClock(torch)
    results = Results("zoo", "The zoo", COLUMNS, describe(torch))
    results.start()
    for case in cases():
        if only in f"{case.family}: {case.name}":
            try:
                _one(torch, case, clock, results)
            except Exception as failure:  # the others are still worth knowing
                results.failures += 1
                results.note(f"FAILED {case.name}: {type(failure).__name__}: {first_line(str(failure))}")
            torch.cuda.empty_cache()
    _summary(results)
    return results


def _one(torch: Any, case: ZooCase, clock: Clock, results: Results) -> None:
    """Checks and times a case, and adds its row."""
    tensors = case.tensors(torch)
    fused = tiledsl.fuse(tiledsl.trace(case.formula, *tensors))
    audit = fused.audit()
    module = fused.build()
    call = partial(module, *tensors)
    problem = _problem(torch, case, tensors, call)
    if problem:
        results.failures += 1
        results.note(f"FAILED {case.name}: {problem}")
        return
    contenders: dict[str, Callable[[], object]] = {OURS: call, EAGER: partial(case.expected, torch, *tensors)}
    if COMPILE_PEERS:
        compiled = torch.compile(partial(case.expected, torch), mode="max-autotune-no-cudagraphs")
        contenders[COMPILED] = partial(compiled, *tensors)
    times = in_turns(clock, contenders)
    ours = times[OURS].median
    peer = min(times[name].median for name in contenders if name != OURS)
    off = ours / audit.predicted
    cells = [
        f"{case.family}: {case.name}", microseconds(ours), str(sum(k.runs for k in audit.kernels)),
        microseconds(audit.predicted), f"{off:.2f}", microseconds(audit.floor), microseconds(times[EAGER].median),
        microseconds(times[COMPILED].median) if COMPILED in times else "", f"{peer / ours:.2f}",
    ]  # fmt: skip
    numbers = {
        "what": case.name, "family": case.family, "times": times, "predicted": audit.predicted, "floor": audit.floor,
        "peer": peer / ours, "bar": 1.0, "met": TRUSTED[0] <= off <= TRUSTED[1],
    }  # fmt: skip
    results.add(cells, numbers)


def _problem(torch: Any, case: ZooCase, tensors: list[Any], call: Callable[[], Any]) -> str:
    """What is wrong with the result, if anything: against PyTorch in f32."""
    expected = as_tuple(case.expected(torch, *(tensor.float() for tensor in tensors)))
    given = as_tuple(call())
    # what is rounded between ops that PyTorch keeps in f32 here, and sums of 16-bit products
    allowed = TOLERANCE["torch.float32"] * 10 if case.dtype == f32 else 4 * TOLERANCE["torch.bfloat16"] / 5
    for ours, theirs in zip(given, expected):
        _, problem = check(torch, partial(_same, ours), None, theirs, allowed)
        if problem:
            return problem
    return ""


def _same(value: object) -> object:
    return value


def _summary(results: Results) -> None:
    """Geometric means by family, and how far predictions are off."""
    families: dict[str, list[float]] = {}
    for row in results.numbers:
        families.setdefault(row["family"], []).append(row["peer"])
    for family, ratios in families.items():
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        results.note(f"{family}: geometric mean {mean:.3f} of the best peer, least {min(ratios):.3f}")
    errors = [abs(math.log(row["times"][OURS]["median"] / row["predicted"])) for row in results.numbers]
    if errors:
        outside = sum(not row["met"] for row in results.numbers)
        mean = sum(errors) / len(errors)
        results.note(
            f"predictions: mean absolute log error {mean:.3f}, {outside} of {len(errors)} outside of {TRUSTED}"
        )

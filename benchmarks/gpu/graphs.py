"""Formulas of whole tensors, fused: beside the same in tile form, or the bare product, and beside PyTorch.

Results are checked against PyTorch's in f64 first. Times are of the device alone, in turns, with the L2 cache flushed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tiledsl
from benchmarks.gpu.checking import check
from benchmarks.gpu.device import describe
from benchmarks.gpu.graph_cases import GraphCase, Tensors, cases
from benchmarks.gpu.peers.common import first_line
from benchmarks.gpu.results import Results, microseconds, verdict
from benchmarks.gpu.timing import Clock, CudaClock, in_turns

OURS, BESIDE, EAGER = "fused", "beside", "PyTorch"
COLUMNS = ("what", "us", "kernels", "beside us", "of it", "at most", "", "PyTorch us", "x")
LARGEST_WIDE = 1 << 28
"""Elements that are computed again in f64; of larger results f32 is the reference."""


def measure(torch: Any, only: str = "", clock: Clock | None = None) -> Results:
    """Measures all cases whose names contain `only`."""
    clock = clock or CudaClock(torch)
    results = Results("graphs", "Fused formulas", COLUMNS, describe(torch))
    results.note("`beside`: attention in tile form; the bare product of the same size otherwise, of both for `gated`")
    results.start()
    for case in cases():
        if only in case.name:
            _one(torch, case, clock, results)
    return results


def _one(torch: Any, case: GraphCase, clock: Clock, results: Results) -> None:
    """Checks and times a case, and adds its row."""
    tensors = case.make(torch)
    contenders: dict[str, Callable[[], object]] = {}
    try:
        module = tiledsl.fuse(tiledsl.trace(case.formula, *tensors)).build()
        call = partial(module, *tensors)
        error, problem = check(torch, call, None, _reference(torch, case, tensors))
    except Exception as failure:  # the others are still worth knowing
        results.failures += 1
        results.note(f"FAILED {case.name}: {type(failure).__name__}: {first_line(str(failure))}")
        return
    if problem:
        results.failures += 1
        results.note(f"FAILED {case.name}: {problem}")
        return
    contenders[OURS] = call
    if case.beside is not None:
        contenders[BESIDE] = case.beside(torch, tensors)
    contenders[EAGER] = lambda: case.expected(torch, tensors)
    times = in_turns(clock, contenders)
    ours, beside, eager = (times[name].median if name in times else None for name in (OURS, BESIDE, EAGER))
    assert ours is not None
    assert eager is not None
    share = None if beside is None else ours / beside
    met = None if share is None or case.bar is None else share <= case.bar
    kernels = len(module.modules[0].built.schedule.steps)
    cells = [
        case.name, microseconds(ours), str(kernels), "" if beside is None else microseconds(beside),
        "" if share is None else f"{share:.3f}", "" if case.bar is None else f"{case.bar:.2f}",
        "" if met is None else verdict(met), microseconds(eager), f"{eager / ours:.2f}",
    ]  # fmt: skip
    numbers = {"what": case.name, "times": times, "error": error, "kernels": kernels, "bar": case.bar, "met": met}
    results.add(cells, numbers)


def _reference(torch: Any, case: GraphCase, tensors: Tensors) -> Any:
    scores = tensors[0].shape[1] * tensors[0].shape[2] ** 2 if tensors[0].ndim == 4 else tensors[0].numel()
    wide = torch.float64 if scores <= LARGEST_WIDE else torch.float32
    return case.expected(torch, tuple(tensor.to(wide) for tensor in tensors))

"""Cases of the zoo as the programs that a GPU gets, without one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.zoo.case import ZooCase
from tiledsl.api.schedules.schedule_graph import schedule_graph
from tiledsl.ir.core import Module
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.gpu.plans.choose_plans import choose_plans
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_front_pipeline, gpu_pipeline
from tiledsl.runtime.calls.outputs import as_tuple
from tiledsl.runtime.programs.step_alignment import step_alignment, step_lying
from tiledsl.support.errors import TileResourceError


def gpu_programs(case: ZooCase, arch: str) -> Iterator[Module]:
    """The GPU IR of each kernel of a case, under its first plan that fits. Raises TileError where none does."""
    for placed, plans, _ in planned_programs(case, arch):
        yield _first(placed, plans, arch)


def planned_programs(case: ZooCase, arch: str) -> Iterator[tuple[Module, Sequence[Plan], dict[str, int]]]:
    """Each kernel of a case in form `tile-placed`, the plans for its sizes, and these."""
    return planned_kernels(case.fused(), arch)


def planned_kernels(fused: Any, arch: str) -> Iterator[tuple[Module, Sequence[Plan], dict[str, int]]]:
    """The same of a fused graph."""
    schedule = schedule_graph(fused.lowered(arch), fused.graph.inputs, fused.graph.constants)
    done: set[int] = set()
    for step in schedule.schedule.steps:
        if step.program not in done:
            done.add(step.program)
            placed = _run(gpu_front_pipeline(), Module([schedule.functions[step.program]]))
            alignment = step_alignment(schedule.schedule, step)
            lying = step_lying(schedule.schedule, step)
            sizes = {**step.sizes}
            yield placed, choose_plans(placed.entry, gpu_machine(arch), sizes, alignment, lying), sizes


def _first(placed: Module, plans: Sequence[Plan], arch: str) -> Module:
    plan, *others = plans
    try:
        return _run(gpu_pipeline(plan, arch), placed.clone())
    except TileResourceError:
        if not others:
            raise
        return _first(placed, others, arch)


def _run(passes: list[Any], module: Module) -> Module:
    return PassManager(passes, verify=False).run(module, PassContext())


def off_by(case: ZooCase, *, compiled: bool) -> float:
    """How far the results of a small run are from NumPy's in f64: on the CPU, or of the graph op by op."""
    arrays, sizes = case.arrays(case.small), case.small
    fused = case.fused(sizes)
    given = as_tuple(fused.build("cpu")(*arrays) if compiled else fused.graph(*arrays))
    return furthest(given, as_tuple(case.reference(arrays, sizes)))


def furthest(given: tuple[Any, ...], expected: tuple[Any, ...]) -> float:
    """The largest difference over the largest element, of all results."""
    assert len(given) == len(expected)
    worst = 0.0
    for ours, theirs in zip(given, expected):
        wide: Any = np.asarray(ours).astype(np.float64)
        exact: Any = np.asarray(theirs, np.float64)
        assert wide.shape == exact.shape, f"{wide.shape} is not {exact.shape}"
        difference = float(np.abs(wide - exact).max(initial=0.0))
        assert np.isfinite(difference), "not a number"
        worst = max(worst, difference / max(1e-3, float(np.abs(exact).max(initial=0.0))))
    return worst

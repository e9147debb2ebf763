"""TILE modules lowered to GPU IR for given arguments, and run in the emulator: what a launch does, with no GPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy.typing as npt

from tiledsl.backend_ref.arguments import Argument, bind_arguments
from tiledsl.backend_ref.emulator.emulate import emulate
from tiledsl.ir.core import Function, Module
from tiledsl.ir.dtypes import to_numpy
from tiledsl.ir.symbolic import evaluate
from tiledsl.ir.tile_ops import Empty
from tiledsl.ir.types import TensorType
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.gpu.plans.choose_plans import choose_plans
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_front_pipeline, gpu_pipeline

Array = npt.NDArray[Any]
VECTOR_BYTES = 16


def plans_for(module: Module, arguments: Sequence[Argument], arch: str = "sm_90") -> tuple[Module, Sequence[Plan]]:
    """The module as plans are made for it (form `tile-placed`), and the plans for these arguments."""
    placed = PassManager(gpu_front_pipeline()).run(module.clone(), PassContext())
    sizes, values = bind_arguments(module.entry, arguments)
    alignment = [alignment_of(v) for v, p in zip(values, module.entry.parameters) if isinstance(p.type, TensorType)]
    alignment += [_new_alignment(op, sizes) for op in placed.entry.body.ops if isinstance(op, Empty)]
    return placed, choose_plans(placed.entry, gpu_machine(arch), sizes, tuple(alignment))


def alignment_of(array: Array) -> int:
    """What every row of an array starts at a multiple of, in bytes, if the array itself is aligned."""
    rows = [stride for size, stride in zip(array.shape, array.strides) if size > 1 and stride != array.itemsize]
    return math.gcd(VECTOR_BYTES, *rows)


def _new_alignment(op: Empty, sizes: dict[str, int]) -> int:
    last = evaluate(op.shape[-1], sizes) if op.shape else 1
    return math.gcd(VECTOR_BYTES, last * to_numpy(op.dtype).itemsize)


def lowered(module: Module, plan: Plan, arch: str = "sm_90") -> Module:
    """A module in form `tile-placed` as GPU IR."""
    return PassManager(gpu_pipeline(plan, arch)).run(module.clone(), PassContext())


def variants(module: Module, arguments: Sequence[Argument], arch: str = "sm_90") -> Iterator[tuple[Plan, Module]]:
    """The GPU IR of every plan for these arguments, the best plan first."""
    placed, plans = plans_for(module, arguments, arch)
    for plan in plans:
        yield plan, lowered(placed, plan, arch)


def run_as_launched(
    function: Function,
    arguments: Sequence[Argument],
    *,
    seed: int | None = 0,
    output: Callable[[str], None] = lambda line: None,
) -> tuple[Array, ...]:
    """Runs GPU IR in the emulator, in an order that `seed` decides; what is never written shows in the result."""
    return emulate(function, arguments, seed=seed, output=output).results

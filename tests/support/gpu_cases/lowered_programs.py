"""Programs that the compiler makes of kernels, as GPU IR with arguments: small sizes, and a few plans for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from attention import attention
from gemm import gemm
from layer_norm import layer_norm
from softmax import softmax
from sums import column_sums, row_sums, sum_of_all
from tests.support.gpu_cases.gpu_cases import BLOCK, Case, Outcome, outcome
from tests.support.gpu_cases.gpu_example_cases import normals
from tests.support.gpu_cases.gpu_language_cases import case
from tests.support.gpu_code.gpu_lowering import lowered, plans_for
from tests.support.hopper.hopper_text import HopperProgram, Random
from tests.support.kernels import kernels_access as access
from tests.support.kernels import kernels_field as field_kernels
from tests.support.kernels.lowered_kernels import argument_for, run_kernel
from tiledsl.frontend.kernel.arguments import Argument, ConstantArgument
from tiledsl.frontend.kernel.lower import lower_kernel
from tiledsl.frontend.source.kernel_source import KernelSource
from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import BY_NAME
from tiledsl.ir.text.printer import print_module
from tiledsl.passes.gpu.plan import Plan
from tiledsl.support.errors import TileResourceError
from transpose import transpose
from vector_add import vector_add

F32, F16, BF16 = np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
SMALL = 256
"""Threads of the plans that are taken."""
MOST_STAGES = 4
"""Fewer than the turns of loops, which are to go around their rings."""
ALL_ALIKE = ("attention",)
"""What is taken without roles only: with roles, its loops are those of programs by hand, and come to be seen with sizes
that take minutes."""
CLUSTERED = ("softmax", "layer_norm", "row_sums", "sum_of_all")
"""What is also shared out over two blocks."""


def cases() -> list[Case]:
    """Kernels whose programs copy, exchange, fold and multiply."""
    return [
        Case("vector_add", vector_add, normals(F32, (301,), (301,))),
        Case("transpose", transpose, normals(F16, (40, 72))),
        Case("softmax", softmax, normals(F32, (5, 300)), terms=4),
        Case("layer_norm", layer_norm, lambda r: [*normals(F32, (6, 130), (130,), (130,))(r), 1e-5], terms=4),
        Case("row_sums", row_sums, normals(F32, (3, 2100)), terms=2100),
        Case("column_sums", column_sums, normals(F32, (200, 24)), terms=200),
        Case("sum_of_all", sum_of_all, normals(F32, (40, 50)), terms=2000),
        Case("gemm of bf16", gemm, normals(BF16, (64, 328), (328, 64)), terms=2),
        Case("gemm of f32", gemm, normals(F32, (33, 104), (104, 36)), terms=104),
        Case("attention", attention, normals(BF16, (1, 32, 64), (1, 80, 64), (1, 80, 64)), {"causal": True}, 4e-2),
        Case("cumsum", field_kernels.running_sums, lambda r: [r.integers(-9, 9, (5, 70)).astype(F32)],
             {"axis": 1, "reverse": False, "result": BY_NAME["f32"]}),
        Case("tally", field_kernels.tally,
             lambda r: [r.integers(0, 10, 300), r.integers(1, 100, 300).astype(np.int32), np.zeros(10, np.int32),
                        np.zeros(10, np.int32)]),
        Case("extremes", field_kernels.extremes, lambda r: [r.integers(0, 3, (17, 40)).astype(F32)]),
        Case("scatter_rows", field_kernels.scatter_rows,
             lambda r: [normals(F32, (30, 20))(r)[0], r.permutation(50)[:30] - 5, np.zeros((50, 20), F32)]),
        case("histogram", access.histogram,
             lambda r: [r.integers(0, 6, 200), np.zeros(6, np.int32), np.array([-9, 99, 0, 0])]),
    ]  # fmt: skip


@cache
def lowered_programs() -> tuple[HopperProgram, ...]:
    """Each kernel by several plans for sm_90, and by one for sm_80."""
    return tuple(program for case in cases() for arch in ("sm_80", "sm_90") for program in _programs(case, arch))


def _programs(case: Case, arch: str) -> Iterator[HopperProgram]:
    module, arguments = _module(case), _arguments(case, np.random.default_rng(0))
    placed, plans = plans_for(module, arguments, arch)
    for plan in [plans[0]] if arch == "sm_80" else _chosen(case, plans):
        try:
            text = print_module(lowered(placed, plan, arch))
        except TileResourceError:
            continue  # such a plan is left for the next one
        yield HopperProgram(
            f"{case.name} for {arch} by {plan}",
            text,
            lambda random: _arguments(case, random),
            lambda arguments: _expected(case, arguments),
            all(grid.stages <= 2 for grid in plan.grids),
            case.relative,
            case.terms,
        )


def _chosen(case: Case, plans: Sequence[Plan]) -> list[Plan]:
    """Small ones: the first three, each of them with two stages too, and the first one for a cluster."""
    if case.name in ALL_ALIKE:
        plans = [plan for plan in plans if not any(grid.roles for grid in plan.grids)]
    small = [plan for plan in plans if all(grid.threads <= SMALL for grid in plan.grids)][:3] or [*plans[:1]]
    small = [_with(plan, stages=MOST_STAGES) if plan.grids[0].stages > MOST_STAGES else plan for plan in small]
    staged = [_with(plan, stages=2) for plan in small if any(grid.stages > 2 for grid in plan.grids)]
    clusters = [_with(small[0], threads=64, cluster=2)] if case.name in CLUSTERED else []
    return list(dict.fromkeys([*small, *staged, *clusters]))


def _with(plan: Plan, **changes: int) -> Plan:
    return replace(plan, grids=tuple(replace(grid, **changes) for grid in plan.grids))


def _module(case: Case) -> Module:
    source = KernelSource(case.kernel.__wrapped__)
    names = [name for name in source.signature.parameters if name not in case.constants]
    values = _arguments(case, np.random.default_rng(0))
    given: dict[str, Argument] = {name: argument_for(value) for name, value in zip(names, values)}
    return lower_kernel(source, given | {name: ConstantArgument(value) for name, value in case.constants.items()})


def _arguments(case: Case, random: Random) -> list[Any]:
    return list(case.make(random))


def _expected(case: Case, arguments: list[Any]) -> Outcome:
    with np.errstate(all="ignore"):
        returned = run_kernel(case.kernel.__wrapped__, *arguments, constants=dict(case.constants), block=BLOCK)
    return outcome(returned, arguments, lambda value: isinstance(value, np.ndarray), np.asarray)

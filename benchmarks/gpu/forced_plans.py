"""The plans that there are for a product, and code for each of them: what a call would choose, and what it leaves."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from math import gcd
from typing import Any, TypeAlias

import numpy as np

from benchmarks.gpu import kernels
from benchmarks.gpu.peers.common import first_line
from benchmarks.gpu.products import Product
from tiledsl.backend_cuda.build.gate import refusals
from tiledsl.backend_cuda.driver.loaded import LoadedKernels
from tiledsl.backend_cuda.program import CudaProgram
from tiledsl.ir.core import Function
from tiledsl.ir.dtypes import bf16, to_numpy
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.gpu.plans.choose_plans import ranked_plans
from tiledsl.passes.gpu_machine import GpuMachine, gpu_machine

ARCH = "sm_90"
VECTOR_BYTES = 16
MOST_SPECIALISED = 24


@dataclass(frozen=True)
class Ranked:
    """A plan, and the seconds that were predicted for it; None where only the order was."""

    plan: Plan
    seconds: float | None = None


Planner: TypeAlias = Callable[[Function, GpuMachine, Mapping[str, int], Sequence[int]], Sequence[Ranked]]
"""Plans for a function on a machine, for sizes and for the alignments of the tensors; the best first."""


def chosen_plans(
    function: Function, machine: GpuMachine, sizes: Mapping[str, int], alignment: Sequence[int]
) -> list[Ranked]:
    """What calls choose from, and more of those with specialised warps, which are ranked."""
    found = ranked_plans(function, machine, sizes, alignment, specialised=MOST_SPECIALISED)
    return [Ranked(ranked.plan, ranked.seconds) for ranked in found]


@cache
def program_of(product: Product) -> CudaProgram:
    """The example's kernel for a product in bf16."""
    dtype = to_numpy(bf16)
    a: Any = np.empty((product.m, product.k), dtype)
    b: Any = np.empty((product.k, product.n), dtype, order="F" if product.order == "NT" else "C")
    compiled = kernels.gemm.compile(a, b, arch=ARCH)
    assert isinstance(compiled.program, CudaProgram)
    return compiled.program


def plans_of(product: Product, planner: Planner, most: int) -> list[Ranked]:
    """The first plans for a product whose tensors start at multiples of 16 bytes."""
    rows = product.k, product.k if product.order == "NT" else product.n, product.n
    alignment = [gcd(VECTOR_BYTES, 2 * row) for row in rows]
    program = program_of(product)
    return list(planner(program.module.entry, gpu_machine(ARCH), program.sizes, alignment))[:most]


def compile_one(product: Product, plan: Plan) -> tuple[str, str]:
    """Brings code for a plan to the disk. Gives what went wrong, and what the gate says against the code."""
    try:
        variant = program_of(product).variant([plan])
    except Exception as failure:
        return f"{type(failure).__name__}: {first_line(str(failure))}", ""
    return "", "; ".join(refusals(variant.machine_code))


def workers() -> Executor:
    """Processes that compile; as new ones, for this one may use the device."""
    return ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn"))


def launch_of(torch: Any, product: Product, plan: Plan, tensors: Sequence[Any]) -> Callable[[], None]:
    """Launches code for a plan on a, b and c."""
    program = program_of(product)
    variant = program.variant([plan])
    entry = program.module.entry
    loaded = LoadedKernels(variant.cubin, variant.program, 0, name=entry.name, arch=ARCH, location=entry.location)
    bound = loaded.bind(program.sizes, [tuple(tensor.stride()) for tensor in tensors], str(plan))
    stream = torch.cuda.current_stream().cuda_stream
    return bound.prepare([tensor.data_ptr() for tensor in tensors], (), stream)

"""Instructions of elementwise ops, as counted in machine code, and f64 at its own rate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.gpu_code.sass import disassemble
from tests.support.kernels.product_nests import placed_case
from tiledsl import tile
from tiledsl.backend_cuda.build.cubin import Cubin, KernelResources
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.backend_cuda.functions.preamble import Preamble
from tiledsl.backend_cuda.functions.scalar_math import scalar_function
from tiledsl.ir.dtypes import BY_NAME, f32
from tiledsl.ir.scalar_functions import SCALAR_FUNCTIONS
from tiledsl.ir.tile_ops import Map
from tiledsl.passes.gpu.plan import GridPlan
from tiledsl.passes.gpu.plans.costs.grid_cost import GridCost
from tiledsl.passes.gpu.plans.facts.operation_units import ACCURATE, conversion
from tiledsl.passes.gpu.plans.product_plans.thread_cost import ThreadNest, ThreadTiling, thread_seconds
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.nest.loop_nest import loop_nests

ELEMENTS = 16
"""Of a thread, where bytes are stored or loaded."""


@tile.kernel
def converted(x: tile.Tensor, like: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    out = tile.empty((M, N), like.dtype)
    for m, n in tile.grid(M, N):
        out[m, n] = tile.cast(x[m, n], like.dtype)
    return out


def instructions(source: str, target: str, arch: str) -> int:
    of_source, of_target = (tile.spec((4096, 4096), getattr(tile, name)) for name in (source, target))
    compiled = converted.compile(of_source, of_target, arch=arch)
    kernels = tuple(KernelResources(name, used["registers"]) for name, used in compiled.resources.items())
    ((_, code),) = disassemble(Cubin(compiled.cubin, compiled.arch, "", kernels)).items()
    return sum(code.counts.values())


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(
    ("source", "target"), [("i8", "f32"), ("u8", "f16"), ("i8", "bf16"), ("i8", "i32"), ("f8e4m3", "f32")]
)
def test_conversions_of_bytes_are_counted_as_they_are_made(source: str, target: str, arch: str) -> None:
    made = (instructions(source, target, arch) - instructions("f32", "f32", arch)) / ELEMENTS
    counted = conversion(BY_NAME[source], BY_NAME[target], gpu_machine(arch).capability)
    assert counted.arithmetic + counted.special == pytest.approx(made, rel=0.3, abs=0.5)


@pytest.mark.parametrize("fn", ["exp", "log", "sqrt", "div", "tanh", "erf", "sigmoid"])
def test_functions_of_f32_are_counted_as_they_are_made(fn: str) -> None:
    preamble, operands = Preamble(), ["x[i]", "x[7 - i]"][: SCALAR_FUNCTIONS[fn].arity]
    text = scalar_function(fn, f32, operands, preamble)
    made = [_instructions(preamble.text(), text, count) for count in (4, 8)]
    plain = [_instructions("", "+".join(operands), count) for count in (4, 8)]
    each = (made[1] - made[0] - plain[1] + plain[0]) / 4 + (len(operands) - 1)
    assert ACCURATE[fn].arithmetic == pytest.approx(each, rel=0.2, abs=1.5)


def _instructions(preamble: str, text: str, count: int) -> int:
    source = f"""{preamble}
extern "C" __global__ void __launch_bounds__(128) each(const float* from, float* to) {{
    float x[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = from[threadIdx.x + 128 * i];
    #pragma unroll
    for (int i = 0; i < {count}; ++i) to[threadIdx.x + 128 * i] = {text};
}}"""
    return sum(
        n for name, n in disassemble(compile_cubin(source, "sm_90", "each"))["each"].counts.items() if name != "NOP"
    )


def test_whether_functions_are_accurate_depends_on_what_becomes_of_them() -> None:
    @tile.kernel
    def both(x: tile.Tensor, y: tile.Tensor) -> tuple[tile.Tensor, tile.Tensor]:
        M, N = x.shape
        out, narrow = tile.empty((M, N), tile.f32), tile.empty((M, N), tile.f16)
        for m, n in tile.grid(M, N):
            out[m, n] = tile.exp(x[m, n])
            narrow[m, n] = tile.log(y[m, n]) * 2.0
        return out, narrow

    (nest,) = loop_nests(placed_case(both, [np.zeros((64, 64), np.float32)] * 2).entry)
    found = {work.op.fn: work.is_accurate for work in nest.elementwise if isinstance(work.op, Map)}
    assert (found["exp"], found["log"]) == (True, False)


def test_products_of_f64() -> None:
    """Measured on one H200: 80 us for 1024^3, by instructions for 8 rows, which have half of the rate."""
    nest, tiling = ThreadNest(1024, 1024, 1024, bytes=8, sum_bytes=8), ThreadTiling(64, 64, 16, (1, 2), 4)
    machine = gpu_machine("sm_90")
    half = replace(machine, speeds=replace(machine.speeds, double_products=machine.speeds.double_products / 2))
    assert 1e6 * thread_seconds(nest, tiling, half) == pytest.approx(80, rel=0.15)
    assert thread_seconds(nest, tiling, machine) < 0.7 * thread_seconds(nest, tiling, half)


@tile.kernel
def powers(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    out = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        out[m, n] = tile.exp(x[m, n]) * x[m, n] + x[m, n]
    return out


@pytest.mark.parametrize(("arch", "slower"), [("sm_80", 2), ("sm_90", 2), ("sm_86", 20), ("sm_120", 20)])
def test_doubles_have_their_own_rate(arch: str, slower: float) -> None:
    """Gaming GPUs have two pipes of f64 in a multiprocessor."""

    def arithmetic(dtype: type[np.floating]) -> float:
        placed = placed_case(powers, [np.zeros((64, 64), dtype)])
        (nest,) = loop_nests(placed.entry)
        blocks = {axis.extent: 64 for axis in nest.axes if axis.extent is not None}
        return GridCost(nest, GridPlan(256), blocks, {"M": 4096, "N": 4096}, gpu_machine(arch)).times.arithmetic

    assert arithmetic(np.float64) > slower * arithmetic(np.float32)

"""Rows that threads hold outside of the loops of products count as registers; the code of first plans spills none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.gpu_code.gpu_lowering import lowered
from tests.support.kernels.product_nests import nest_of, placed_case
from tiledsl import tile
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.passes.gpu.plans.choose_plans import choose_plans
from tiledsl.passes.gpu.plans.product_plans.footprint import registers_of
from tiledsl.passes.gpu.plans.product_plans.product_nest import Held, Side
from tiledsl.passes.gpu.plans.product_plans.tilings import Tiling
from tiledsl.passes.gpu_machine import gpu_machine

HOPPER = gpu_machine("sm_90")
SIZES = {"M": 32768, "D": 640, "K": 640, "N": 640}


@tile.kernel
def normed_rows(x: tile.Tensor, again: tile.Tensor, w: tile.Tensor) -> tile.Tensor:
    M, D = x.shape
    M, K = again.shape
    K, N = w.shape
    out = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        wide = tile.cast(x[m, :], tile.f32)
        scale = tile.rsqrt(tile.sum(wide * wide, axis=1) / D)
        acc = tile.zeros((m, n))
        for k in tile.range(K):
            left = tile.cast(tile.cast(again[m, k], tile.f32) * scale[:, None], tile.f16)
            acc = tile.dot(left, w[k, n], acc)
        out[m, n] = acc
    return out


@tile.kernel
def rows_added(x: tile.Tensor, again: tile.Tensor, w: tile.Tensor) -> tile.Tensor:
    """What is needed again after the loop is held beside sums."""
    M, D = x.shape
    M, K = again.shape
    K, N = w.shape
    out = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        wide = tile.cast(x[m, :], tile.f32)
        scale = tile.rsqrt(tile.sum(wide * wide, axis=1) / D)
        acc = tile.zeros((m, n))
        for k in tile.range(K):
            left = tile.cast(tile.cast(again[m, k], tile.f32) * scale[:, None], tile.f16)
            acc = tile.dot(left, w[k, n], acc)
        out[m, n] = acc + tile.max(wide * tile.max(acc, axis=1, keepdims=True), axis=1)[:, None]
    return out


def placed(kernel: Any) -> Any:
    return placed_case(kernel, [np.zeros((640, 640), np.float16)] * 3)


@pytest.mark.parametrize(("kernel", "beside"), [(normed_rows, False), (rows_added, True)])
def test_rows_are_found(kernel: Any, beside: bool) -> None:
    (held,) = nest_of(placed(kernel), SIZES).held
    assert held == Held((Side("rows", 32768), Side("whole", 640)), 2, beside)


@pytest.mark.parametrize(
    ("rows", "groups", "fits"), [(128, 2, True), (128, 1, False), (256, 2, False), (192, 3, False)]
)
def test_registers_are_counted(rows: int, groups: int, fits: bool) -> None:
    registers = registers_of(nest_of(placed(normed_rows), SIZES), Tiling(rows, 64, 64, row_groups=groups), HOPPER)
    assert registers.held >= rows * 640 * 2 // 4 // (128 * groups)
    assert registers.fit is fits


def test_beside_sums() -> None:
    tiling = Tiling(128, 64, 64, row_groups=2)
    before, beside = (
        registers_of(nest_of(placed(kernel), SIZES), tiling, HOPPER) for kernel in (normed_rows, rows_added)
    )
    assert before.held == 160
    assert beside.held == 160 + 32 + 16  # rows, sums, a left operand that is computed


@pytest.mark.parametrize(("arch", "first"), [("sm_90", 2), ("sm_80", 1)])
def test_the_code_of_first_plans_spills_nothing(arch: str, first: int) -> None:
    module = placed(normed_rows)
    machine = gpu_machine(arch)
    for plan in choose_plans(module.entry, machine, SIZES, (16,) * 8)[:first]:
        gpu = lowered(module, plan, arch)
        source = emit_program(gpu, machine.capability)
        cubin = compile_cubin(source.text, arch, gpu.entry.name, [gpu.entry.location])
        assert [kernel.spill_store_bytes for kernel in cubin.kernels] == [0], plan

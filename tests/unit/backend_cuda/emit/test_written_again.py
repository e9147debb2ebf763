"""Tiles that are computed again behind a fold: the same results, in fewer registers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.gpu_code import gpu_lowering
from tests.support.gpu_code.cuda_on_host import aligned, host_compiler, run_on_host
from tiledsl import tile
from tiledsl.backend_cuda.build.compile import compile_variant
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.backend_cuda.values import written_again
from tiledsl.ir.core import Module
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.gpu.plan import GridPlan

AGAIN = 'asm volatile("" : "+r"('
COLUMNS = 16384


@tile.kernel
def normed(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m in tile.grid(M):
        row = x[m, :].to(tile.f32)
        centred = row - tile.sum(row, axis=1, keepdims=True) / N
        squares = tile.sum(centred * centred, axis=1, keepdims=True)
        y[m, :] = (centred * tile.rsqrt(squares / N + 1e-5)).to(x.dtype)
    return y


@tile.kernel
def spread(x: tile.Tensor, s: tile.Tensor) -> tile.Tensor:
    """What was released is wanted in a loop first, and behind it."""
    M, N = x.shape
    R = s.shape[0]
    y = tile.empty((R + 1, M, N), x.dtype)
    for m in tile.grid(M):
        row = x[m, :].to(tile.f32)
        less = row - tile.max(row, axis=1, keepdims=True)
        for r in tile.range(R, block=1):
            y[r, m, :] = (less * s[r]).to(x.dtype)
        y[R, m, :] = (less + row).to(x.dtype)
    return y


def lowered(kernel: Any, *arrays: Any) -> Module:
    text = kernel.compile(*arrays, arch="cpu").ir("tile")
    placed, (plan, *_) = gpu_lowering.plans_for(parse_module(text), list(arrays))
    alone = replace(plan, grids=(GridPlan(256),))
    return gpu_lowering.lowered(placed, alone)


def given() -> Any:
    return aligned(np.random.default_rng(3).standard_normal((2, COLUMNS)).astype(np.float16))


def plain(x: Any) -> Any:
    wide = x.astype(np.float64)
    return (wide - wide.mean(axis=1, keepdims=True)) / np.sqrt(wide.var(axis=1, keepdims=True) + 1e-5)


@pytest.mark.skipif(host_compiler() is None, reason="there is no C++ compiler")
def test_rows_that_are_normed(tmp_path: Path) -> None:
    x = given()
    module = lowered(normed, x)
    program = emit_program(module, 90)
    assert program.text.count(AGAIN) == 2
    (y,) = run_on_host(program, module.entry, [x], tmp_path)
    np.testing.assert_allclose(np.asarray(y, np.float64), plain(x), atol=2e-3)


@pytest.mark.skipif(host_compiler() is None, reason="there is no C++ compiler")
def test_what_a_loop_reads(tmp_path: Path) -> None:
    x, s = given(), aligned(np.array([1.0, -2.0], np.float32))
    module = lowered(spread, x, s)
    program = emit_program(module, 90)
    assert AGAIN in program.text
    (y,) = run_on_host(program, module.entry, [x, s], tmp_path)
    wide = x.astype(np.float64)
    less = wide - wide.max(axis=1, keepdims=True)
    np.testing.assert_allclose(
        np.asarray(y, np.float64), np.stack([less, -2 * less, less + wide]), rtol=2e-3, atol=2e-3
    )


def test_it_takes_fewer_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    module = lowered(normed, given())

    def registers() -> int:
        source = emit_program(module, 90).text
        (kernel,) = compile_cubin(source, "sm_90", "normed").kernels
        assert kernel.spill_store_bytes == 0
        return kernel.registers

    fewer = registers()
    monkeypatch.setattr(written_again, "LEAST_HELD", 1 << 20)
    assert AGAIN not in emit_program(module, 90).text
    assert fewer <= registers() - 8


def test_a_block_less_comes_before_spills(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many blocks at once leave threads too few registers: the code is made for one less, by the same plan."""
    placed, (plan, *_) = gpu_lowering.plans_for(parse_module(normed.compile(given(), arch="cpu").ir("tile")), [given()])
    alone = replace(plan, grids=(GridPlan(256),))

    def five(threads: int, words: int) -> int:
        return 5

    monkeypatch.setattr("tiledsl.backend_cuda.emit.emit_program.blocks_at_once", five)
    variant = compile_variant(placed, "sm_90", [alone])
    (kernel,) = variant.machine_code.kernels
    assert "__launch_bounds__(256, 4)" in variant.source  # of five, each thread has 48 registers, and spills
    assert kernel.spill_store_bytes == 0
    assert variant.plan == alone

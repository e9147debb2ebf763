"""Elementwise code in rounds: the same results as written out, in less code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.gpu_code import gpu_lowering
from tests.support.gpu_code.cuda_on_host import aligned, host_compiler, run_on_host
from tiledsl import tile
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.backend_cuda.values import rolled_groups
from tiledsl.ir.core import Module
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.gpu.plan import GridPlan

ROWS, COLUMNS = 8, 512


@tile.kernel
def activated(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M, N), tile.f16)
    for m in tile.grid(M, block=8):
        y[m, :] = tile.gelu(x[m, :]).to(tile.f16)
    return y


@tile.kernel
def packed(x: tile.Tensor) -> tile.Tensor:
    """From two elements in a word to one."""
    M, N = x.shape
    y = tile.empty((M, N), tile.f32)
    for m in tile.grid(M, block=8):
        y[m, :] = tile.gelu(x[m, :].to(tile.f16).to(tile.f32))
    return y


@tile.kernel
def read_again(x: tile.Tensor) -> tile.Tensor:
    """The operand is folded behind the group, which has two results, one of them beside the operand."""
    M, N = x.shape
    y = tile.empty((M, N), tile.f32)
    for m in tile.grid(M, block=8):
        row = x[m, :]
        wide = tile.gelu(row)
        narrow = tile.exp(row).to(tile.f16)
        y[m, :] = (wide / tile.max(wide, axis=1, keepdims=True) + narrow.to(tile.f32)) * tile.sum(
            row * row, axis=1, keepdims=True
        )
    return y


@tile.kernel
def biased(x: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    """What is repeated for each row goes around."""
    M, N = x.shape
    y = tile.empty((M, N), tile.f32)
    for m in tile.grid(M, block=8):
        y[m, :] = tile.gelu(x[m, :] + b[:][None, :])
    return y


@tile.kernel
def biased_rows(x: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    """What is repeated along each row goes on where a row ends: that may be after several rounds."""
    M, N = x.shape
    y = tile.empty((M, N), tile.f32)
    for m in tile.grid(M, block=8):
        y[m, :] = tile.gelu(x[m, :] + b[m][:, None]) + b[m][:, None]
    return y


def gelu(x: Any) -> Any:
    from math import erf

    return x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2


def plain(kernel: Any, x: Any, b: Any) -> Any:
    x = x.astype(np.float64)
    if kernel is read_again:
        wide = gelu(x)
        return (wide / wide.max(1, keepdims=True) + np.exp(x)) * (x * x).sum(1, keepdims=True)
    if kernel is biased_rows:
        return gelu(x + b[:, None]) + b[:, None]
    return gelu(x + b) if kernel is biased else gelu(x)


def lowered(kernel: Any, *arrays: Any) -> Module:
    text = kernel.compile(*arrays, arch="cpu").ir("tile")
    placed, (plan, *_) = gpu_lowering.plans_for(parse_module(text), list(arrays))
    return gpu_lowering.lowered(placed, replace(plan, grids=(GridPlan(32),)))


def given(kernel: Any) -> list[Any]:
    random = np.random.default_rng(5)
    beside = {biased: ((COLUMNS,),), biased_rows: ((ROWS,),)}
    shapes = ((ROWS, COLUMNS), *beside.get(kernel, ()))
    return [aligned(random.standard_normal(shape).astype(np.float32)) for shape in shapes]


@pytest.mark.skipif(host_compiler() is None, reason="there is no C++ compiler")
@pytest.mark.parametrize(
    "kernel", [activated, packed, read_again, biased, biased_rows], ids=lambda kernel: kernel.__name__
)
@pytest.mark.parametrize("slots", [8, 32])
def test_rounds_mean_the_same(kernel: Any, slots: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolled_groups, "LONG", 256)
    monkeypatch.setattr(rolled_groups, "ROUND_SLOTS", slots)
    arrays = given(kernel)
    module = lowered(kernel, *arrays)
    program = emit_program(module, 90)
    assert "part < " in program.text
    if kernel is biased_rows:  # a thread has 64 elements of each of two rows
        assert f"part % {64 // slots} == {64 // slots - 1}" in program.text
    (y,) = run_on_host(program, module.entry, arrays, tmp_path)
    want = plain(kernel, arrays[0], arrays[-1])
    np.testing.assert_allclose(np.asarray(y, np.float64), want, rtol=4e-3, atol=4e-3)


def test_short_groups_are_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolled_groups, "LONG", 1 << 20)
    assert "part < " not in emit_program(lowered(packed, *given(packed)), 90).text


def test_code_is_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    module = lowered(activated, *given(activated))

    def size() -> int:
        cubin = compile_cubin(emit_program(module, 90).text, "sm_90", "activated")
        assert cubin.kernels[0].spill_store_bytes == 0
        return len(cubin.code)

    monkeypatch.setattr(rolled_groups, "LONG", 1 << 20)
    long = size()
    monkeypatch.setattr(rolled_groups, "LONG", 256)
    assert size() < long / 2

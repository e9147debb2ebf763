"""Operands that each warp computes alone: multiplied from registers, in which lanes have runs along K."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiledsl
from tests.support.gpu_code.cuda_on_host import aligned, host_compiler, run_on_host
from tests.support.gpu_code.gpu_lowering import variants
from tiledsl import tile
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.gpu_machine import gpu_machine

Array = npt.NDArray[Any]
ARCH = "sm_80"


@tile.kernel
def weights_on_the_right(x: Any, q: Any, s: Any) -> Any:
    """x[m, k] @ (q[n, k] * s[n]).T"""
    return tile.dot(x, (q.to(x.dtype) * s[:, None]).mT)


@tile.kernel
def weights_on_the_left(x: Any, q: Any, s: Any) -> Any:
    """(q[m, k] * s[m]) @ x[n, k].T"""
    return tile.dot(q.to(x.dtype) * s[:, None], x.mT)


@tile.kernel
def columns_of_memory(x: Any, q: Any, s: Any) -> Any:
    """(q[m, k] * s[m]) @ x[k, n], of which no lane could read a run."""
    return tile.dot(q.to(x.dtype) * s[:, None], x)


@tile.kernel
def rows_with_factors(x: Any, g: Any, y: Any) -> Any:
    """(x[m, k] * g[k]) @ y[n, k].T: no narrower than what is multiplied."""
    return tile.dot(x * g, y.mT)


@tile.kernel
def by_blocks(x: Any, q: Any, s: Any) -> Any:
    """The first of them, block by block."""
    (rows, depth), columns = x.shape, q.shape[0]
    out = tile.empty((rows, columns), x.dtype)
    for m, n in tile.grid(rows, columns):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(depth):
            acc = tile.dot(x[m, k], (q[n, k].to(x.dtype) * s[n][:, None]).mT, acc)
        out[m, n] = acc.to(x.dtype)
    return out


def arrays_of(kernel: Any, rows: int, columns: int, depth: int, dtype: Any = np.int8) -> list[Array]:
    random = np.random.default_rng(0)
    of_weights = columns if kernel is weights_on_the_right else rows
    x = random.standard_normal((rows if kernel is weights_on_the_right else columns, depth)).astype(np.float16)
    if kernel is columns_of_memory:
        x = np.ascontiguousarray(np.swapaxes(x, 0, 1))
    if kernel is rows_with_factors:
        y = random.standard_normal((rows, depth)).astype(np.float16)
        return [y, random.standard_normal(depth).astype(np.float16), x]
    low, high = (0, 256) if dtype is np.uint8 else (-128, 128)
    q = random.integers(low, high, (of_weights, depth)).astype(dtype)
    return [x, q, (random.random(of_weights) * 0.01).astype(np.float16)]


def expected(kernel: Any, arrays: list[Array]) -> Array:
    wide: list[Any] = [array.astype(np.float64) for array in arrays]
    if kernel is rows_with_factors:
        return np.matmul((wide[0] * wide[1]).astype(np.float16).astype(np.float64), np.swapaxes(wide[2], 0, 1))
    weights = (arrays[1].astype(np.float16) * arrays[2][:, None]).astype(np.float64)
    if kernel is weights_on_the_right:
        return np.matmul(wide[0], np.swapaxes(weights, 0, 1))
    return np.matmul(weights, wide[0] if kernel is columns_of_memory else np.swapaxes(wide[0], 0, 1))


def source_of(kernel: Any, arrays: list[Array], arch: str = ARCH) -> str:
    graph = tiledsl.trace(kernel, *arrays)
    return "\n".join(one.source for one in tiledsl.fuse(graph).build(arch).kernels.values())


@given(
    kernel=st.sampled_from([weights_on_the_right, weights_on_the_left, columns_of_memory, rows_with_factors]),
    rows=st.sampled_from([1, 7, 16, 17, 48]),
    columns=st.sampled_from([8, 24, 64, 100]),
    depth=st.sampled_from([16, 40, 64, 72, 128, 200, 384]),
    dtype=st.sampled_from([np.int8, np.uint8]),
    seed=st.one_of(st.none(), st.integers(0, 3)),
)
@settings(max_examples=12, deadline=None)
def test_random_sizes(kernel: Any, rows: int, columns: int, depth: int, dtype: Any, seed: int | None) -> None:
    arrays = arrays_of(kernel, rows, columns, depth, dtype)
    wanted = expected(kernel, arrays)
    got: Any = kernel.emulate(*arrays, arch=ARCH, seed=seed)
    assert np.allclose(got, wanted, atol=4e-3 * float(np.max(np.abs(wanted))))


@pytest.mark.parametrize(
    ("kernel", "instruction"),
    [
        (weights_on_the_right, "m8n16k16x4_f16_f32"),
        (weights_on_the_left, "m16n8k16x4_f16_f32"),
        (rows_with_factors, "m16n8k16x2_f16_f32"),
        (columns_of_memory, "m16n8k16_f16_f32"),
    ],
)
def test_which_instructions_multiply(kernel: Any, instruction: str) -> None:
    """Runs of as much as a thread loads at once: 16 bytes of q, 8 elements of x."""
    source = source_of(kernel, arrays_of(kernel, 16, 64, 512))
    found = re.findall(r" mma_(m\w+)\(&", source)
    assert set(found) == {instruction}


def test_nothing_is_written_to_shared_memory() -> None:
    """But for what is copied of x and q, of which each thread reads its own part."""
    source = source_of(weights_on_the_right, arrays_of(weights_on_the_right, 16, 256, 4096))
    turn = source[source.index("for (long long k_number_") :]
    turn = turn[: turn.index("mma_m8n16k16x4_f16_f32(&")]
    assert "write_" not in turn
    assert turn.count("__syncthreads();") == 1


@pytest.mark.skipif(host_compiler() is None, reason="there is no C++ compiler")
def test_generated_code_on_the_host(tmp_path: Path) -> None:
    arrays: list[Any] = [aligned(array) for array in arrays_of(weights_on_the_right, 16, 64, 256)]
    tile_text = by_blocks.compile(*arrays, arch="cpu").ir("tile")
    modules = [module for _, module in variants(parse_module(tile_text), arrays, ARCH)]
    programs = [(module, emit_program(module, gpu_machine(ARCH).capability)) for module in modules]
    module, program = next((module, made) for module, made in programs if "m8n16k16x" in made.text)
    (got,) = run_on_host(program, module.entry, arrays, tmp_path)
    wanted = expected(weights_on_the_right, list(arrays))
    assert np.allclose(got, wanted, atol=4e-3 * float(np.max(np.abs(wanted))))

"""Products whose loop groups of warps share, each with a part of every turn: their sums meet in shared memory."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.zoo.cases import CASES
from tests.support.gpu_code.cuda_on_host import aligned, host_compiler, run_on_host
from tests.support.gpu_code.gpu_lowering import lowered, plans_for, run_as_launched
from tiledsl import tile
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.ir.core import Module
from tiledsl.ir.gpu.gpu_ops import Mma
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.gpu_machine import gpu_machine

Array = npt.NDArray[Any]
ARCH = "sm_90"
OTHER_ARCH = "sm_80"


@tile.kernel
def product(x: Any, y: Any) -> Any:
    """x[m, k] @ y[n, k].T"""
    (rows, depth), columns = x.shape, y.shape[0]
    out = tile.empty((rows, columns), tile.f32)
    for m, n in tile.grid(rows, columns):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(depth):
            acc = tile.dot(x[m, k], y[n, k].mT, acc)
        out[m, n] = acc
    return out


@tile.kernel
def beside_columns(x: Any, y: Any) -> Any:
    """(x[m, k] @ y[k, n] + 1) / 2, of which the loop begins with 1."""
    (rows, depth), columns = x.shape, y.shape[1]
    out = tile.empty((rows, columns), tile.f32)
    for m, n in tile.grid(rows, columns):
        acc = tile.full((m, n), 1.0, tile.f32)
        for k in tile.range(depth):
            acc = tile.dot(x[m, k], y[k, n], acc)
        out[m, n] = acc / 2
    return out


@tile.kernel
def weights(x: Any, q: Any, s: Any) -> Any:
    """x[m, k] @ (q[n, k] * s[n]).T, of which threads compute the weights."""
    (rows, depth), columns = x.shape, q.shape[0]
    out = tile.empty((rows, columns), tile.f32)
    for m, n in tile.grid(rows, columns):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(depth):
            acc = tile.dot(x[m, k], (q[n, k].to(x.dtype) * s[n][:, None]).mT, acc)
        out[m, n] = acc
    return out


@tile.kernel
def seen_before(x: Any, y: Any) -> Any:
    """Sums that each turn of the loop changes: no group of warps could have them alone."""
    (rows, depth), columns = x.shape, y.shape[0]
    out = tile.empty((rows, columns), tile.f32)
    for m, n in tile.grid(rows, columns):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(depth):
            acc = tile.dot(x[m, k], y[n, k].mT, acc * 0.5)
        out[m, n] = acc
    return out


KERNELS = [product, beside_columns, weights]


def arrays_of(kernel: Any, rows: int, columns: int, depth: int, dtype: Any = np.float16) -> list[Array]:
    random = np.random.default_rng(0)

    def numbers(*shape: int) -> Array:
        if np.issubdtype(dtype, np.integer):
            return random.integers(-9, 9, shape).astype(dtype)
        return random.standard_normal(shape).astype(dtype)

    if kernel is weights:
        q = random.integers(-128, 128, (columns, depth)).astype(np.int8)
        s = (random.random(columns) * 0.01).astype(np.float16)
        return [aligned(random.standard_normal((rows, depth)).astype(np.float16)), aligned(q), aligned(s)]
    right = (depth, columns) if kernel is beside_columns else (columns, depth)
    return [aligned(numbers(rows, depth)), aligned(numbers(*right))]


def expected(kernel: Any, arrays: list[Array]) -> Array:
    x, y = (array.astype(np.float64) for array in arrays[:2])
    if kernel is weights:
        y = (arrays[1].astype(np.float16) * arrays[2][:, None]).astype(np.float64)
    if kernel is beside_columns:
        return (np.matmul(x, y) + 1) / 2
    return np.matmul(x, np.swapaxes(y, 0, 1))


def in_groups(plan: Plan, groups: int, warps: tuple[int, int], stages: int) -> Plan:
    """A plan by threads with tiles of that many warps, turns as deep as the groups take together."""
    (grid, *others), each = plan.grids, 32 if groups * warps[0] * warps[1] < 16 else 16
    groups = min(groups, 16 // math.prod(warps))
    sides = [16 * warps[0], 16 * warps[1], each * groups]
    blocks = tuple((name, size) for (name, _), size in zip(plan.blocks, sides))
    grid = replace(
        grid, threads=32 * groups * warps[0] * warps[1], warps=warps, groups=groups, stages=stages, cluster=1, roles="",
        programs=0, splits=1, rows=0, resident=1, across=1, copied=(), lines=(), counted=False, swapped=False,
    )  # fmt: skip
    return replace(plan, grids=(grid, *others), blocks=blocks, divisors=(), sizes=(), parts=(), turned=())


def module_in_groups(
    kernel: Any, arrays: list[Array], groups: int, warps: tuple[int, int] = (1, 2), stages: int = 2, arch: str = ARCH
) -> Module:
    """The GPU IR of a kernel whose loop groups share."""
    module = parse_module(kernel.compile(*arrays, arch="cpu").ir("tile"))
    placed, plans = plans_for(module, arrays, arch)
    plan = next(plan for plan in plans if not plan.parts and not plan.grids[0].roles)
    return lowered(placed, in_groups(plan, groups, warps, stages), arch)


def grouped(module: Module) -> set[int]:
    return {op.groups for op in module.walk() if isinstance(op, Mma)}


@given(
    kernel=st.sampled_from(KERNELS),
    rows=st.sampled_from([1, 7, 16, 33]),
    columns=st.sampled_from([8, 24, 64, 100]),
    depth=st.sampled_from([16, 40, 64, 72, 200, 384]),
    dtype=st.sampled_from([np.float16, np.float32]),
    groups=st.sampled_from([2, 4, 8]),
    warps=st.sampled_from([(1, 1), (1, 2), (2, 1), (1, 3), (1, 7)]),
    stages=st.sampled_from([1, 2, 3]),
    arch=st.sampled_from([ARCH, OTHER_ARCH]),
    seed=st.one_of(st.none(), st.integers(0, 3)),
)
@settings(max_examples=16, deadline=None)
def test_random_sizes(
    kernel: Any, rows: int, columns: int, depth: int, dtype: Any, groups: int, warps: tuple[int, int], stages: int,
    arch: str, seed: int | None,
) -> None:  # fmt: skip
    arrays = arrays_of(kernel, rows, columns, depth, dtype)
    wanted = expected(kernel, arrays)
    module = module_in_groups(kernel, arrays, groups, warps, stages, arch)
    (got,) = run_as_launched(module.entry, arrays, seed=seed)
    assert np.allclose(got, wanted, atol=4e-3 * float(np.max(np.abs(wanted))))


@pytest.mark.parametrize("kernel", KERNELS)
def test_each_group_has_sums_of_its_own(kernel: Any) -> None:
    arrays = arrays_of(kernel, 16, 64, 256)
    module = module_in_groups(kernel, arrays, 4)
    assert grouped(module) == {4}
    (got,) = run_as_launched(module.entry, arrays)
    assert np.allclose(got, expected(kernel, arrays), atol=1e-2)


def test_integers() -> None:
    """To the bit."""
    arrays: Any = arrays_of(product, 16, 32, 384, np.int8)
    left, right = arrays

    @tile.kernel
    def exact(x: Any, y: Any) -> Any:
        (rows, depth), columns = x.shape, y.shape[0]
        out = tile.empty((rows, columns), tile.i32)
        for m, n in tile.grid(rows, columns):
            acc = tile.zeros((m, n), tile.i32)
            for k in tile.range(depth):
                acc = tile.dot(x[m, k], y[n, k].mT, acc)
            out[m, n] = acc
        return out

    module = module_in_groups(exact, [left, right], 4)
    assert grouped(module) == {4}
    (got,) = run_as_launched(module.entry, [left, right])
    wanted: Any = left.astype(np.int32) @ right.astype(np.int32).T
    assert np.array_equal(got, wanted)


def test_sums_that_a_turn_changes_stay_whole() -> None:
    arrays = arrays_of(seen_before, 16, 64, 256)
    assert grouped(module_in_groups(seen_before, arrays, 4)) == {1}


def test_plans_for_few_rows_of_computed_weights() -> None:
    """As blocks are few: no second kernel adds parts."""
    case = next(one for one in CASES if one.name == "i4 in groups, 16 rows")
    (kernel,) = case.fused().build(ARCH).module(ARCH, {}).kernels.values()
    assert " groups" in str(kernel.plan)


@pytest.mark.skipif(host_compiler() is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("kernel", [product, weights])
def test_generated_code_on_the_host(kernel: Any, tmp_path: Path) -> None:
    arrays = arrays_of(kernel, 16, 64, 256)
    module = module_in_groups(kernel, arrays, 2)
    program = emit_program(module, gpu_machine(ARCH).capability)
    assert re.search(r"mma_m\w+\(&", program.text)
    (got,) = run_on_host(program, module.entry, arrays, tmp_path)
    wanted = expected(kernel, arrays)
    assert np.allclose(got, wanted, atol=4e-3 * float(np.max(np.abs(wanted))))

"""Products on GPUs, in the emulator: loops of few rounds, batches, several products in one loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.every_target import assert_alike, emulated_plans
from tiledsl import tile
from tiledsl.ir.dtypes import BY_NAME, to_numpy
from tiledsl.passes.gpu.plan import parse_plan
from tiledsl.passes.gpu.plans.product_plans.thread_tilings import PLAIN_TILES

Array = npt.NDArray[Any]


def whole(*shape: int, dtype: str = "f32", seed: int = 0) -> Array:
    """Whole numbers, so that sums are exact in any order."""
    numbers = np.random.default_rng(seed).integers(0 if dtype[0] == "u" else -3, 4, shape)
    return numbers.astype(to_numpy(BY_NAME[dtype]))


def exact(a: Array, b: Array) -> Array:
    return np.matmul(a.astype(np.float64), b.astype(np.float64))


@tile.kernel
def product(a: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    M, K = a.shape
    K, N = b.shape
    total = tile.f32 if a.dtype.is_float else tile.i32
    c = tile.empty((M, N), total)
    for m, n in tile.grid(M, N, block=(32, tile.auto)):
        acc = tile.zeros((m, n), total)
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc)
        c[m, n] = acc
    return c


@pytest.mark.parametrize("dtype", ["f8e4m3", "f8e5m2", "f16", "bf16", "i8", "u8"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
@pytest.mark.filterwarnings("ignore::tiledsl.TilePerformanceWarning")
def test_loops_of_few_rounds(dtype: str, arch: str) -> None:
    """Operands of a round that is not there are neither computed with nor cast."""
    for rows, columns, depth in ((17, 96, 96), (32, 64, 16), (32, 64, 256), (16, 16, 0)):
        a, b = whole(rows, depth, dtype=dtype), whole(depth, columns, dtype=dtype, seed=1)
        c: Any = product.emulate(a, b, arch=arch, seed=None)
        np.testing.assert_array_equal(np.asarray(c, np.float64), exact(a, b))


@tile.kernel
def two_products(a: tile.Tensor, b: tile.Tensor, b2: tile.Tensor, BLOCK: tile.constexpr) -> tile.Tensor:
    """Right operands of both orders: K counts fastest in `b`, N in `b2`."""
    M, K = a.shape
    N, K = b.shape
    K, N = b2.shape
    total = tile.f32 if a.dtype.is_float else tile.i32
    c = tile.empty((M, N), total)
    for m, n in tile.grid(M, N):
        acc, acc2 = tile.zeros((m, n), total), tile.zeros((m, n), total)
        for k in tile.range(K, block=BLOCK):
            acc = tile.dot(a[m, k], b.T[k, n], acc)
            acc2 = tile.dot(a[m, k], b2[k, n], acc2)
        c[m, n] = acc + acc2
    return c


@pytest.mark.parametrize("dtype", ["f16", "f8e4m3", "i8"])
@pytest.mark.parametrize("block", [8, 16, 48])
@pytest.mark.filterwarnings("ignore::tiledsl.TilePerformanceWarning")
def test_every_plan_for_a_block_of_the_user_runs_or_is_left_out(dtype: str, block: int) -> None:
    a, b, b2 = whole(64, 64, dtype=dtype), whole(48, 64, dtype=dtype, seed=1), whole(64, 48, dtype=dtype, seed=2)
    wanted = exact(a, np.swapaxes(b, 0, 1)) + exact(a, b2)
    results = emulated_plans(two_products, "sm_90", a, b, b2, BLOCK=block)
    assert results
    for (c,) in results:
        np.testing.assert_array_equal(np.asarray(c, np.float64), wanted)


@tile.kernel
def batched_product(a: tile.Tensor, b: tile.Tensor, BLOCK: tile.constexpr) -> tile.Tensor:
    """So many matrices for each program, in a loop over K."""
    B, M, K = a.shape
    B, K, N = b.shape
    total = tile.f32 if a.dtype.is_float else tile.i32
    c = tile.empty((B, M, N), total)
    for i, m, n in tile.grid(B, M, N, block=(BLOCK, tile.auto, tile.auto)):
        acc = tile.zeros((i, m, n), total)
        for k in tile.range(K):
            acc = tile.dot(a[i, m, k], b[i, k, n], acc)
        c[i, m, n] = acc
    return c


@tile.kernel
def batched_whole(a: tile.Tensor, b: tile.Tensor, BLOCK: tile.constexpr) -> tile.Tensor:
    """Whole matrices, computed operands, under two leading axes; what is made of the products at once."""
    B, H, M = a.shape[:3]
    total = tile.f32 if a.dtype.is_float else tile.i32
    c = tile.empty((B, H, M), total)
    for i in tile.grid(B, block=BLOCK):
        left = a[i, :, :, :] + a[i, :, :, :]
        c[i, :, :] = tile.sum(tile.dot(left, b[i, :, :, :]) + 1, axis=3)
    return c


@pytest.mark.parametrize("dtype", ["f32", "f16", "f8e4m3", "i8"])
@pytest.mark.parametrize("block", [1, 2, 3])
def test_batches(dtype: str, block: int) -> None:
    a, b = whole(5, 17, 40, dtype=dtype), whole(5, 40, 24, dtype=dtype, seed=1)
    (c,) = assert_alike(batched_product, a, b, BLOCK=block)
    np.testing.assert_array_equal(c, exact(a, b))


@pytest.mark.parametrize("dtype", ["f32", "f16", "i8"])
def test_batches_of_computed_operands(dtype: str) -> None:
    a, b = whole(3, 3, 9, 20, dtype=dtype), whole(3, 3, 20, 10, dtype=dtype, seed=1)
    (c,) = assert_alike(batched_whole, a, b, BLOCK=2)
    np.testing.assert_array_equal(c, (2 * exact(a, b) + 1).sum(3))


@tile.kernel
def product_of_tiles(a: tile.Tensor, b: tile.Tensor, ROWS: tile.constexpr, COLUMNS: tile.constexpr) -> tile.Tensor:
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), tile.f32)
    for m, n in tile.grid(M, N, block=(ROWS, COLUMNS)):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc)
        c[m, n] = acc
    return c


@pytest.mark.parametrize(("rows", "columns"), sorted({one[:2] for one in PLAIN_TILES}))
def test_tiles_of_single_multiply_adds(rows: int, columns: int) -> None:
    """Long ones too, of products that they do not divide."""
    a, b = whole(rows - 8, 25), whole(25, columns + 12, seed=1)
    c: Any = product_of_tiles.emulate(a, b, rows, columns, arch="sm_90", seed=None)
    np.testing.assert_array_equal(np.asarray(c, np.float64), exact(a, b))


@tile.kernel
def product_of_any_tiles(a: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), tile.f32)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc)
        c[m, n] = acc
    return c


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_products_of_few_columns_have_long_tiles(arch: str) -> None:
    """Threads have enough sums to be worth what they read, and room for them."""
    given = tile.spec((200000, 81), tile.f32), tile.spec((81, 24), tile.f32)
    compiled = product_of_any_tiles.compile(*given, arch=arch)
    (used,) = compiled.resources.values()
    assert used["spills"] == 0
    (chosen,) = product_of_any_tiles.audit(*given, arch=arch).kernels
    plan = parse_plan(chosen.kernel.plan)
    blocks, (grid,) = dict(plan.blocks), plan.grids
    assert blocks["m"] >= (64 if grid.split else 128)  # by planes, warps multiply, and not threads by themselves
    assert blocks["n"] <= 32
    assert grid.split or blocks["m"] * blocks["n"] // grid.threads >= 32

"""Loops that end before their tensors do: what lies behind the end, whatever it is, reaches no sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.kernels.paged_kernels import begun_product, paged_attention, paged_attention_by_numpy
from tiledsl import tile
from tiledsl.passes.gpu.plan import parse_plan

Array = npt.NDArray[Any]
pytestmark = pytest.mark.filterwarnings("ignore::tiledsl.TilePerformanceWarning")


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


@tile.kernel
def at_a_number(x: tile.Tensor, w: tile.Tensor, END: tile.constexpr) -> tile.Tensor:
    M, K = x.shape  # pyright: ignore[reportUnusedVariable]
    K, N = w.shape  # noqa: RUF059  # pyright: ignore[reportUnusedVariable]
    # K is named so that the loop may go over a part of the axis
    out = tile.empty((M, N), tile.f32)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(0, END):
            acc = tile.dot(tile.relu(x[m, k]), w[k, n], acc)
        out[m, n] = acc
    return out


@tile.kernel
def at_half(x: tile.Tensor, w: tile.Tensor) -> tile.Tensor:
    M, K = x.shape
    K, N = w.shape
    out = tile.empty((M, N), tile.f32)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(0, K // 2):
            acc = tile.dot(tile.relu(x[m, k]), w[k, n], acc)
        out[m, n] = acc
    return out


@tile.kernel
def gated(x: tile.Tensor, w: tile.Tensor, u: tile.Tensor, ends: tile.Tensor) -> tile.Tensor:
    M, K = x.shape
    K, N = w.shape
    K, N = u.shape
    out = tile.empty((M, N), tile.f32)
    for m, n in tile.grid(M, N):
        a = tile.zeros((m, n), tile.f32)
        b = tile.zeros((m, n), tile.f32)
        for k in tile.range(0, min(ends[0], K)):
            a = tile.dot(tile.relu(x[m, k]), w[k, n], a)
            b = tile.dot(tile.relu(x[m, k]), u[k, n], b)
        out[m, n] = a * b
    return out


@tile.kernel
def latent_attention(q: tile.Tensor, c: tile.Tensor, lengths: tile.Tensor) -> tile.Tensor:
    """Rows of `c` are keys and values: one load, the right operand of two products."""
    B, R, D = q.shape
    B, N, D = c.shape
    B = lengths.shape[0]
    out = tile.empty((B, R, D), q.dtype)
    for b, r in tile.grid(B, R, block=(1, tile.auto)):
        top = tile.full(r, -1e30)
        total = tile.zeros(r)
        acc = tile.zeros((r, D))
        for j in tile.range(0, min(lengths[b], N)):
            rows = c[b, j, :]
            scores = tile.dot(q[b, r, :], rows.mT) * D**-0.5
            higher = tile.maximum(top, tile.max(scores, axis=1))
            p = tile.exp(scores - higher[:, None])
            rescale = tile.exp(top - higher)
            total = total * rescale + tile.sum(p, axis=1)
            acc = tile.dot(p.to(c.dtype), rows, acc * rescale[:, None])
            top = higher
        out[b, r, :] = acc / total[:, None]
    return out


def of_relu(x: Array, w: Array, end: int) -> Array:
    return np.maximum(x[:, :end].astype(np.float64), 0) @ w[:end].astype(np.float64)


def by_a_number(x: Array, w: Array, end: int, arch: str, seed: int) -> tuple[Any, Array]:
    return at_a_number.emulate(x, w, END=end, arch=arch, seed=seed), of_relu(x, w, end)


def by_data(x: Array, w: Array, end: int, arch: str, seed: int) -> tuple[Any, Array]:
    return begun_product.emulate(x, w, np.array([end], np.int32), arch=arch, seed=seed), of_relu(x, w, end)


def by_two(x: Array, w: Array, end: int, arch: str, seed: int) -> tuple[Any, Array]:
    """The second of rows that begin elsewhere, which threads may have to copy."""
    wide = np.concatenate([w[:, ::-1], w], axis=1)
    u = wide[:, : w.shape[1]]
    made = gated.emulate(x, w, u, np.array([end], np.int32), arch=arch, seed=seed)
    return made, of_relu(x, w, end) * of_relu(x, u, end)


@given(
    run=st.sampled_from([by_a_number, by_data, by_two]),
    rows=st.sampled_from([5, 64, 70]),
    depth=st.sampled_from([48, 96, 130, 264]),
    columns=st.sampled_from([16, 20, 72, 136]),
    share=st.floats(0.02, 1.0),
    beyond=st.sampled_from([np.nan, np.inf, 1.0]),
    arch=st.sampled_from(["sm_80", "sm_90", "sm_90"]),
    seed=st.integers(0, 3),
)
@settings(max_examples=10)
def test_products(
    run: Callable[..., tuple[Any, Array]],
    rows: int,
    depth: int,
    columns: int,
    share: float,
    beyond: float,
    arch: str,
    seed: int,
) -> None:
    x, w = normal(rows, depth), normal(depth, columns, seed=1)
    end = max(1, int(depth * share))
    w[end:] = beyond
    got, expected = run(x, w, end, arch, seed)
    assert np.allclose(got, expected, rtol=1e-2, atol=3e-2)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_a_loop_over_half_of_an_axis(arch: str) -> None:
    x, w = normal(70, 80), normal(80, 72, seed=1)
    w[40:] = np.inf
    assert np.allclose(at_half.emulate(x, w, arch=arch, seed=1), of_relu(x, w, 40), atol=3e-2)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_rows_that_two_products_take(arch: str) -> None:
    q, c, lengths = normal(2, 16, 64), normal(2, 192, 64, seed=1), np.array([37, 150], np.int32)
    expected = np.zeros(q.shape)
    for b, length in enumerate(lengths):
        c[b, length:] = np.nan
        keys: Array = c[b, :length].astype(np.float64)
        p: Array = np.exp(np.einsum("rd,jd->rj", q[b].astype(np.float64), keys) / 8)
        expected[b] = p / p.sum(axis=1, keepdims=True) @ keys
    for seed in (None, 0, 1):
        got = latent_attention.emulate(q, c, lengths, arch=arch, seed=seed)
        assert np.allclose(got, expected, atol=3e-3)
    assert ("tma_load" in latent_attention.compile(q, c, lengths, arch=arch).source) == (arch == "sm_90")


@pytest.mark.parametrize("shape", [(512, 512, 2048), (1024, 512, 1024), (512, 512, 8192)])
def test_blocks_of_clusters_do_not_share_rows_that_one_clears(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    specs = tile.spec((m, k), tile.f16), tile.spec((k, n), tile.f16), tile.spec((1,), tile.i32)
    (kernel,) = begun_product.audit(*specs, arch="sm_90").kernels
    assert all(grid.cluster == 1 for grid in parse_plan(kernel.kernel.plan).grids)


def test_programs_that_go_on_clear_rows_of_each_block() -> None:
    """Several last turns that are not whole, in one ring."""
    rng = np.random.default_rng(0)
    batch, heads, page, pages = 150, 2, 16, 2
    q = normal(batch, heads, 64, 64)
    k, v = (normal(batch * pages, page, heads, 64, seed=seed) for seed in (1, 2))
    table = np.reshape(rng.permutation(batch * pages), (batch, pages)).astype(np.int32)
    lengths = rng.integers(1, page * pages + 1, batch).astype(np.int32)
    expected = paged_attention_by_numpy(q, k, v, table, lengths)
    assert (
        "go through all blocks" in paged_attention.compile(q, k, v, table, lengths, page=page, arch="sm_90").explain()
    )
    got = paged_attention.emulate(q, k, v, table, lengths, page=page, arch="sm_90", seed=0)
    assert np.allclose(got, expected, atol=3e-3)

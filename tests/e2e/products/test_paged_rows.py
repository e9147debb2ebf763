"""Rows that are read through a table of pages: results beside NumPy in the emulator, and how they are loaded."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.kernels.paged_kernels import (
    begun_product,
    computed_pages,
    paged_attention,
    paged_attention_by_numpy,
    paged_product,
    paged_weights,
    rows_of,
)
from tiledsl import TilePerformanceWarning, tile

Array = npt.NDArray[Any]


def _random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def _cache(page: int, pages: int, lengths: list[int], heads: int = 2, group: int = 4, width: int = 64) -> list[Array]:
    """q, k, v, table, lengths: more pages than the table has, in any order, and one number that no page has."""
    batch, many = len(lengths), len(lengths) * pages + 3
    table = np.reshape(np.random.default_rng(1).permutation(many)[: batch * pages], (batch, pages)).astype(np.int32)
    table[0, 0] = many + 7
    q = _random(batch, heads, group, width)
    k, v = (_random(many, page, heads, width, seed=seed) for seed in (2, 3))
    return [q, k, v, table, np.array(lengths, np.int32)]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(
    ("page", "pages", "lengths"), [(16, 12, [37, 190]), (64, 4, [200, 3]), (48, 6, [288, 49]), (256, 2, [257])]
)
def test_attention_through_a_table(arch: str, page: int, pages: int, lengths: list[int]) -> None:
    arrays = _cache(page, pages, lengths)
    expected = paged_attention_by_numpy(*arrays)
    for seed in (None, 0, 1) if page == 16 else (0,):
        got = paged_attention.emulate(*arrays, page=page, arch=arch, seed=seed)
        assert np.allclose(got, expected, atol=2e-3)
    source = paged_attention.compile(*arrays, page=page, arch=arch).source
    assert ("tma_load" in source) == (arch == "sm_90")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(("page", "lengths"), [(16, [37, 190]), (64, [200, 3]), (64, [128, 256])])
def test_rows_behind_the_end_may_be_anything(arch: str, page: int, lengths: list[int]) -> None:
    q, k, v, table, ends = arrays = _cache(page, 256 // page, lengths)
    expected = paged_attention_by_numpy(*arrays)
    for cache, value in ((k, np.nan), (v, np.nan), (v, np.inf)):
        for b, end in enumerate(ends):
            for j in range(end, 256):
                if 0 <= table[b, j // page] < len(cache):
                    cache[table[b, j // page], j % page] = value
        for seed in (None, 0, 1):
            got = paged_attention.emulate(q, k, v, table, ends, page=page, arch=arch, seed=seed)
            assert np.allclose(got, expected, atol=2e-3)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_rows_side_by_side_behind_the_end_may_be_anything(arch: str) -> None:
    x, w, ends = _random(70, 96), _random(96, 72, seed=1), np.array([37], np.int32)
    w[37:] = np.nan
    expected = np.maximum(x[:, :37].astype(np.float64), 0) @ w[:37]
    for seed in (None, 0, 1):
        got = begun_product.emulate(x, w, ends, arch=arch, seed=seed)
        assert np.allclose(got, expected, atol=3e-2)
    assert ("tma_load" in begun_product.compile(x, w, ends, arch=arch).source) == (arch == "sm_90")


def test_parts_of_a_long_table() -> None:
    arrays = _cache(32, 40, [1100], heads=1, group=8, width=128)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TilePerformanceWarning)
        got = paged_attention.emulate(*arrays, page=32, arch="sm_90", seed=0)
    assert np.allclose(got, paged_attention_by_numpy(*arrays), atol=2e-3)
    compiled = paged_attention.compile(*arrays, page=32, arch="sm_90")
    assert "parts, added by another grid" in compiled.explain()


def test_the_price_is_that_of_rows_side_by_side() -> None:
    def seconds(page: int, batch: int) -> float:
        pages = 8192 // page
        cache = tile.spec((batch * pages, page, 8, 128), tile.f16)
        table = tile.spec((batch, pages), tile.i32)
        specs = (tile.spec((batch, 8, 4, 128), tile.f16), cache, cache, table, tile.spec((batch,), tile.i32))
        (kernel,) = paged_attention.audit(*specs, page=page, arch="sm_90").kernels
        return kernel.kernel.predicted

    for batch in (1, 16):
        whole = seconds(8192, batch)  # one page of all keys
        assert all(seconds(page, batch) < 1.05 * whole for page in (16, 64, 256))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_left_operands_through_a_table(arch: str) -> None:
    x, table, w = _random(30, 16, 64), np.array([3, 8, -1, 0, 2, 5, 9], np.int32), _random(64, 72, seed=1)
    for kernel, pages, more in ((paged_product, table, ()), (computed_pages, table * 3 + 2, (2,))):
        got = kernel.emulate(x, table, w, *more, page=16, arch=arch, seed=0)
        assert np.allclose(got, rows_of(x, pages) @ w.astype(np.float64), atol=3e-2)
        source = kernel.compile(x, table, w, *more, page=16, arch=arch).source
        assert ("tma_load" in source) == (arch == "sm_90")


def test_loops_that_may_end_within_a_page_are_left_to_all_threads() -> None:
    x, w, table = _random(130, 64), _random(9, 16, 72, seed=1), np.array([3, 8, 0, 7], np.int32)
    got = paged_weights.emulate(x, w, table, page=16, arch="sm_90", seed=0)
    assert np.allclose(got, x.astype(np.float64) @ rows_of(w, table), atol=3e-2)
    assert "the loop may end within a run of `w`" in paged_weights.compile(x, w, table, page=16, arch="sm_90").explain()

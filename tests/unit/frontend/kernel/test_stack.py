"""`tile.stack` in tile form: tiles side by side, and parts of them."""

# ruff: noqa: RUF005 - in tile form tuples grow by `+`
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tiledsl import tile


@tile.kernel
def turned_pairs(x: tile.Tensor) -> Any:
    """Columns of blocks of 8, of which thread m has one each."""
    M = x.shape[0]
    y = tile.empty((M, 8, 4), x.dtype)
    for m in tile.grid(M):
        parts = ()
        for i in range(4):
            parts = parts + (2 * tile.load(x[m, i * 8 : (i + 1) * 8]),)
        whole = tile.stack(parts, axis=1)
        for j in range(8):
            y[m, j, :] = whole[:, :, j] + 1
    return y


@tile.kernel
def whole_stack(x: tile.Tensor) -> Any:
    """What is stacked is stored, first and last axis."""
    M, N = x.shape
    y = tile.empty((2, M, N), x.dtype)
    z = tile.empty((M, N, 2), x.dtype)
    for m, n in tile.grid(M, N):
        t = x[m, n]
        y[:, m, n] = tile.stack((t, -t), axis=0)
        z[m, n, :] = tile.stack((t, t + 1), axis=-1)
    return y, z


@pytest.mark.parametrize("rows", [1, 7, 33])
def test_parts_that_others_made(rows: int) -> None:
    x: Any = np.random.default_rng(0).standard_normal((rows, 32)).astype(np.float32)
    wanted: Any = 2 * x.reshape(rows, 4, 8).transpose(0, 2, 1) + 1
    for run in (turned_pairs, turned_pairs.emulate):
        found: Any = run(x)
        assert np.array_equal(found, wanted)


def test_a_whole_stack() -> None:
    x = np.random.default_rng(1).standard_normal((9, 13)).astype(np.float32)
    for run in (whole_stack, whole_stack.emulate):
        found: Any = run(x)
        assert np.array_equal(found[0], np.stack([x, -x]))
        assert np.array_equal(found[1], np.stack([x, x + 1], axis=-1))


def test_it_is_in_shared_memory() -> None:
    compiled = turned_pairs.compile(tile.spec((4096, 32), tile.f32), arch="sm_90")
    assert "write_shared" in compiled.source
    assert sum(line.count("__syncthreads") for line in compiled.source.splitlines()) == 1

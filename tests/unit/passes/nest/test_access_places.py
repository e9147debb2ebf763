"""Accesses of one tensor beside each other: what must move, and what comes from memory."""

from __future__ import annotations

import pytest

from tiledsl import Kernel, tile


@tile.kernel
def beside(u: tile.Tensor) -> tile.Tensor:
    Y, X = u.shape
    v = tile.empty((Y, X), u.dtype)
    for y, x in tile.grid(Y, X):
        v[y, x] = u[y - 1, x] + u[y + 1, x] + u[y, x - 1] + u[y, x + 1]
    return v


@tile.kernel
def halves(x: tile.Tensor) -> tile.Tensor:
    M, W = x.shape
    N = W // 2
    y = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        y[m, n] = x[m, n] * x[m, n + N]
    return y


@tile.kernel
def planes(f: tile.Tensor) -> tile.Tensor:
    _, M = f.shape
    out = tile.empty((3, M), f.dtype)
    for m in tile.grid(M):
        out[0, m] = f[2, m]
        out[1, m] = f[0, m]
        out[2, m] = f[1, m]
    return out


SIZE = 8192


@pytest.mark.parametrize(
    ("kernel", "shape", "elements"),
    [
        (beside, (SIZE, SIZE), 2 * SIZE * SIZE), (halves, (SIZE, SIZE), SIZE * SIZE * 3 // 2),
        (planes, (3, SIZE**2), 6 * SIZE**2),
    ],
    ids=["shifted", "halves", "planes"],
)  # fmt: skip
def test_elements_come_once(kernel: Kernel, shape: tuple[int, int], elements: int) -> None:
    audit = kernel.audit(tile.spec(shape, tile.f32))
    assert abs(audit.must_bytes / (4 * elements) - 1) < 1e-3
    assert abs(audit.kernels[0].kernel.memory_bytes / (4 * elements) - 1) < 1e-2

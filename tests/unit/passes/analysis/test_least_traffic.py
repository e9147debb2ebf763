"""How many bytes kernels must move at least."""

from __future__ import annotations

from typing import Any

import pytest

from tiledsl import tile
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.analysis.least_traffic import LeastTraffic, least_traffic

VECTOR = tile.spec(("N",), tile.f32)
MATRIX = tile.spec(("M", "N"), tile.f16)
INDICES = tile.spec(("M",), tile.i32)


@tile.kernel
def rows(x: Any) -> Any:
    M, _ = x.shape
    y = tile.empty((M,), tile.f32)
    for m in tile.grid(M):
        y[m] = tile.sum(x[m, :].to(tile.f32), axis=1) + tile.max(x[m, :].to(tile.f32), axis=1)
    return y


@tile.kernel
def in_place(x: Any) -> None:
    (N,) = x.shape
    for n in tile.grid(N):
        x[n] = x[n] * 2


@tile.kernel
def gathered(x: Any, i: Any) -> Any:
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        y[m, n] = x[i[m], n]
    return y


@tile.kernel
def half(x: Any) -> Any:
    (N,) = x.shape
    y = tile.empty((N,), x.dtype)
    for n in tile.grid(N // 2):
        y[n] = x[n + N // 2]
    return y


@tile.kernel
def first_rows(x: Any) -> Any:
    _, N = x.shape
    y = tile.empty((N,), x.dtype)
    for n in tile.grid(N):
        y[n] = x[0, n]
    return y


@tile.kernel
def diagonal(x: Any) -> Any:
    N, N = x.shape
    y = tile.empty((N,), x.dtype)
    for n in tile.grid(N, block=1):
        y[n] = x[n, n]
    return y


@tile.kernel
def counted(x: Any, total: Any) -> None:
    (N,) = x.shape
    for n in tile.grid(N):
        tile.atomic_add(total[0:1], tile.sum(x[n], axis=0, keepdims=True))


def of(kernel: Any, *specs: Any) -> LeastTraffic:
    return least_traffic(parse_module(kernel.compile(*specs, arch="reference").ir()).entry)


@pytest.mark.parametrize(
    ("kernel", "specs", "read", "written", "partly"),
    [
        (rows, [MATRIX], "2 * M * N", "4 * M", ()),
        (in_place, [VECTOR], "4 * N", "4 * N", ()),
        (gathered, [MATRIX, INDICES], "4 * M", "2 * M * N", ("x",)),
        (half, [VECTOR], "0", "0", ("x", "y")),
        (first_rows, [MATRIX], "0", "2 * N", ("x",)),
        (counted, [VECTOR, tile.spec((1,), tile.f32)], "4 * N", "0", ("total",)),
    ],
)
def test_least_traffic(kernel: Any, specs: list[Any], read: str, written: str, partly: tuple[str, ...]) -> None:
    traffic = of(kernel, *specs)
    assert (str(traffic.read), str(traffic.written), traffic.partly) == (read, written, partly)


def test_a_diagonal_is_not_the_matrix() -> None:
    traffic = of(diagonal, tile.spec(("N", "N"), tile.f32))
    assert (str(traffic.read), traffic.partly[0]) == ("0", "x")

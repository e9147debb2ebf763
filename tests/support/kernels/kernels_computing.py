"""Kernels, as plain functions, that compute in every way of the language; and NumPy's words for its functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tiledsl import tile
from tiledsl.ir import dtypes
from tiledsl.ir.dtypes import DType


def of_ours(dtype: Any) -> DType:
    """The dtype of the language for one of NumPy."""
    found = dtypes.from_numpy(np.dtype(dtype))
    assert found is not None
    return found


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "lt": lambda x, y: x < y,
    "eq": lambda x, y: x == y,
}


def binary(x: tile.Tensor, y: tile.Tensor, op: tile.constexpr, result: tile.constexpr) -> tile.Tensor:
    N = x.shape[0]
    out = tile.empty(N, result)
    for n in tile.grid(N):
        if op == "add":
            value = x[n] + y[n]
        elif op == "mul":
            value = x[n] * y[n]
        elif op == "div":
            value = x[n] / y[n]
        elif op == "lt":
            value = x[n] < y[n]
        else:
            value = x[n] == y[n]
        tile.static_assert(value.dtype == result)
        out[n] = value
    return out


def with_weak_numbers(x: tile.Tensor, scale: float, count: int, result: tile.constexpr) -> tile.Tensor:
    N = x.shape[0]
    out = tile.empty((5, N), result)
    for n in tile.grid(N):
        v = x[n]
        out[0, n] = v + 2
        out[1, n] = 2.5 * v if v.dtype.is_float else v * 3
        out[2, n] = v * scale if v.dtype.is_float else v - count
        out[3, n] = v + count
        out[4, n] = v - N + count * 2
        tile.static_assert((v + 2).dtype == result and (v + count).dtype == result and (v - N).dtype == result)
    return out


def integer_operators(x: tile.Tensor, y: tile.Tensor) -> tile.Tensor:
    N = x.shape[0]
    out = tile.empty((9, N), x.dtype)
    for n in tile.grid(N):
        a, b = x[n], y[n]
        out[0, n] = a // b
        out[1, n] = a % b
        out[2, n] = a & b
        out[3, n] = a | b
        out[4, n] = a ^ b
        out[5, n] = ~a
        out[6, n] = -a
        out[7, n] = a << 2
        out[8, n] = a >> 1
    return out


UNARY: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "exp": (tile.exp, np.exp),
    "exp2": (tile.exp2, np.exp2),
    "log": (tile.log, np.log),
    "log2": (tile.log2, np.log2),
    "sqrt": (tile.sqrt, np.sqrt),
    "rsqrt": (tile.rsqrt, lambda x: 1 / np.sqrt(x)),
    "tanh": (tile.tanh, np.tanh),
    "sin": (tile.sin, np.sin),
    "cos": (tile.cos, np.cos),
    "floor": (tile.floor, np.floor),
    "ceil": (tile.ceil, np.ceil),
    "round": (tile.round, np.round),
    "abs": (tile.abs, np.abs),
    "sigmoid": (tile.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "silu": (tile.silu, lambda x: x / (1 + np.exp(-x))),
    "relu": (tile.relu, lambda x: np.maximum(x, 0)),
    "softmax": (tile.softmax, lambda x: np.exp(x) / np.exp(x).sum()),
}


def unary(x: tile.Tensor, fn: tile.constexpr, result: tile.constexpr) -> tile.Tensor:
    N = x.shape[0]
    out = tile.empty(N, result)
    for _ in tile.grid(1, block=1):
        value = fn(x[:])
        tile.static_assert(value.dtype == result)
        out[:] = value
    return out


def more_functions(x: tile.Tensor, y: tile.Tensor) -> tile.Tensor:
    N = x.shape[0]
    out = tile.empty((9, N), tile.f32)
    for n in tile.grid(N):
        out[0, n] = tile.gelu(x[n])
        out[1, n] = tile.erf(x[n])
        out[2, n] = tile.minimum(x[n], y[n])
        out[3, n] = tile.maximum(x[n], 0)
        out[4, n] = tile.clip(x[n], -0.5, 0.5)
        out[5, n] = tile.fma(x[n], y[n], 1.0)
        out[6, n] = tile.pow(tile.abs(x[n]), y[n])
        out[7, n] = tile.where(x[n] > y[n], x[n], 0.0)
        out[8, n] = x[n] ** 2 + tile.abs(x[n]) ** 0.5
    return out


REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (tile.sum, np.sum),
    "prod": (tile.prod, np.prod),
    "mean": (tile.mean, np.mean),
    "max": (tile.max, np.max),
    "min": (tile.min, np.min),
    "any": (tile.any, np.any),
    "all": (tile.all, np.all),
    "argmax": (tile.argmax, np.argmax),
    "argmin": (tile.argmin, np.argmin),
}


def reduction(x: tile.Tensor, out: tile.Tensor, fn: tile.constexpr, axis: tile.constexpr, keep: tile.constexpr) -> Any:
    for _ in tile.grid(1, block=1):
        value = fn(x[:, :], axis=axis, keepdims=keep)
        tile.static_assert(value.dtype == out.dtype and value.ndim == out.ndim)
        out[...] = value
    return out


@tile.func
def larger(a: Any, i: Any, b: Any, j: Any) -> Any:
    """The larger value with its index; the smaller index where they are equal."""
    first = (a > b) | ((a == b) & (i < j))
    return tile.where(first, a, b), tile.where(first, i, j)


@tile.func
def after(a: Any, b: Any) -> Any:
    return a * 0.5 + b * 0.5


def folds(x: tile.Tensor) -> Any:
    M, N = x.shape
    best, where, smooth, running = (
        tile.empty(M, x.dtype),
        tile.empty(M, tile.i64),
        tile.empty(M, x.dtype),
        tile.empty((M, N), x.dtype),
    )
    for m in tile.grid(M):
        v = x[m, :]
        top, at = tile.reduce((v, tile.broadcast_to(tile.arange(N), v.shape)), 1, larger)
        best[m] = top
        where[m] = at
        smooth[m] = tile.reduce(v, axis=-1, fn=tile.maximum)
        running[m, :] = tile.scan(v, 1, tile.minimum)
    return best, where, smooth, running


def sums(x: tile.Tensor) -> Any:
    M, N = x.shape
    forward, backward, down = (tile.empty((M, N), tile.f32), tile.empty((M, N), tile.f32), tile.empty((M, N), tile.f32))
    for _ in tile.grid(1, block=1):
        v = x[:, :]
        forward[:, :] = tile.cumsum(v, axis=1)
        backward[:, :] = v.cumsum(1, reverse=True)
        down[:, :] = tile.cumsum(v, axis=0)
    return forward, backward, down


def product(a: tile.Tensor, b: tile.Tensor, result: tile.constexpr) -> tile.Tensor:
    B, M, _ = a.shape
    B, _, N = b.shape
    c = tile.empty((B, M, N), result)
    for i, m, n in tile.grid(B, M, N):
        value = tile.dot(a[i, m, :], b[i, :, n])
        tile.static_assert(value.dtype == result)
        c[i, m, n] = value
    return c


def casts(x: tile.Tensor, target: tile.constexpr) -> tile.Tensor:
    N = x.shape[0]
    out = tile.empty(N, target)
    for n in tile.grid(N):
        out[n] = x[n].to(target)
    return out


def random_numbers(out: tile.Tensor, seed: int) -> tile.Tensor:
    M, N = out.shape
    for m, n in tile.grid(M, N):
        offsets = m.index[:, None] * N + n.index
        out[m, n] = tile.rand(seed, offsets) + 10 * (tile.randn(seed + 1, offsets) > 0)
    return out

"""Arithmetic, functions, reductions, scans and products of the language against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.compare import assert_close
from tests.support.kernels import run_kernel
from tiledsl import tile
from tiledsl.ir import dtypes
from tiledsl.ir.dtypes import DType, to_numpy

RNG = np.random.default_rng(1)
DTYPES = [np.bool_, np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint32, np.float16, np.float32, np.float64]


def sample(dtype: Any, *shape: int) -> Any:
    """Small values that all operations take."""
    return RNG.integers(0 if np.dtype(dtype).kind == "u" else -3, 4, shape).astype(dtype)


def of_ours(dtype: Any) -> DType:
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


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("first", DTYPES)
def test_binary_operators_promote_as_numpy(op: str, first: Any) -> None:
    x = sample(first, 9)
    for second in DTYPES:
        y = sample(second, 9)
        if op == "div":
            y[y == 0] = 1
        with np.errstate(all="ignore"):
            expected = BINARY[op](x, y)
        got = run_kernel(binary, x, y, constants={"op": op, "result": of_ours(expected.dtype)})[0]
        assert_close(got, expected)


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


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.float16, np.float32, np.float64])
def test_python_numbers_and_sizes_give_way(dtype: Any) -> None:
    x = sample(dtype, 5)
    floating = np.dtype(dtype).kind == "f"
    rows = [x + 2, 2.5 * x if floating else x * 3, x * 1.5 if floating else x - 4, x + 4, x - 5 + 8]
    got = run_kernel(with_weak_numbers, x, 1.5, 4, constants={"result": of_ours(dtype)})[0]
    assert_close(got, np.stack([row.astype(dtype) for row in rows]))


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


def test_integer_operators() -> None:
    x = RNG.integers(-100, 100, 23).astype(np.int32)
    y = np.where(sample(np.int32, 23) < 0, -7, 5).astype(np.int32)
    expected = np.stack([x // y, x % y, x & y, x | y, x ^ y, ~x, -x, x << 2, x >> 1])
    assert_close(run_kernel(integer_operators, x, y)[0], expected)


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


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.int8])
def test_functions_of_floats_and_integers(name: str, dtype: Any) -> None:
    ours, numpys = UNARY[name]
    x = (RNG.random(9) * 3 + 0.5).astype(dtype) + np.dtype(dtype).type(1)
    kind = np.dtype(dtype)
    expected = numpys(x) if kind.kind == "f" else numpys(x.astype(np.float64))
    wanted = kind if kind.kind == "f" else np.exp(x).dtype
    if kind.kind == "i" and name in ("floor", "ceil", "round", "abs", "relu"):
        wanted = kind
    got = run_kernel(unary, x, constants={"fn": ours, "result": of_ours(wanted)})[0]
    assert_close(got, np.asarray(expected).astype(wanted), relative=4e-3 if wanted == np.float16 else None)


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


def test_functions_of_several_operands() -> None:
    x, y = (RNG.standard_normal(13).astype(np.float32) for _ in range(2))
    erf = np.array([__import__("math").erf(v) for v in x], np.float32)
    half = np.array([__import__("math").erf(v / np.sqrt(2.0)) for v in x], np.float32)
    a = np.abs(x)
    rows = [x * (1 + half) / 2, erf, np.minimum(x, y), np.maximum(x, 0), x.clip(-0.5, 0.5), x * y + 1, a**y,
            np.where(x > y, x, 0), x**2 + a**0.5]  # fmt: skip
    assert_close(run_kernel(more_functions, x, y)[0], np.stack(rows).astype(np.float32))


REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (tile.sum, np.sum),
    "prod": (tile.prod, np.prod),
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


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.bool_])
def test_reductions(name: str, dtype: Any) -> None:
    ours, numpys = REDUCTIONS[name]
    x = sample(dtype, 4, 5)
    for axis in (0, 1, -1, None, (0, 1)):
        if name.startswith("arg") and axis == (0, 1):
            continue
        for keep in (False, True):
            expected = np.asarray(numpys(x, axis=axis, keepdims=keep))
            out = np.zeros_like(expected)
            got = run_kernel(reduction, x, out, constants={"fn": ours, "axis": axis, "keep": keep})[0]
            assert_close(got, expected)


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


def test_folds_with_functions_of_the_user() -> None:
    x = sample(np.float32, 9, 6)
    got = run_kernel(folds, x)
    for actual, expected in zip(got, [x.max(1), x.argmax(1), x.max(1), np.minimum.accumulate(x, 1)]):
        assert_close(actual, expected)


def sums(x: tile.Tensor) -> Any:
    M, N = x.shape
    forward, backward, down = (tile.empty((M, N), tile.f32), tile.empty((M, N), tile.f32), tile.empty((M, N), tile.f32))
    for _ in tile.grid(1, block=1):
        v = x[:, :]
        forward[:, :] = tile.cumsum(v, axis=1)
        backward[:, :] = v.cumsum(1, reverse=True)
        down[:, :] = tile.cumsum(v, axis=0)
    return forward, backward, down


def test_cumulative_sums_along_each_axis_and_reversed() -> None:
    x = sample(np.float32, 4, 7)
    forward, backward, down = run_kernel(sums, x)
    assert_close(forward, x.cumsum(1))
    assert_close(backward, x[:, ::-1].cumsum(1)[:, ::-1])
    assert_close(down, x.cumsum(0))


def product(a: tile.Tensor, b: tile.Tensor, result: tile.constexpr) -> tile.Tensor:
    B, M, _ = a.shape
    B, _, N = b.shape
    c = tile.empty((B, M, N), result)
    for i, m, n in tile.grid(B, M, N):
        value = tile.dot(a[i, m, :], b[i, :, n])
        tile.static_assert(value.dtype == result)
        c[i, m, n] = value
    return c


@pytest.mark.parametrize(
    ("dtype", "result"),
    [("float16", "float32"), ("bfloat16", "float32"), ("float8_e4m3fn", "float32"), ("float32", "float32"),
     ("float64", "float64"), ("int8", "int32"), ("uint8", "int32")],
)  # fmt: skip
def test_batched_products_and_their_accumulators(dtype: str, result: str) -> None:
    element = np.dtype(getattr(ml_dtypes, dtype, dtype))
    a = RNG.integers(0, 5, (2, 9, 6)).astype(element)
    b = RNG.integers(0, 5, (2, 6, 8)).astype(element)
    expected = (a.astype(np.float64) @ b.astype(np.float64)).astype(result)
    assert_close(run_kernel(product, a, b, constants={"result": of_ours(result)})[0], expected)


def casts(x: tile.Tensor, target: tile.constexpr) -> tile.Tensor:
    N = x.shape[0]
    out = tile.empty(N, target)
    for n in tile.grid(N):
        out[n] = x[n].to(target)
    return out


@pytest.mark.parametrize("target", ["f64", "f16", "bf16", "i8", "u32", "bool", "f8e5m2"])
def test_casts(target: str) -> None:
    x = np.array([0, 0.5, 1, 2.75, 3, -0.0, 100], np.float32)
    dtype = dtypes.BY_NAME[target]
    assert_close(run_kernel(casts, x, constants={"target": dtype})[0], x.astype(to_numpy(dtype)))


def random_numbers(out: tile.Tensor, seed: int) -> tile.Tensor:
    M, N = out.shape
    for m, n in tile.grid(M, N):
        offsets = m.index[:, None] * N + n.index
        out[m, n] = tile.rand(seed, offsets) + 10 * (tile.randn(seed + 1, offsets) > 0)
    return out


def test_random_numbers_do_not_depend_on_blocks() -> None:
    a, b = np.zeros((9, 10), np.float32), np.zeros((9, 10), np.float32)
    run_kernel(random_numbers, a, 7, block=3)
    run_kernel(random_numbers, b, 7, block=16)
    assert (a == b).all()
    assert len(np.unique(a)) > 80

"""Arithmetic, functions, reductions, scans and products of the language against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.compare import assert_close
from tests.support.kernels.kernels_computing import (
    BINARY,
    REDUCTIONS,
    UNARY,
    binary,
    casts,
    folds,
    integer_operators,
    more_functions,
    of_ours,
    product,
    random_numbers,
    reduction,
    sums,
    unary,
    with_weak_numbers,
)
from tests.support.kernels.lowered_kernels import run_kernel
from tiledsl.ir import dtypes
from tiledsl.ir.dtypes import to_numpy

RNG = np.random.default_rng(1)
DTYPES = [np.bool_, np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint32, np.float16, np.float32, np.float64]


def sample(dtype: Any, *shape: int) -> Any:
    """Small values that all operations take."""
    return RNG.integers(0 if np.dtype(dtype).kind == "u" else -3, 4, shape).astype(dtype)


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


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.float16, np.float32, np.float64])
def test_python_numbers_and_sizes_give_way(dtype: Any) -> None:
    x = sample(dtype, 5)
    floating = np.dtype(dtype).kind == "f"
    rows = [x + 2, 2.5 * x if floating else x * 3, x * 1.5 if floating else x - 4, x + 4, x - 5 + 8]
    got = run_kernel(with_weak_numbers, x, 1.5, 4, constants={"result": of_ours(dtype)})[0]
    assert_close(got, np.stack([row.astype(dtype) for row in rows]))


def test_integer_operators() -> None:
    x = RNG.integers(-100, 100, 23).astype(np.int32)
    y = np.where(sample(np.int32, 23) < 0, -7, 5).astype(np.int32)
    expected = np.stack([x // y, x % y, x & y, x | y, x ^ y, ~x, -x, x << 2, x >> 1])
    assert_close(run_kernel(integer_operators, x, y)[0], expected)


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


def test_functions_of_several_operands() -> None:
    x, y = (RNG.standard_normal(13).astype(np.float32) for _ in range(2))
    erf = np.array([__import__("math").erf(v) for v in x], np.float32)
    half = np.array([__import__("math").erf(v / np.sqrt(2.0)) for v in x], np.float32)
    a = np.abs(x)
    rows = [x * (1 + half) / 2, erf, np.minimum(x, y), np.maximum(x, 0), x.clip(-0.5, 0.5), x * y + 1, a**y,
            np.where(x > y, x, 0), x**2 + a**0.5]  # fmt: skip
    assert_close(run_kernel(more_functions, x, y)[0], np.stack(rows).astype(np.float32))


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


def test_folds_with_functions_of_the_user() -> None:
    x = sample(np.float32, 9, 6)
    got = run_kernel(folds, x)
    for actual, expected in zip(got, [x.max(1), x.argmax(1), x.max(1), np.minimum.accumulate(x, 1)]):
        assert_close(actual, expected)


def test_cumulative_sums_along_each_axis_and_reversed() -> None:
    x = sample(np.float32, 4, 7)
    forward, backward, down = run_kernel(sums, x)
    assert_close(forward, x.cumsum(1))
    assert_close(backward, x[:, ::-1].cumsum(1)[:, ::-1])
    assert_close(down, x.cumsum(0))


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


@pytest.mark.parametrize("target", ["f64", "f16", "bf16", "i8", "u32", "bool", "f8e5m2"])
def test_casts(target: str) -> None:
    x = np.array([0, 0.5, 1, 2.75, 3, -0.0, 100], np.float32)
    dtype = dtypes.BY_NAME[target]
    assert_close(run_kernel(casts, x, constants={"target": dtype})[0], x.astype(to_numpy(dtype)))


def test_random_numbers_do_not_depend_on_blocks() -> None:
    a, b = np.zeros((9, 10), np.float32), np.zeros((9, 10), np.float32)
    run_kernel(random_numbers, a, 7, block=3)
    run_kernel(random_numbers, b, 7, block=16)
    assert (a == b).all()
    assert len(np.unique(a)) > 80

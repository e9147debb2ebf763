"""Sizes and dtypes on which tile compilers are known to fail, against NumPy; the cheap ones also in the reference."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from attention import attention, numpy_attention
from gemm import gemm
from layer_norm import layer_norm, numpy_layer_norm
from softmax import numpy_softmax, softmax
from tests.support.compare import assert_close
from tests.support.kernels.kernels_field import (
    axpy,
    extremes,
    gather_along,
    gather_rows,
    product,
    running_sums,
    scatter_rows,
    tally,
)
from tiledsl import Kernel, tile
from tiledsl.ir.dtypes import from_numpy
from vector_add import vector_add

Array = npt.NDArray[Any]
BOTH = pytest.mark.parametrize("arch", ["cpu", "reference"])


def normal(*shape: int, dtype: npt.DTypeLike = np.float32, seed: int = 0) -> Array:
    drawn: Array = np.random.default_rng(seed).standard_normal(shape)
    return drawn.astype(dtype)


def integers(low: int, high: int, *shape: int, dtype: npt.DTypeLike = np.int64, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def run(kernel: Kernel, *arguments: object, arch: str = "cpu", **constants: object) -> Any:
    """What the kernel returns when it is compiled for `arch`."""
    if arch == "cpu":
        return kernel(*arguments, **constants)
    return kernel.compile(*arguments, arch=arch, **constants)(*arguments)


# Odd sizes


@BOTH
def test_add_98432(arch: str) -> None:
    x, y = normal(98432), normal(98432, seed=1)
    assert_close(run(vector_add, x, y, arch=arch), x + y)


@BOTH
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_softmax_1823x781(arch: str, dtype: type[np.floating[Any]]) -> None:
    x = normal(1823, 781, dtype=dtype)
    expected = numpy_softmax(x.astype(np.float32)).astype(dtype)
    # f16 rounds after each step: the difference from the maximum, and so e, are off by up to 2e-3 of themselves
    assert_close(run(softmax, x, arch=arch), expected, relative=1e-5 if dtype is np.float32 else 5e-3, absolute=1e-7)


@pytest.mark.parametrize("sizes", [(2000, 1000, 2000), (208, 416, 304), (1, 1000, 1), (33, 1, 65)])
def test_gemm(sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    a, b = normal(m, k), normal(k, n, seed=1)
    assert_close(run(gemm, a, b), a @ b, terms=k)


def test_layer_norm_1151x8192_f16() -> None:
    x, weight, bias = (
        normal(1151, 8192, dtype=np.float16),
        normal(8192, dtype=np.float16),
        normal(8192, dtype=np.float16),
    )
    wide = [array.astype(np.float32) for array in (x, weight, bias)]
    expected = numpy_layer_norm(wide[0], wide[1], wide[2]).astype(np.float16)
    assert_close(run(layer_norm, x, weight, bias, 1e-5), expected)


@BOTH
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("keys", [32, 63])
@pytest.mark.parametrize("queries", [1, 15, 32])
def test_attention(queries: int, keys: int, causal: bool, arch: str) -> None:
    q, k, v = normal(3, queries, 40), normal(3, keys, 40, seed=1), normal(3, keys, 40, seed=2)
    assert_close(run(attention, q, k, v, arch=arch, causal=causal), numpy_attention(q, k, v, causal), terms=keys)


@BOTH
def test_attention_of_queries_that_see_no_key(arch: str) -> None:
    q, k, v = normal(2, 20, 16), normal(2, 7, 16, seed=1), normal(2, 7, 16, seed=2)
    actual = run(attention, q, k, v, arch=arch, causal=True)
    assert_close(actual[:, :13], np.zeros((2, 13, 16), np.float32))
    assert_close(actual[:, 13:], numpy_attention(q[:, 13:], k, v, True), terms=7)


# Reductions and scans


@BOTH
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float16])
@pytest.mark.parametrize("nan", [False, True])
def test_argmax_with_ties(dtype: npt.DTypeLike, nan: bool, arch: str) -> None:
    x = integers(0, 3, 37, 53, dtype=dtype)
    if nan and x.dtype.kind == "f":
        x[::3, 5:50:7] = np.nan
    expected = x.argmax(axis=1), x.argmax(axis=0), x.argmin(axis=1), x.argmax()
    for actual, indices in zip(run(extremes, x, arch=arch), expected):
        assert_close(actual, indices)


@BOTH
@pytest.mark.parametrize("dtype", [np.float32, np.int8])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_cumsum(axis: int, reverse: bool, dtype: npt.DTypeLike, arch: str) -> None:
    x = integers(-100, 100, 5, 19, 33, dtype=dtype)
    expected = np.flip(np.cumsum(np.flip(x, axis), axis), axis) if reverse else np.cumsum(x, axis)
    result = from_numpy(expected.dtype)
    assert_close(run(running_sums, x, arch=arch, axis=axis, reverse=reverse, result=result), expected)


# Access by index


@BOTH
@pytest.mark.parametrize("dtype", [np.float32, np.int8, ml_dtypes.bfloat16])
@pytest.mark.parametrize("index_dtype", [np.int32, np.int64, np.uint8])
def test_gather_128x64_to_256x64(dtype: npt.DTypeLike, index_dtype: npt.DTypeLike, arch: str) -> None:
    x, index = integers(-9, 9, 128, 64, dtype=dtype), integers(0, 128, 256, dtype=index_dtype, seed=1)
    assert_close(run(gather_rows, x, index, arch=arch), x[index])


@BOTH
def test_gather_along_an_axis_128x64_to_256x64(arch: str) -> None:
    x, index = normal(128, 64), integers(0, 128, 256, 64)
    assert_close(run(gather_along, x, index, arch=arch), np.take_along_axis(x, index, axis=0))


@BOTH
def test_scatter(arch: str) -> None:
    x, index = normal(130, 67), np.random.default_rng(0).permutation(200)[:130]
    index[7] = -1  # dropped, as all that lies outside
    index[8] = 200
    out, expected = np.zeros((200, 67), np.float32), np.zeros((200, 67), np.float32)
    kept = (index >= 0) & (index < 200)
    expected[index[kept]] = x[kept]
    run(scatter_rows, x, index, out, arch=arch)
    assert_close(out, expected)


@BOTH
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_atomics(dtype: npt.DTypeLike, arch: str) -> None:
    bins, weights = integers(0, 10, 5000), integers(1, 100, 5000, dtype=dtype, seed=1)
    sums, largest = np.zeros(10, dtype), np.zeros(10, dtype)
    run(tally, bins, weights, sums, largest, arch=arch)
    expected = np.zeros(10, dtype), np.zeros(10, dtype)
    np.add.at(expected[0], bins, weights)
    np.maximum.at(expected[1], bins, weights)
    assert_close(sums, expected[0])  # whole numbers below 2 ** 24: exact in any order
    assert_close(largest, expected[1])


# Products of other dtypes


@BOTH
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_gemm_of_narrow_floats(dtype: str, arch: str) -> None:
    a, b = normal(45, 70, dtype=dtype), normal(70, 52, dtype=dtype, seed=1)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    assert_close(run(product, a, b, arch=arch, result=tile.f32), expected, terms=70)
    assert_close(run(gemm, a, b, arch=arch), expected.astype(dtype), terms=4)


@BOTH
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_gemm_of_bytes(dtype: npt.DTypeLike, arch: str) -> None:
    a, b = integers(0, 256, 45, 70).astype(dtype), integers(0, 256, 70, 52, seed=1).astype(dtype)
    expected = a.astype(np.int32) @ b.astype(np.int32)
    assert_close(run(product, a, b, arch=arch, result=tile.i32), expected)


@BOTH
def test_gemm_f64(arch: str) -> None:
    a, b = normal(45, 70, dtype=np.float64), normal(70, 52, dtype=np.float64, seed=1)
    assert_close(run(product, a, b, arch=arch, result=tile.f64), a @ b, terms=70)


# Arrays of every kind


@BOTH
def test_zero_sizes(arch: str) -> None:
    assert run(vector_add, normal(0), normal(0), arch=arch).shape == (0,)
    for m, k, n in [(0, 4, 5), (3, 4, 0), (0, 0, 0)]:
        assert run(gemm, normal(m, k), normal(k, n), arch=arch).shape == (m, n)
    assert_close(run(gemm, normal(3, 0), normal(0, 5), arch=arch), np.zeros((3, 5), np.float32))
    for shape in [(0, 7), (7, 0)]:
        assert run(softmax, normal(*shape), arch=arch).shape == shape
    assert_close(
        run(attention, normal(2, 3, 8), normal(2, 0, 8), normal(2, 0, 8), arch=arch), np.zeros((2, 3, 8), "f4")
    )


@BOTH
def test_arrays_without_axes(arch: str) -> None:
    x, total = integers(0, 9, 100, dtype=np.float32), np.array(1, np.float32)
    y, returned = run(axpy, np.array(2, np.float32), x, total, arch=arch)
    assert_close(y, 2 * x)
    assert_close(returned, np.array(1 + 2 * x.sum(), np.float32))
    assert total == returned


def views(x: Array) -> dict[str, Array]:
    """The 24 x 24 array `x` and views of memory that hold other numbers in between."""
    spread = np.zeros((48, 72), x.dtype)
    spread[::2, 1::3] = x
    read_only: Array = np.array(x)
    read_only.flags.writeable = False
    return {
        "plain": x,
        "spread": spread[::2, 1::3],
        "by columns": np.asfortranarray(x),
        "transposed": np.transpose(np.array(np.transpose(x), order="C")),
        "backwards": np.array(x[::-1, ::-1])[::-1, ::-1],
        "read only": read_only,
    }


@BOTH
@pytest.mark.parametrize("first", list(views(normal(24, 24))))
@pytest.mark.parametrize("second", list(views(normal(24, 24))))
def test_strides(first: str, second: str, arch: str) -> None:
    a, b = views(normal(24, 24))[first], views(normal(24, 24, seed=1))[second]
    assert_close(run(gemm, a, b, arch=arch), a @ b, terms=24)


@BOTH
def test_broadcast_and_unaligned_inputs(arch: str) -> None:
    row = np.broadcast_to(normal(50), (20, 50))
    assert_close(run(softmax, row, arch=arch), numpy_softmax(row))
    unaligned: Array = np.ndarray((6, 50), np.float32, buffer=b"\0" + normal(6, 50).tobytes(), offset=1)
    assert not unaligned.flags.aligned
    assert_close(run(softmax, unaligned, arch=arch), numpy_softmax(unaligned))


@pytest.mark.parametrize("view", [name for name in views(normal(24, 24)) if name != "read only"])
def test_out_of_any_strides(view: str) -> None:
    x, out = normal(24, 24), views(np.zeros((24, 24), np.float32))[view]
    assert softmax(x, out=out) is out
    assert_close(out, numpy_softmax(x))
    assert softmax(out, out=out) is out  # in place
    assert_close(out, numpy_softmax(numpy_softmax(x)))

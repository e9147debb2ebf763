"""Reductions, scans and dot products."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.support.compare import assert_close
from tests.support.tile_programs import run
from tiledsl.backend_ref.scalar_functions import Array, cast
from tiledsl.ir import dtypes
from tiledsl.ir.dtypes import BY_NAME


def reduce(x: Array, dtype: str, fn: str, axes: list[int], keepdims: bool = False, result: str = "") -> Array:
    """Runs one reduction of a whole array."""
    kept = [dim for axis, dim in enumerate("ABC"[: x.ndim]) if axis not in axes]
    if keepdims:
        kept = ["1" if axis in axes else dim for axis, dim in enumerate("ABC"[: x.ndim])]
    shape = ", ".join(kept)
    text = f"""
    func @f(%x: tensor<{dtype}, [{", ".join("ABC"[: x.ndim])}]>) {{
      %y = tile.empty() {{shape = [{shape}], dtype = {result or dtype}}}
      %t = tile.load(%x, [{", ".join(":" * x.ndim)}])
      %r = tile.reduce([%t]) {{axes = {axes}, fn = {fn}{", keepdims = true" if keepdims else ""}}}
      tile.store(%y, [{", ".join(":" * len(kept))}], %r)
      tile.return([%y])
    }}
    """
    return run(text, x)[0]


def sample(dtype: str, *shape: int) -> Array:
    return cast(np.random.default_rng(0).integers(-4, 5, shape), BY_NAME[dtype])


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "i64", "i32", "i8", "u8"])
@pytest.mark.parametrize("axes", [[0], [1], [2], [0, 2], [0, 1, 2]])
def test_sums_and_extrema(dtype: str, axes: list[int]) -> None:
    x = sample(dtype, 3, 4, 5)
    wide = cast(x, dtypes.i64)
    for fn, fold in (("add", np.sum), ("max", np.max), ("min", np.min)):
        for keepdims in (False, True):
            expected = cast(np.asarray(fold(wide, axis=tuple(axes), keepdims=keepdims)), BY_NAME[dtype])
            np.testing.assert_array_equal(reduce(x, dtype, fn, axes, keepdims), expected, strict=True)


def test_products_and_bits() -> None:
    x = np.array([[3, 5], [6, 7]], np.int32)
    assert reduce(x, "i32", "mul", [1]).tolist() == [15, 42]
    assert reduce(x, "i32", "and", [0]).tolist() == [2, 5]
    assert reduce(x, "i32", "or", [0]).tolist() == [7, 7]
    flags = np.array([[True, False], [True, True]])
    assert reduce(flags, "bool", "and", [1]).tolist() == [False, True]
    assert reduce(flags, "bool", "or", [1]).tolist() == [True, True]


def test_narrow_floats_round_once() -> None:
    # in f16 alone, adding 1 to 2048 gives 2048 for ever
    assert float(reduce(np.ones(4096, np.float16), "f16", "add", [0])) == 4096
    assert float(reduce(np.full(4, 60000, np.float16), "f16", "max", [0])) == 60000
    assert float(reduce(cast(np.ones(1000), dtypes.bf16), "bf16", "add", [0])) == 1000


def test_integer_sums_wrap() -> None:
    assert int(reduce(np.full(2, 100, np.int8), "i8", "add", [0])) == -56


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
def test_nan_wins_extrema(dtype: str) -> None:
    x = cast(np.array([[1, math.nan, 3, math.nan], [1, 3, 3, 1]]), BY_NAME[dtype])
    for fn in ("max", "min"):
        assert math.isnan(float(reduce(x, dtype, fn, [1])[0]))
    assert reduce(x, dtype, "argmax", [1], result="i64").tolist() == [1, 1]
    assert reduce(x, dtype, "argmin", [1], result="i64").tolist() == [1, 0]


def test_argmax_gives_the_first_of_ties() -> None:
    x = np.random.default_rng(0).integers(0, 3, (6, 20)).astype(np.int32)
    np.testing.assert_array_equal(reduce(x, "i32", "argmax", [1], result="i64"), x.argmax(1), strict=True)
    np.testing.assert_array_equal(reduce(x, "i32", "argmin", [0], True, "i64"), x.argmin(0)[None], strict=True)


@pytest.mark.parametrize(
    ("dtype", "fn", "identity"),
    [("f32", "add", 0), ("f32", "mul", 1), ("f32", "max", -math.inf), ("f16", "min", math.inf),
     ("f8e4m3", "max", -448), ("f8e4m3", "min", 448),
     ("i8", "max", -128), ("u8", "min", 255), ("i32", "and", -1), ("i32", "or", 0), ("i32", "argmax", 0)],
)  # fmt: skip
def test_a_fold_of_nothing_is_the_identity(dtype: str, fn: str, identity: float) -> None:
    x = cast(np.zeros((2, 0)), BY_NAME[dtype])
    result = "i64" if fn == "argmax" else dtype
    assert reduce(x, dtype, fn, [1], result=result).tolist() == [identity] * 2
    assert reduce(x, dtype, fn, [1], True, result).tolist() == [[identity]] * 2


# The position of the last largest element, by hand
CUSTOM = """
func @f(%x: tensor<f32, [M, N]>) {{
  %y = tile.empty() {{shape = [M{one}], dtype = f32}}
  %p = tile.empty() {{shape = [M{one}], dtype = i64}}
  %t = tile.load(%x, [:, :])
  %i = tile.arange() {{extent = N}}
  %is = tile.broadcast(%i) {{shape = [M, N]}}
  %top, %at = tile.reduce([%t, %is]) {{axes = [1], fn = custom{keepdims}}}
      combiner(%a: f32, %i_a: i64, %b: f32, %i_b: i64) {{
    %less = tile.map([%a, %b]) {{fn = gt}}
    {choice}
    tile.yield([%c, %i_c])
  }}
  tile.store(%y, [:{all}], %top)
  tile.store(%p, [:{all}], %at)
  tile.return([%y, %p])
}}
"""
CHOICES = {
    "map": """
    %c = tile.map([%less, %a, %b]) {fn = where}
    %i_c = tile.map([%less, %i_a, %i_b]) {fn = where}
    """,
    "if": """
    %c, %i_c = tile.if(%less) then() { tile.yield([%a, %i_a]) } otherwise() { tile.yield([%b, %i_b]) }
    """,
}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("keepdims", [False, True])
def test_custom_reductions(choice: str, keepdims: bool) -> None:
    one, keep, whole = (", 1", ", keepdims = true", ", :") if keepdims else ("", "", "")
    text = CUSTOM.format(choice=CHOICES[choice], one=one, keepdims=keep, all=whole)
    x = np.array([[1, 3, 3, 0], [5, 5, 5, 5], [-1, -2, -3, -4]], np.float32)
    y, p = run(text, x)
    shape = (3, 1) if keepdims else (3,)
    np.testing.assert_array_equal(y, np.reshape(x.max(1), shape))
    np.testing.assert_array_equal(p, np.reshape(np.array([2, 3, 0]), shape))
    y, p = run(text, np.zeros((2, 0), np.float32))
    assert y.shape == ((2, 1) if keepdims else (2,))
    assert not y.any()


def scan(x: Array, dtype: str, fn: str, axis: int, reverse: bool = False) -> Array:
    text = f"""
    func @f(%x: tensor<{dtype}, [A, B, C]>) {{
      %y = tile.empty() {{shape = [A, B, C], dtype = {dtype}}}
      %t = tile.load(%x, [:, :, :])
      %r = tile.scan([%t]) {{axis = {axis}, fn = {fn}{", reverse = true" if reverse else ""}}}
      tile.store(%y, [:, :, :], %r)
      tile.return([%y])
    }}
    """
    return run(text, x)[0]


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i32"])
def test_scans_in_both_directions(axis: int, dtype: str) -> None:
    x = sample(dtype, 3, 4, 5)
    wide = cast(x, dtypes.i64)
    for fn, fold in (("add", np.add), ("mul", np.multiply), ("max", np.maximum), ("min", np.minimum)):
        forward = cast(fold.accumulate(wide, axis), BY_NAME[dtype])
        backward = cast(np.flip(fold.accumulate(np.flip(wide, axis), axis), axis), BY_NAME[dtype])
        np.testing.assert_array_equal(scan(x, dtype, fn, axis), forward, strict=True)
        np.testing.assert_array_equal(scan(x, dtype, fn, axis, reverse=True), backward, strict=True)


def test_a_scan_of_nothing() -> None:
    assert scan(np.zeros((2, 0, 3), np.float32), "f32", "add", 1).shape == (2, 0, 3)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("size", [0, 1, 6])
def test_custom_scans(reverse: bool, size: int) -> None:
    # y[i] = a[i] * y[i - 1] + b[i], as a scan of pairs
    text = f"""
    func @f(%a: tensor<f64, [M, N]>, %b: tensor<f64, [M, N]>) {{
      %y = tile.empty() {{shape = [M, N], dtype = f64}}
      %at = tile.load(%a, [:, :])
      %bt = tile.load(%b, [:, :])
      %p, %q = tile.scan([%at, %bt]) {{axis = 1, fn = custom{", reverse = true" if reverse else ""}}}
          combiner(%a0: f64, %b0: f64, %a1: f64, %b1: f64) {{
        %a2 = tile.map([%a0, %a1]) {{fn = mul}}
        %b2 = tile.map([%a1, %b0, %b1]) {{fn = fma}}
        tile.yield([%a2, %b2])
      }}
      tile.store(%y, [:, :], %q)
      tile.return([%y])
    }}
    """
    a, b = np.random.default_rng(0).standard_normal((2, 3, size))
    expected = np.zeros((3, size))
    state = np.zeros(3)
    for i in range(size)[::-1] if reverse else range(size):
        state = a[:, i] * state + b[:, i]
        expected[:, i] = state
    assert_close(run(text, a, b)[0], expected)


def dot(a: Array, b: Array, acc: Array | None, dtype: str, result: str) -> Array:
    batch = ["B", "H"][: a.ndim - 2]
    a_shape, b_shape, c_shape = (", ".join([*batch, *dims]) for dims in ("MK", "KN", "MN"))
    every = ", ".join(":" * a.ndim)
    text = f"""
    func @f(%a: tensor<{dtype}, [{a_shape}]>, %b: tensor<{dtype}, [{b_shape}]>, %c: tensor<{result}, [{c_shape}]>) {{
      %y = tile.empty() {{shape = [{c_shape}], dtype = {result}}}
      %at = tile.load(%a, [{every}])
      %bt = tile.load(%b, [{every}])
      %ct = tile.load(%c, [{every}])
      %r = tile.dot(%at, %bt{", %ct" if acc is not None else ""}) {{dtype = {result}}}
      tile.store(%y, [{every}], %r)
      tile.return([%y])
    }}
    """
    shape = (*a.shape[:-1], b.shape[-1])
    return run(text, a, b, cast(np.zeros(shape), BY_NAME[result]) if acc is None else acc)[0]


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2"])
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_dots_of_floats(dtype: str, batch: tuple[int, ...]) -> None:
    result = "f64" if dtype == "f64" else "f32"
    random = np.random.default_rng(0)
    a, b = (cast(random.standard_normal((*batch, *shape)), BY_NAME[dtype]) for shape in ((4, 9), (9, 5)))
    acc = cast(random.standard_normal((*batch, 4, 5)), BY_NAME[result])
    exact = cast(a, dtypes.f64) @ cast(b, dtypes.f64)
    assert_close(dot(a, b, None, dtype, result), cast(exact, BY_NAME[result]))
    assert_close(dot(a, b, acc, dtype, result), cast(exact + acc, BY_NAME[result]))


def test_dots_of_integers_are_exact_and_wrap() -> None:
    a, b = np.full((1, 3), -128, np.int8), np.full((3, 1), -128, np.int8)
    assert dot(a, b, None, "i8", "i32").tolist() == [[3 * 128 * 128]]
    assert dot(a, b, np.full((1, 1), 2**31 - 1, np.int32), "i8", "i32").tolist() == [[3 * 128 * 128 - 2**31 - 1]]
    u = np.full((1, 1), 255, np.uint8)
    assert dot(u, u, None, "u8", "i32").tolist() == [[255 * 255]]


def test_a_dot_over_nothing_is_0() -> None:
    a, b = np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32)
    assert dot(a, b, None, "f32", "f32").tolist() == [[0.0] * 3] * 2

"""Subscripts, loads, stores and atomics, inside of tensors and outside."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.tile_programs import run
from tiledsl.backend_ref.scalar_functions import cast
from tiledsl.ir import dtypes
from tiledsl.ir.dtypes import BY_NAME
from tiledsl.support.errors import TileRuntimeError

I64 = npt.NDArray[np.int64]


def counting(*shape: int) -> I64:
    return np.reshape(np.arange(int(np.prod(shape)), dtype=np.int64), shape)


STENCIL = """
func @stencil(%x: tensor<i64, [N]>, %shift: i64, %pad: i64) {
  %y = tile.empty() {shape = [N], dtype = i64}
  %N = tile.size() {value = N}
  tile.grid([%N]) {blocks = [auto]} body(%n: axis<n>) {
    %moved = tile.shift(%n, %shift)
    %t = tile.load(%x, [%moved], %pad)
    tile.store(%y, [%n], %t)
  }
  tile.return([%y])
}
"""


@pytest.mark.parametrize("shift", [-20, -3, -1, 0, 1, 5, 20])
def test_shifted_loads_read_other_outside(shift: int) -> None:
    x = counting(17)
    padded = np.pad(x, 20, constant_values=-9)
    for block in (1, 4, 30):
        (y,) = run(STENCIL, x, shift, -9, block=block)
        np.testing.assert_array_equal(y, padded[20 + shift : 37 + shift])


def test_shifted_stores_are_dropped_outside() -> None:
    text = """
    func @f(%x: tensor<i64, [N]>, %y: tensor<i64, [N]>, %shift: i64) {
      %N = tile.size() {value = N}
      tile.grid([%N]) {blocks = [auto]} body(%n: axis<n>) {
        %t = tile.load(%x, [%n])
        %moved = tile.shift(%n, %shift)
        tile.store(%y, [%moved], %t)
      }
      tile.return([%y])
    }
    """
    x = counting(10)
    assert run(text, x, np.full(10, -1), 3, block=4)[0].tolist() == [-1, -1, -1, 0, 1, 2, 3, 4, 5, 6]
    assert run(text, x, np.full(10, -1), -3, block=4)[0].tolist() == [3, 4, 5, 6, 7, 8, 9, -1, -1, -1]


GATHER = """
func @gather(%x: tensor<i64, [R, C]>, %rows: tensor<i32, [P, Q]>) {
  %y = tile.empty() {shape = [P, Q, C], dtype = i64}
  %P = tile.size() {value = P}
  %C = tile.size() {value = C}
  tile.grid([%P, %C]) {blocks = [auto, auto]} body(%p: axis<p>, %c: axis<c>) {
    %at = tile.load(%rows, [%p, :])
    %t = tile.load(%x, [%at, %c])
    tile.store(%y, [%p, :, %c], %t)
  }
  tile.return([%y])
}
"""


def test_gather_by_an_int_tile() -> None:
    x = counting(128, 64)
    rows = np.random.default_rng(0).integers(0, 128, (256, 1)).astype(np.int32)
    (y,) = run(GATHER, x, rows, block=50)
    np.testing.assert_array_equal(y, x[rows])


def test_gather_outside_reads_0_and_negative_is_outside() -> None:
    (y,) = run(GATHER, counting(3, 2) + 1, np.array([[2, 3, -1, 0]], np.int32))
    assert y[0].tolist() == [[5, 6], [0, 0], [0, 0], [1, 2]]


def test_int_tiles_broadcast_where_the_first_stands() -> None:
    text = """
    func @f(%x: tensor<i64, [A, B, C, D]>, %i: tensor<i64, [M, 1]>, %j: tensor<i64, [N]>) {
      %y = tile.empty() {shape = [A, M, N, C], dtype = i64}
      %first = tile.load(%i, [:, :])
      %second = tile.load(%j, [:])
      %t = tile.load(%x, [:, %first, :, %second])
      tile.store(%y, [:, :, :, :], %t)
      tile.return([%y])
    }
    """
    x = counting(2, 4, 3, 5)
    i, j = np.array([[3], [0]]), np.array([4, 1, 1])
    (y,) = run(text, x, i, j)
    assert y.shape == (2, 2, 3, 3)
    for a, m, n, c in itertools.product(range(2), range(2), range(3), range(3)):
        assert y[a, m, n, c] == x[a, i[m, 0], c, j[n]]


def test_scatter_drops_what_is_outside() -> None:
    text = """
    func @f(%x: tensor<i64, [N, C]>, %rows: tensor<u64, [N]>, %y: tensor<i64, [R, C]>) {
      %N = tile.size() {value = N}
      tile.grid([%N]) {blocks = [auto]} body(%n: axis<n>) {
        %at = tile.load(%rows, [%n])
        %t = tile.load(%x, [%n, :])
        tile.store(%y, [%at, :], %t)
      }
      tile.return([%y])
    }
    """
    rows = np.array([2, 7, 0, 2**64 - 1], np.uint64)
    (y,) = run(text, counting(4, 2) + 1, rows, np.zeros((3, 2), np.int64))
    assert y.tolist() == [[5, 6], [0, 0], [1, 2]]


def test_scalars_slices_and_whole_axes() -> None:
    text = """
    func @f(%x: tensor<i64, [A, B, C]>, %i: i64) {
      %y = tile.empty() {shape = [2, C], dtype = i64}
      %t = tile.load(%x, [%i, 1:3, :])
      tile.store(%y, [0:2, :], %t)
      %z = tile.empty() {shape = [], dtype = i64}
      %s = tile.load(%x, [%i, %i, %i])
      tile.store(%z, [], %s)
      %back = tile.load(%z, [])
      %w = tile.empty() {shape = [], dtype = i64}
      tile.store(%w, [], %back)
      tile.return([%y, %w])
    }
    """
    x = counting(2, 3, 4)
    y, w = run(text, x, 1)
    np.testing.assert_array_equal(y, x[1, 1:3])
    assert w.shape == ()
    assert int(w) == x[1, 1, 1]
    y, w = run(text, x, 2)
    assert y.tolist() == [[0] * 4] * 2
    assert int(w) == 0


def test_a_slice_beyond_the_end_reads_other() -> None:
    text = """
    func @f(%x: tensor<f32, [N]>) {
      %y = tile.empty() {shape = [N + 2], dtype = f32}
      %low = tile.constant() {value = -inf, dtype = f32}
      %t = tile.load(%x, [0:N + 2], %low)
      tile.store(%y, [:], %t)
      tile.return([%y])
    }
    """
    (y,) = run(text, np.zeros(2, np.float32))
    assert y.tolist() == [0, 0, -np.inf, -np.inf]


def test_a_load_keeps_what_it_has_read() -> None:
    text = """
    func @swap(%x: tensor<i64, [2, N]>) {
      %zero = tile.constant() {value = 0, dtype = i64}
      %one = tile.constant() {value = 1, dtype = i64}
      %a = tile.load(%x, [%zero, :])
      %b = tile.load(%x, [%one, :])
      tile.store(%x, [%zero, :], %b)
      tile.store(%x, [%one, :], %a)
      tile.return([%x])
    }
    """
    x = counting(2, 3)
    (y,) = run(text, x)
    assert y is x
    assert x.tolist() == [[3, 4, 5], [0, 1, 2]]


IN_BOUNDS = """
func @f(%x: tensor<i64, [N]>, %shift: i64) {
  %N = tile.size() {value = N}
  tile.grid([%N]) {blocks = [4]} body(%n: axis<n>) {
    %moved = tile.shift(%n, %shift)
    %t = tile.load(%x, [%moved]) {in_bounds = [0]}
  }
  tile.return([%x])
}
"""


def test_promises_of_being_in_bounds_are_checked() -> None:
    run(IN_BOUNDS, counting(6), 0)
    with pytest.raises(TileRuntimeError, match=r"axis 0 of %x is in bounds, but coordinate 6 is outside of its size 6"):
        run(IN_BOUNDS, counting(6), 1)


ATOMIC = """
func @f(%bins: tensor<{dtype}, [B]>, %at: tensor<i64, [N]>, %values: tensor<{dtype}, [N]>) {{
  %before = tile.empty() {{shape = [N], dtype = {dtype}}}
  %N = tile.size() {{value = N}}
  tile.grid([%N]) {{blocks = [auto]}} body(%n: axis<n>) {{
    %i = tile.load(%at, [%n])
    %v = tile.load(%values, [%n])
    %old = tile.atomic(%bins, [%i], %v) {{fn = {fn}}}
    tile.store(%before, [%n], %old)
  }}
  tile.return([%bins, %before])
}}
"""


@pytest.mark.parametrize("dtype", ["i32", "f32", "bf16"])
def test_atomic_add_counts_every_element(dtype: str) -> None:
    at = np.random.default_rng(0).integers(-1, 6, 40)
    kind = BY_NAME[dtype]
    bins, values = cast(np.zeros(5), kind), cast(np.ones(40), kind)
    counts, before = run(ATOMIC.format(dtype=dtype, fn="add"), bins, at, values)
    inside = at[(at >= 0) & (at < 5)]
    assert cast(counts, dtypes.i64).tolist() == np.bincount(inside, minlength=5).tolist()
    # each element sees how many came before it
    seen = [int(np.count_nonzero(at[:i] == bin)) if 0 <= bin < 5 else 0 for i, bin in enumerate(at)]
    assert cast(before, dtypes.i64).tolist() == seen


@pytest.mark.parametrize(
    ("fn", "expected"),
    [("max", [5, 9]), ("min", [-7, 2]), ("and", [4 & 5 & -7, 6 & 2 & 9]), ("or", [4 | 5 | -7, 6 | 2 | 9]),
     ("xor", [4 ^ 5 ^ -7, 6 ^ 2 ^ 9]), ("exchange", [-7, 9])],
)  # fmt: skip
def test_other_atomics(fn: str, expected: list[int]) -> None:
    bins, at, values = np.array([4, 6]), np.array([0, 1, 0, 1]), np.array([5, 2, -7, 9])
    assert run(ATOMIC.format(dtype="i64", fn=fn), bins, at, values)[0].tolist() == expected


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2"])
def test_an_unwritten_tensor_shows_itself(dtype: str) -> None:
    text = f"""
    func @f() {{
      %y = tile.empty() {{shape = [3], dtype = {dtype}}}
      tile.return([%y])
    }}
    """
    assert np.isnan(cast(run(text)[0], dtypes.f64)).all()


@pytest.mark.parametrize("dtype", ["i8", "u16", "bool", "bf16"])
def test_a_new_tensor_can_be_filled(dtype: str) -> None:
    text = f"""
    func @f() {{
      %one = tile.constant() {{value = 1, dtype = {dtype}}}
      %y = tile.empty(%one) {{shape = [2, 3], dtype = {dtype}}}
      tile.return([%y])
    }}
    """
    assert cast(run(text)[0], dtypes.i64).tolist() == [[1] * 3] * 2


def test_parts_of_tiles() -> None:
    text = """
    func @f(%x: tensor<i64, [A, B]>, %i: i64) {
      %y = tile.empty() {shape = [2], dtype = i64}
      %z = tile.empty() {shape = [], dtype = i64}
      %t = tile.load(%x, [:, :])
      %row = tile.extract(%t, [%i, 1:3])
      %element = tile.extract(%t, [%i, %i])
      tile.store(%y, [:], %row)
      tile.store(%z, [], %element)
      tile.return([%y, %z])
    }
    """
    y, z = run(text, counting(3, 4), 2)
    assert y.tolist() == [9, 10]
    assert int(z) == 10


def test_an_empty_tensor_can_be_read_and_written() -> None:
    text = """
    func @f(%x: tensor<i64, [N]>) {
      %y = tile.empty() {shape = [3], dtype = i64}
      %i = tile.arange() {extent = 3}
      %t = tile.load(%x, [%i])
      tile.store(%x, [%i], %t)
      tile.store(%y, [:], %t)
      tile.return([%y])
    }
    """
    assert run(text, counting(0))[0].tolist() == [0, 0, 0]

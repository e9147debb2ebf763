"""Loops whose sums stay in registers: numbers are those of the reference executor, within tensors and at their ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.compare import assert_close
from tests.support.cpu_programs import run_on_cpu
from tests.support.tile_programs import run
from tiledsl import tile
from tiledsl.ir.dtypes import BY_NAME, to_numpy
from tiledsl.passes.machine import MACHINES

WINDOWS = """
func @windows(%x: tensor<DTYPE, [H, W, C]>, %w: tensor<DTYPE, [K, L, C]>, %p: i64, %q: i64, %step: i64) {
  %y = tile.empty() {shape = [P, Q, C], dtype = DTYPE}
  %rows = tile.size() {value = P} : i64
  %columns = tile.size() {value = Q} : i64
  %channels = tile.size() {value = C} : i64
  tile.grid([%rows, %columns, %channels]) {blocks = [auto, auto, auto]} body(%a: axis<a>, %b: axis<b>, %c: axis<c>) {
    %start = tile.load(%z, [%a, %b, %c]) : tile<DTYPE, [a, b, c]>
    %0 = tile.constant() {value = 0, dtype = i64} : i64
    %k_stop = tile.size() {value = K} : i64
    %l_stop = tile.size() {value = L} : i64
    %at = tile.index(%b) : tile<i64, [b]>
    %stepped = tile.map([%at, %step]) {fn = mul} : tile<i64, [b]>
    %sum = tile.range(%0, %k_stop, [%start]) {blocks = [1]} : tile<DTYPE, [a, b, c]>
        body(%k: i64, %s: tile<DTYPE, [a, b, c]>) {
      %up = tile.map([%k, %p]) {fn = sub} : i64
      %a_1 = tile.shift(%a, %up) : axis<a>
      %inner = tile.range(%0, %l_stop, [%s]) {blocks = [1]} : tile<DTYPE, [a, b, c]>
          body(%l: i64, %t: tile<DTYPE, [a, b, c]>) {
        %left = tile.map([%l, %q]) {fn = sub} : i64
        PLACE
        %w_1 = tile.load(%w, [%k, %l, %c]) : tile<DTYPE, [c]>
        %w_2 = tile.broadcast(%w_1) {shape = [a, b, c]} : tile<DTYPE, [a, b, c]>
        %product = tile.map([%x_1, %w_2]) {fn = mul} : tile<DTYPE, [a, b, c]>
        %next = tile.map([%t, %product]) {fn = FN} : tile<DTYPE, [a, b, c]>
        tile.yield([%next])
      }
      tile.yield([%inner])
    }
    tile.store(%y, [%a, %b, %c], %sum)
  }
  tile.return([%y])
}
""".replace("%w: tensor<DTYPE, [K, L, C]>,", "%w: tensor<DTYPE, [K, L, C]>, %z: tensor<DTYPE, [P, Q, C]>,")
SHIFTED = """%b_1 = tile.shift(%b, %left) : axis<b>
        %x_1 = tile.load(%x, [%a_1, %b_1, %c]) : tile<DTYPE, [a, b, c]>"""
STEPPED = """%b_1 = tile.map([%stepped, %left]) {fn = add} : tile<i64, [b]>
        %x_1 = tile.load(%x, [%a_1, %b_1, %c]) : tile<DTYPE, [a, b, c]>"""
ALONG = """%both = tile.map([%left, %k]) {fn = add} : i64
        %c_1 = tile.shift(%c, %both) : axis<c>
        %x_1 = tile.load(%x, [%a_1, %b, %c_1]) : tile<DTYPE, [a, b, c]>"""


def numbers(seed: int, shape: tuple[int, ...], dtype: str) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(to_numpy(BY_NAME[dtype]))


@settings(max_examples=8)
@given(st.data())
def test_sums_of_windows(data: st.DataObject) -> None:
    draw = data.draw
    dtype, place = (
        draw(st.sampled_from(("f32", "f32", "bf16", "f64"))),
        draw(st.sampled_from((SHIFTED, STEPPED, ALONG))),
    )
    h, w, c = draw(st.integers(1, 9)), draw(st.integers(1, 11)), draw(st.sampled_from((1, 3, 16, 33, 48)))
    k, left, p, q = draw(st.integers(0, 3)), draw(st.integers(1, 4)), draw(st.integers(-1, 3)), draw(st.integers(-2, 3))
    step = draw(st.integers(1, 3))
    outs = draw(st.integers(1, 7)), draw(st.integers(1, 9))
    text = (
        WINDOWS.replace("PLACE", place).replace("DTYPE", dtype).replace("FN", draw(st.sampled_from(("add", "maximum"))))
    )
    arrays = [numbers(i, s, dtype) for i, s in enumerate([(h, w, c), (k, left, c), (*outs, c)])]
    block, machine = draw(st.sampled_from((4, 16))), MACHINES[draw(st.sampled_from(("avx512", "avx2", "generic")))]
    (expected,) = run(text, *arrays, p, q, step, block=block)
    (actual,) = run_on_cpu(text, *arrays, p, q, step, block=block, machine=machine)
    assert_close(actual, expected, terms=k * left + 1)


@tile.kernel
def smoothed(x: Any, w: Any) -> Any:
    """y[n, c] = sum of x[n + k, c] * w[k, c]."""
    n, c = x.shape
    r, c = w.shape
    y = tile.empty((n, c), tile.f32)
    for i, j in tile.grid(n, c):
        acc = tile.zeros((i, j), tile.f32)
        for k in tile.range(r, block=1):
            acc = acc + x[i + k, j] * w[k, j]
        y[i, j] = acc
    return y


def test_sums_have_no_place_in_scratch() -> None:
    compiled = smoothed.compile(tile.spec((64, 64), tile.f32), tile.spec((3, 64), tile.f32), arch="cpu")
    assert "ptr %scratch, i64" not in compiled.source


def test_tiles_that_are_read_elsewhere_have_one() -> None:
    @tile.kernel
    def normed(x: Any, w: Any) -> Any:
        n, c = x.shape
        r, c = w.shape
        y = tile.empty((n, c), tile.f32)
        for i in tile.grid(n):
            acc = tile.zeros((i, c), tile.f32)
            for k in tile.range(r, block=1):
                acc = acc + x[i + k, :] * w[k, :]
            y[i, :] = acc - tile.max(acc, axis=1)[:, None]
        return y

    x, w = numbers(0, (21, 40), "f32"), numbers(1, (3, 40), "f32")
    padded = np.concatenate([x, np.zeros((3, 40), np.float32)])
    sums: Any = sum(padded[k : k + 21] * w[k] for k in range(3))
    assert_close(normed(x, w), sums - sums.max(axis=1, keepdims=True), terms=4)


@pytest.mark.parametrize("rows", [1, 4, 7])
def test_rows_that_are_left_over(rows: int) -> None:
    x, w = numbers(0, (rows, 40), "f32"), numbers(1, (3, 40), "f32")
    padded = np.concatenate([x, np.zeros((3, 40), np.float32)])
    assert_close(smoothed(x, w), sum(padded[k : k + rows] * w[k] for k in range(3)), terms=3)

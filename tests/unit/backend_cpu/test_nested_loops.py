"""Tiles that loops within loops carry: they go on in one buffer, and mean what the reference executor says."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.support.compare import assert_close
from tests.support.cpu_programs import run_on_cpu
from tests.support.tile_programs import run
from tiledsl import tile

DOTS = """
func @dots(%x: tensor<f32, [K, M, D]>, %w: tensor<f32, [K, D, N]>) {
  %y = tile.empty() {shape = [M, N], dtype = f32}
  %rows = tile.size() {value = M} : i64
  %columns = tile.size() {value = N} : i64
  tile.grid([%rows, %columns]) {blocks = [auto, auto]} body(%m: axis<m>, %n: axis<n>) {
    %start = tile.constant() {value = START, dtype = f32} : f32
    %zeros = tile.broadcast(%start) {shape = [m, n]} : tile<f32, [m, n]>
    %0 = tile.constant() {value = 0, dtype = i64} : i64
    %places = tile.size() {value = K} : i64
    %depth = tile.size() {value = D} : i64
    %outer = tile.range(%0, %places, [%zeros]) {blocks = [1]} : tile<f32, [m, n]>
        body(%k: i64, %a: tile<f32, [m, n]>) {
      %inner = tile.range(%0, %depth, [%a]) {blocks = [auto]} : tile<f32, [m, n]>
          body(%d: axis<d>, %b: tile<f32, [m, n]>) {
        %x_1 = tile.load(%x, [%k, %m, %d]) : tile<f32, [m, d]>
        %w_1 = tile.load(%w, [%k, %d, %n]) : tile<f32, [d, n]>
        %c = tile.dot(%x_1, %w_1, %b) {dtype = f32} : tile<f32, [m, n]>
        tile.yield([%c])
      }
      tile.yield([%inner])
    }
    tile.store(%y, [%m, %n], %outer)
  }
  tile.return([%y])
}
"""

TURNS = """
func @turns(%x: tensor<f32, [N]>, %times: i64) {
  %y = tile.empty() {shape = [N], dtype = f32}
  %z = tile.empty() {shape = [N], dtype = f32}
  %size = tile.size() {value = N} : i64
  tile.grid([%size]) {blocks = [auto]} body(%n: axis<n>) {
    %x_1 = tile.load(%x, [%n]) : tile<f32, [n]>
    %x_2 = tile.map([%x_1, %x_1]) {fn = add} : tile<f32, [n]>
    %0 = tile.constant() {value = 0, dtype = i64} : i64
    %1 = tile.constant() {value = 3, dtype = i64} : i64
    %p, %q = tile.range(%0, %1, [%x_1, %x_2]) {blocks = [1]} : tile<f32, [n]>, tile<f32, [n]>
        body(%k: i64, %a: tile<f32, [n]>, %b: tile<f32, [n]>) {
      %c, %d = tile.range(%0, %times, [%b, %a]) {blocks = [1]} : tile<f32, [n]>, tile<f32, [n]>
          body(%l: i64, %e: tile<f32, [n]>, %f: tile<f32, [n]>) {
        %g = tile.map([%e, %f]) {fn = sub} : tile<f32, [n]>
        tile.yield([%f, %g])
      }
      tile.yield([%c, %d])
    }
    tile.store(%y, [%n], %p)
    tile.store(%z, [%n], %q)
  }
  tile.return([%y, %z])
}
"""


@tile.kernel
def places(x: Any, w: Any) -> Any:
    """y[m, n] = sum of x[k, m, d] @ w[k, d, n]."""
    k, m, d = x.shape
    k, d, n = w.shape
    y = tile.empty((m, n), tile.f32)
    for i, j in tile.grid(m, n):
        acc = tile.zeros((i, j), tile.f32)
        for place in tile.range(k, block=1):
            for c in tile.range(d):
                acc = tile.dot(x[place, i, c], w[place, c, j], acc)
        y[i, j] = acc
    return y


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("start", ["0.0", "2.0"])
@pytest.mark.parametrize(
    ("places", "rows", "depth", "columns"), [(3, 9, 21, 40), (0, 5, 3, 20), (2, 5, 0, 20), (2, 1, 9, 3)]
)
def test_products_in_loops_within_loops(places: int, rows: int, depth: int, columns: int, start: str) -> None:
    text = DOTS.replace("START", start)
    x, w = numbers(places, rows, depth), numbers(places, depth, columns)
    (expected,), (actual,) = run(text, x, w, block=8), run_on_cpu(text, x, w, block=8)
    assert_close(actual, expected, terms=places * depth + 1)


@pytest.mark.parametrize("times", [0, 1, 2])
def test_tiles_that_change_places_on_the_way_into_a_loop(times: int) -> None:
    x = numbers(21)
    for got, want in zip(run_on_cpu(TURNS, x, times, block=8), run(TURNS, x, times, block=8)):
        assert_close(got, want, terms=8)


def test_they_have_one_place() -> None:
    """In scratch there are the sums and the two operands of the product, and nothing for the loop within."""
    source = places.compile(*(tile.spec(s, tile.f32) for s in ((9, 64, 48), (9, 48, 64))), arch="cpu").source
    assert len(re.findall("getelementptr inbounds i8, ptr %scratch", source)) == 3

"""Grids, loops and branches."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.support.tile_programs import run


@pytest.mark.parametrize("block", [1, 2, 3, 50])
def test_a_grid_covers_every_coordinate_once(block: int) -> None:
    text = """
    func @f(%x: tensor<i64, [M, N, P]>) {
      %M = tile.size() {value = M}
      %N = tile.size() {value = N}
      %P = tile.size() {value = P}
      tile.grid([%M, %N, %P]) {blocks = [auto, 1, auto]} body(%m: axis<m>, %j: i64, %p: axis<p>) {
        %t = tile.load(%x, [%m, %j, %p])
        %one = tile.constant() {value = 1, dtype = i64}
        %more = tile.map([%t, %one]) {fn = add}
        tile.store(%x, [%m, %j, %p], %more)
      }
      tile.return([%x])
    }
    """
    (x,) = run(text, np.zeros((5, 3, 7), np.int64), block=block, order=random.Random(0))
    np.testing.assert_array_equal(x, np.ones((5, 3, 7), np.int64))


RANGE = """
func @f(%x: tensor<i64, [N]>, %low: i64, %high: i64) {
  %zero = tile.constant() {value = 0, dtype = i64}
  %sum, %starts, %count = tile.range(%low, %high, [%zero, %zero, %zero]) {blocks = [auto]}
      body(%n: axis<n>, %s: i64, %f: i64, %c: i64) {
    %t = tile.load(%x, [%n])
    %part = tile.reduce([%t]) {axes = [0], fn = add}
    %s1 = tile.map([%s, %part]) {fn = add}
    %start = tile.start(%n)
    %f1 = tile.map([%f, %start]) {fn = add}
    %extent = tile.extent(%n)
    %c1 = tile.map([%c, %extent]) {fn = add}
    tile.yield([%s1, %f1, %c1])
  }
  %y = tile.empty() {shape = [3], dtype = i64}
  %one = tile.constant() {value = 1, dtype = i64}
  %two = tile.constant() {value = 2, dtype = i64}
  tile.store(%y, [%zero], %sum)
  tile.store(%y, [%one], %starts)
  tile.store(%y, [%two], %count)
  tile.return([%y])
}
"""


@pytest.mark.parametrize("block", [1, 4, 5, 40])
@pytest.mark.parametrize(("low", "high"), [(0, 20), (3, 17), (5, 5), (9, 2)])
def test_a_range_has_run_time_bounds(low: int, high: int, block: int) -> None:
    x = np.arange(20) ** 2
    (y,) = run(RANGE, x, low, high, block=block)
    expected = [x[low:high].sum(), sum(range(low, high, block)), max(0, high - low)]
    assert y.tolist() == expected


@pytest.mark.parametrize(("start", "stop", "step"), [(0, 10, 1), (1, 10, 4), (10, 0, -3), (5, 5, 1), (5, 0, 1)])
def test_for_is_pythons_range(start: int, stop: int, step: int) -> None:
    text = """
    func @f(%start: i32, %stop: i32, %step: i32) {
      %zero = tile.constant() {value = 0, dtype = i32}
      %last, %count = tile.for(%start, %stop, %step, [%zero, %zero]) body(%i: i32, %l: i32, %c: i32) {
        %one = tile.constant() {value = 1, dtype = i32}
        %next = tile.map([%c, %one]) {fn = add}
        tile.yield([%i, %next])
      }
      tile.print([%last, %count])
      tile.return([])
    }
    """
    lines: list[str] = []
    run(text, start, stop, step, output=lines.append)
    steps = range(start, stop, step)
    assert lines == [f"{steps[-1] if steps else 0} {len(steps)}"]


COLLATZ = """
func @collatz(%x: tensor<i64, [N]>) {
  %y = tile.empty() {shape = [N], dtype = i64}
  %N = tile.size() {value = N}
  tile.grid([%N]) {blocks = [1]} body(%i: i64) {
    %zero = tile.constant() {value = 0, dtype = i64}
    %one = tile.constant() {value = 1, dtype = i64}
    %two = tile.constant() {value = 2, dtype = i64}
    %three = tile.constant() {value = 3, dtype = i64}
    %first = tile.load(%x, [%i])
    %end, %steps = tile.while([%first, %zero]) condition(%v: i64, %s: i64) {
      %more = tile.map([%v, %one]) {fn = ne}
      tile.yield([%more])
    } body(%v: i64, %s: i64) {
      %rest = tile.map([%v, %two]) {fn = mod}
      %even = tile.map([%rest, %zero]) {fn = eq}
      %next = tile.if(%even) then() {
        %half = tile.map([%v, %two]) {fn = floordiv}
        tile.yield([%half])
      } otherwise() {
        %triple = tile.map([%v, %three]) {fn = mul}
        %plus = tile.map([%triple, %one]) {fn = add}
        tile.yield([%plus])
      }
      %s1 = tile.map([%s, %one]) {fn = add}
      tile.yield([%next, %s1])
    }
    tile.store(%y, [%i], %steps)
  }
  tile.return([%y])
}
"""


def test_while_and_if() -> None:
    (y,) = run(COLLATZ, np.array([1, 2, 3, 6, 7, 27]))
    assert y.tolist() == [0, 1, 7, 8, 16, 111]


def test_if_runs_one_branch_only() -> None:
    text = """
    func @f(%x: tensor<i64, [2]>, %c: bool) {
      %zero = tile.constant() {value = 0, dtype = i64}
      %one = tile.constant() {value = 1, dtype = i64}
      tile.if(%c) then() {
        tile.store(%x, [%zero], %one)
        tile.yield([])
      } otherwise() {
        tile.store(%x, [%one], %one)
        tile.yield([])
      }
      tile.return([%x])
    }
    """
    assert run(text, np.zeros(2, np.int64), True)[0].tolist() == [1, 0]
    assert run(text, np.zeros(2, np.int64), False)[0].tolist() == [0, 1]


def test_two_grids_run_one_after_the_other() -> None:
    text = """
    func @f(%x: tensor<i64, [N]>) {
      %t = tile.empty() {shape = [N], dtype = i64}
      %y = tile.empty() {shape = [N], dtype = i64}
      %N = tile.size() {value = N}
      tile.grid([%N]) {blocks = [auto]} body(%n: axis<n>) {
        %v = tile.load(%x, [%n])
        %doubled = tile.map([%v, %v]) {fn = add}
        tile.store(%t, [%n], %doubled)
      }
      tile.grid([%N]) {blocks = [auto]} body(%n: axis<n>) {
        %all = tile.load(%t, [:])
        %sum = tile.reduce([%all]) {axes = [0], fn = add}
        %sums = tile.broadcast(%sum) {shape = [n]}
        tile.store(%y, [%n], %sums)
      }
      tile.return([%y])
    }
    """
    assert run(text, np.arange(9), block=2)[0].tolist() == [72] * 9

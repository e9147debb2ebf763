"""Loops whose bounds move with blocks: what is counted of them is what runs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.tile_ops import Grid
from tiledsl.passes.cpu.choose_blocks import launch_blocks
from tiledsl.passes.cpu.grid_work import collect_work, trips_of
from tiledsl.passes.cpu.moving_loops import LOOKED_AT, mean_length
from tiledsl.passes.machine import MACHINES
from tiledsl.passes.nest.count_work import WorkCounts
from tiledsl.passes.nest.loop_nest import LoopNest, loop_nest

LOOP = """
func @f(%x: tensor<f32, [K, 64], unit=1>, %q: tensor<f32, [N, 64], unit=1>, %out: tensor<f32, [N, 64], unit=1>,
        %lengths: tensor<i64, [2]>) {{
  %zero = tile.constant() {{value = 0, dtype = i64}} : i64
  %one = tile.constant() {{value = 1, dtype = i64}} : i64
  %window = tile.constant() {{value = 48, dtype = i64}} : i64
  %rows = tile.size() {{value = N}} : i64
  %size = tile.size() {{value = K}} : i64
  %none = tile.constant() {{value = 0.0, dtype = f32}} : f32
  tile.grid([%rows]) {{blocks = [upto(512, 8)]}} body(%n: axis<n>) {{
    %acc = tile.broadcast(%none) {{shape = [n, 64]}} : tile<f32, [n, 64]>
    %first = tile.start(%n) : i64
    %count = tile.extent(%n) : i64
    %end = tile.map([%first, %count]) {{fn = add}} : i64
    %data = tile.load(%lengths, [%zero]) : i64
    %known = tile.map([%data, %size]) {{fn = minimum}} : i64
{bounds}
    %sum = tile.range(%start, %stop, [%acc]) {{blocks = [{block}]}} : tile<f32, [n, 64]>
        body(%k: axis<{k}>, %before: tile<f32, [n, 64]>) {{
      %a = tile.load(%q, [%n, :]) : tile<f32, [n, 64]>
      %b = tile.load(%x, [%k, :]) : tile<f32, [{k}, 64]>
      %c = tile.transpose(%b) {{permutation = [1, 0]}} : tile<f32, [64, {k}]>
      %s = tile.dot(%a, %c) {{dtype = f32}} : tile<f32, [n, {k}]>
      %d = tile.load(%x, [%k, :]) : tile<f32, [{k}, 64]>
      %after = tile.dot(%s, %d, %before) {{dtype = f32}} : tile<f32, [n, 64]>
      tile.yield([%after])
    }}
    tile.store(%out, [%n, :], %sum)
  }}
  tile.return([%out])
}}
"""
CAUSAL = """
    %start = tile.map([%zero, %zero]) {fn = add} : i64
    %stop = tile.map([%end, %size]) {fn = minimum} : i64"""
BAND = """
    %low = tile.map([%first, %window]) {fn = sub} : i64
    %start = tile.map([%low, %zero]) {fn = maximum} : i64
    %stop = tile.map([%end, %size]) {fn = minimum} : i64"""
REST = """
    %start = tile.map([%first, %zero]) {fn = maximum} : i64
    %stop = tile.map([%size, %zero]) {fn = add} : i64"""
UP_TO_DATA = """
    %start = tile.map([%zero, %zero]) {fn = add} : i64
    %apart = tile.map([%known, %rows]) {fn = sub} : i64
    %seen = tile.map([%end, %apart]) {fn = add} : i64
    %stop = tile.map([%seen, %known]) {fn = minimum} : i64"""


def nest_of(bounds: str, block: str = "upto(512, 8)", k: str = "k") -> LoopNest:
    module = parse_module(LOOP.format(bounds=bounds, block=block, k=k))
    (grid,) = (op for op in module.walk() if isinstance(op, Grid))
    return loop_nest(grid)


@pytest.mark.parametrize("bounds", [CAUSAL, BAND, REST], ids=["causal", "band", "rest"])
@given(
    n=st.integers(1, 64).map(lambda count: 8 * count),
    k=st.integers(1, 64).map(lambda count: 8 * count),
    programs=st.integers(1, LOOKED_AT),
    keys=st.integers(1, 3000),
)
def test_multiplications_are_those_that_run(bounds: str, n: int, k: int, programs: int, keys: int) -> None:
    """What the cost model counts is what is counted program by program."""
    sizes, blocks = {"N": programs * n, "K": keys}, {"n": n, "k": k}
    nest = nest_of(bounds)
    work, exact = collect_work(nest), WorkCounts(nest, sizes, blocks)
    (loop,) = work.moving
    length = mean_length(loop, sizes, blocks)
    assert math.isclose(trips_of(work, sizes, blocks)["k"] * min(k, max(1, math.ceil(length))), length)
    for dot in nest.dots:
        assert math.isclose(programs * n * length * 64, exact.multiplied(dot).number)


def test_a_loop_up_to_what_data_say_is_as_long_as_the_program_lets_it_be() -> None:
    work = collect_work(nest_of(UP_TO_DATA))
    sizes = {"N": 1024, "K": 4096}
    trips = trips_of(work, sizes, {"n": 128, "k": 128})
    assert trips["k"] == (4096 - 1024 + (1024 + 128) / 2) / 128


def test_blocks_that_are_given_have_turns_too() -> None:
    """They have no symbol; the loop is a factor of its tasks all the same."""
    work = collect_work(nest_of(CAUSAL, "64", "64"))
    (loop,) = work.moving
    assert not work.loops
    assert all(loop.name in task.loops for task in work.tasks if task.kind == "dot")
    assert trips_of(work, {"N": 1024, "K": 1024}, {"n": 128})[loop.name] == (1024 + 128) / 2 / 64


def test_what_a_mask_hides_of_long_blocks_is_paid_for() -> None:
    """As long a sequence, with and without a mask: with it blocks are shorter."""
    sizes, machine = {"N": 2048, "K": 2048}, MACHINES["avx512"]
    everything = """
    %start = tile.map([%zero, %zero]) {fn = add} : i64
    %stop = tile.map([%size, %zero]) {fn = add} : i64"""
    masked, whole = (launch_blocks(collect_work(nest_of(bounds)), machine, sizes, 1) for bounds in (CAUSAL, everything))
    assert masked["n"] < whole["n"]

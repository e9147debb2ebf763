"""Which programs are planned with their loops written out, and what their threads hold."""

from __future__ import annotations

import pytest

from tiledsl.ir.core import Function
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.gpu.plans.choose_plans import ranked_plans
from tiledsl.passes.gpu.plans.costs.held_tiles import MOST_LIVE_WORDS, live_words
from tiledsl.passes.gpu.plans.split_candidates import costs_of, program_of
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.manager import PassManager
from tiledsl.passes.nest.loop_nest import loop_nests
from tiledsl.passes.pipelines import gpu_front_pipeline

H100 = gpu_machine("sm_90")
SOLVE = """
func @solve(%l: tensor<f32, [N, N, B], unit=2>, %x: tensor<f32, [N, B], unit=1>) {
  %y = tile.empty() {shape = [N, B], dtype = f32}
  %B = tile.size() {value = B}
  %N = tile.size() {value = N}
  tile.grid([%B]) {blocks = [auto]} body(%b: axis<b>) {
    %zero = tile.constant() {value = 0, dtype = i64}
    %one = tile.constant() {value = 1, dtype = i64}
    tile.for(%zero, %N, %one, []) body(%i: i64) {
      %s = tile.load(%x, [%i, %b])
      %sum = tile.for(%zero, %i, %one, [%s]) body(%k: i64, %before: tile<f32, [b]>) {
        %weight = tile.load(%l, [%i, %k, %b])
        %known = tile.load(%y, [%k, %b])
        %product = tile.map([%weight, %known]) {fn = mul}
        %next = tile.map([%before, %product]) {fn = sub}
        tile.yield([%next])
      }
      tile.store(%y, [%i, %b], %sum)
      tile.yield([])
    }
  }
  tile.return([%y])
}
"""


def solve() -> Function:
    return PassManager(gpu_front_pipeline()).run(parse_module(SOLVE)).entry


@pytest.mark.parametrize(("order", "forwarded"), [(8, True), (100, False)])
def test_short_loops_are_written_out(order: int, forwarded: bool) -> None:
    plan = ranked_plans(solve(), H100, {"N": order, "B": 8192}, (16,) * 3, most=1)[0].plan
    assert plan.forwarded is forwarded
    assert (("N", order) in plan.sizes) is forwarded


def test_sizes_that_nobody_knows_stay_loops() -> None:
    assert not ranked_plans(solve(), H100, {"B": 8192}, (16,) * 3, most=1)[0].plan.forwarded


def test_all_tiles_that_are_there_at_once_have_registers() -> None:
    function, sizes = solve(), {"N": 24, "B": 100_000}
    plan = ranked_plans(function, H100, sizes, (16,) * 3, most=1)[0].plan
    assert plan.forwarded
    program = program_of(function, plan)
    (nest,) = loop_nests(program)
    (cost,) = costs_of(program, plan, sizes, H100)
    blocks = dict(plan.blocks)
    assert sum(count for *_, count in nest.live) > 24
    assert 0 < live_words(nest, plan.grids[0], lambda shape: blocks["b"]) <= MOST_LIVE_WORDS
    assert cost.resident * plan.grids[0].threads * live_words(nest, plan.grids[0], lambda _: blocks["b"]) <= 65536


def test_loops_that_wait_are_predicted_to_take_longer() -> None:
    function, sizes = solve(), {"N": 16, "B": 8192}
    plan = ranked_plans(function, H100, sizes, (16,) * 3, most=1)[0].plan
    as_it_is = Plan(plan.grids, blocks=plan.blocks, alignment=plan.alignment)
    seconds = [costs_of(program_of(function, one), one, sizes, H100)[0].times.seconds for one in (plan, as_it_is)]
    assert 4 * seconds[0] < seconds[1]

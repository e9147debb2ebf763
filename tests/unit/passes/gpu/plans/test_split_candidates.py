"""When plans split sums: few blocks with long loops."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tile_programs import GEMM
from tiledsl.ir.core import Function
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.gpu.plan import GridPlan, Plan, RankedPlan
from tiledsl.passes.gpu.plans import choose_plans
from tiledsl.passes.gpu.plans.audit_function import audit_function, audit_plan
from tiledsl.passes.gpu.plans.choose_plans import ranked_plans
from tiledsl.passes.gpu.plans.improve_plan import improved
from tiledsl.passes.gpu.plans.split_candidates import even_parts, program_of, split_plans
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.manager import PassManager
from tiledsl.passes.nest.kernel_audit import KernelAudit
from tiledsl.passes.pipelines import gpu_front_pipeline
from tiledsl.passes.tile.loops.split_sums import UNIT

DEEP = {"M": 64, "N": 64, "K": 65536}
ALIGNED = (16, 16, 16)


FOLD = """
func @sums(%x: tensor<f16, [M, K], unit=1>) {
  %y = tile.empty() {shape = [M], dtype = f32}
  %M = tile.size() {value = M}
  %K = tile.size() {value = K}
  %none = tile.constant() {value = 0, dtype = i64}
  tile.grid([%M]) {blocks = [auto]} body(%m: axis<m>) {
    %zero = tile.constant() {value = 0.0, dtype = f32}
    %zeros = tile.broadcast(%zero) {shape = [m]}
    %sum = tile.range(%none, %K, [%zeros]) {blocks = [auto]} body(%k: axis<k>, %acc: tile<f32, [m]>) {
      %at = tile.load(%x, [%m, %k])
      %wide = tile.cast(%at) {dtype = f32}
      %part = tile.reduce([%wide]) {axes = [1], fn = FN}
      %next = tile.map([%acc, %part]) {fn = MAP}
      tile.yield([%next])
    }
    tile.store(%y, [%m], %sum)
  }
  tile.return([%y])
}
"""


def product(text: str = GEMM) -> Function:
    """c = a @ b in bf16, in form `tile-placed`."""
    for name in "ab":
        text = text.replace(f"%{name}: tensor<f32", f"%{name}: tensor<bf16")
    return PassManager(gpu_front_pipeline()).run(parse_module(text)).entry


def best(sizes: dict[str, int], arch: str = "sm_90", function: Function | None = None) -> Plan:
    return ranked_plans(function or product(), gpu_machine(arch), sizes, ALIGNED)[0].plan


def audit(plan: Plan, sizes: dict[str, int]) -> KernelAudit:
    return audit_plan(product(), gpu_machine("sm_90"), sizes, plan, None)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_few_blocks_with_long_loops_are_split(arch: str) -> None:
    plan = best(DEEP, arch)
    (parts,) = plan.parts
    assert 8 < parts <= 2 * gpu_machine(arch).multiprocessors
    assert even_parts(parts, DEEP["K"]) == parts
    assert len(plan.grids) == 2
    assert {"m", "n", "k", "m_sum", "n_sum"} == {name for name, _ in plan.blocks}


@pytest.mark.parametrize(
    "changed",
    [
        {"M": 4096, "N": 4096},  # all multiprocessors have something to do
        {"K": 1024},  # a second launch takes longer than what could be shared
        {"K": 2 * UNIT - 1},
    ],
)
def test_others_are_not(changed: dict[str, int]) -> None:
    assert best({**DEEP, **changed}).parts == ()


def test_of_grids_of_many_waves_no_split_is_planned() -> None:
    planned: list[Function] = []

    def plans_of(program: Function, most: int | None, like: Plan | None) -> list[RankedPlan]:
        planned.append(program)
        return ranked_plans(program, gpu_machine("sm_90"), sizes, ALIGNED, most=most)

    cases = (128, None, True), (16384, None, False), (2112, None, True), (2112, 1e-3, False)
    for columns, seconds, tried in cases:  # 1, 128 and 16 blocks for each multiprocessor, which has 8 at once
        sizes = {"M": 512, "N": columns, "K": 16384}
        grid = GridPlan(128, 1, (2, 2), 2)
        whole = RankedPlan(Plan((grid,), (("m", 16), ("n", 32), ("k", 32))), seconds)
        planned.clear()
        split_plans(product(), gpu_machine("sm_90"), sizes, sizes, whole, plans_of)
        assert bool(planned) == tried


def test_parts_whose_sums_alone_take_too_long_are_not_planned() -> None:
    planned: list[Function] = []

    def plans_of(program: Function, most: int | None, like: Plan | None) -> list[RankedPlan]:
        planned.append(program)
        return ranked_plans(program, gpu_machine("sm_90"), sizes, ALIGNED, most=most)

    for rows, tried in ((256, True), (2048, False)):  # where the parts of the result have 4, and 32 MiB
        sizes = {"M": rows, "N": 2048, "K": 2 * UNIT}
        whole = RankedPlan(Plan((GridPlan(256, 1, (2, 4), 2),), (("m", 128), ("n", 128), ("k", 32))), 3e-5)
        planned.clear()
        split_plans(product(), gpu_machine("sm_90"), sizes, sizes, whole, plans_of)
        assert bool(planned) == tried


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("sizes", [DEEP, {**DEEP, "M": 4096, "N": 4096}, {"M": 200, "N": 72, "K": 1000}])
@pytest.mark.parametrize("text", [GEMM, FOLD.replace("FN", "add").replace("MAP", "add")])
def test_the_first_plan_is_the_same_if_no_other_is_wanted(arch: str, sizes: dict[str, int], text: str) -> None:
    every = ranked_plans(product(text), gpu_machine(arch), sizes, ALIGNED)
    assert ranked_plans(product(text), gpu_machine(arch), sizes, ALIGNED, most=1)[0] == every[0]
    assert ranked_plans(product(text), gpu_machine(arch), sizes, ALIGNED, most=2)[:2] == every[:2]


def test_sizes_that_are_guessed_are_no_reason() -> None:
    assert best({"M": 64, "N": 64}).parts == ()


def test_loops_that_do_more_than_add_are_not_split() -> None:
    dot = "tile.dot(%at, %bt, %partial) {dtype = f32}"
    assert dot in GEMM
    text = GEMM.replace(dot, f"{dot}\n      %twice = tile.map([%next, %partial]) {{fn = maximum}}")
    text = text.replace("tile.yield([%next])", "tile.yield([%twice])")
    assert best(DEEP, function=product(text)).parts == ()


def test_long_folds_are_split_too() -> None:
    sums = product(FOLD.replace("FN", "add").replace("MAP", "add"))
    assert best({"M": 8, "K": 1 << 22}, function=sums).parts
    for rows, length in ((128, 65536), (8192, 4096)):  # enough programs, whose loads run ahead
        assert best({"M": rows, "K": length}, function=sums).parts == ()
    largest = product(FOLD.replace("FN", "max").replace("MAP", "maximum"))
    assert best({"M": 8, "K": 1 << 22}, function=largest).parts


def test_loops_that_end_where_data_say_are_split_if_their_end_is_bounded() -> None:
    text = FOLD.replace("FN", "add").replace("MAP", "add").replace("unit=1>)", "unit=1>, %n: tensor<i64, [1], unit=0>)")
    bounded = """
    %said = tile.load(%n, [%none])
    %end = tile.map([%said, %K]) {fn = minimum}
    %sum = """
    text = text.replace("\n    %sum = ", bounded).replace("tile.range(%none, %K,", "tile.range(%none, %end,")
    sizes = {"M": 8, "K": 1 << 22}
    plan = best(sizes, function=product(text))
    assert plan.parts == best(sizes, function=product(FOLD.replace("FN", "add").replace("MAP", "add"))).parts != ()


def test_what_adds_the_parts_is_searched_for_once_and_for_the_parts_that_are_taken(monkeypatch: Any) -> None:
    searched: list[object] = []

    def counted(*args: Any) -> Any:
        searched.append(args)
        return improved(*args)

    function = product()
    parts = best(DEEP, function=function).parts
    monkeypatch.setattr(choose_plans, "improved", counted)
    choose_plans.SEARCHED.clear()
    (found, *_) = ranked_plans(function, gpu_machine("sm_90"), DEEP, ALIGNED, most=1)
    assert found.plan.parts == parts != ()
    assert len(searched) == 2


def test_whole_sums_come_after_them() -> None:
    plans = [one.plan for one in ranked_plans(product(), gpu_machine("sm_90"), DEEP, ALIGNED)]
    whole = [plan for plan in plans if not plan.parts]
    assert whole
    assert plans[-len(whole) :] == whole


def test_the_price_is_that_of_both_grids() -> None:
    found = audit_function(product(), gpu_machine("sm_90"), DEEP, ALIGNED)
    (plan, *_) = [
        one.plan for one in ranked_plans(product(), gpu_machine("sm_90"), DEEP, ALIGNED) if not one.plan.parts
    ]
    alone = audit(plan, DEEP)
    assert found.predicted < 0.2 * alone.predicted
    assert found.predicted > 2 * gpu_machine("sm_90").speeds.launch
    assert found.floor == alone.floor
    assert found.must_bytes == alone.must_bytes
    assert found.multiply_adds == alone.multiply_adds == DEEP["M"] * DEEP["N"] * DEEP["K"]


def test_what_is_read_grows_by_the_parts_alone() -> None:
    """Each part reads its own of the operands; then all parts of the sums are written, and read."""
    grids: dict[str, Any] = {"blocks": (("m", 64), ("n", 64), ("k", 64), ("m_sum", 8), ("n_sum", 64))}
    (whole, *_) = [
        one.plan for one in ranked_plans(product(), gpu_machine("sm_90"), DEEP, ALIGNED) if not one.plan.parts
    ]
    one = audit(Plan(whole.grids, **grids), DEEP)
    several = audit(Plan((*whole.grids, *whole.grids), parts=(8,), **grids), DEEP)
    assert several.moved_bytes == one.moved_bytes + 2 * 8 * 64 * 64 * 4


@given(st.integers(1, 200), st.integers(1, 200_000))
def test_no_part_is_empty(parts: int, longest: int) -> None:
    even = even_parts(parts, longest)
    each = UNIT * -(-longest // (even * UNIT))  # as `split-sums` has it
    assert 1 <= even <= parts
    assert (even - 1) * each < longest <= even * each
    assert each == UNIT * -(-longest // (parts * UNIT))  # none is longer than with so many


def test_parts_fill_the_device() -> None:
    """Parts and tiles make one round of blocks, nearly one for each multiprocessor."""
    sizes = {"M": 160, "N": 208, "K": 183040}
    plan = best(sizes)
    blocks = dict(plan.blocks)
    tiles = -(-sizes["M"] // blocks["m"]) * -(-sizes["N"] // blocks["n"])
    assert 120 <= plan.parts[0] * plan.grids[0].cluster * tiles <= 132


@pytest.mark.parametrize("parts", [22, 44])
def test_the_length_of_a_part_is_known_to_all_prices(parts: int) -> None:
    """`mma.sync` took less than memory allows, by prices that had 2048 elements for a part of any length."""
    sizes = {"M": 320, "N": 256, "K": 177920}
    program = program_of(product(), Plan((), parts=(parts,)))
    first, *_ = ranked_plans(program, gpu_machine("sm_90"), sizes, ALIGNED)
    assert first.plan.grids[0].roles
    assert first.seconds is not None
    assert first.seconds > 40e-6


def test_the_program_of_a_plan_without_parts_is_the_function() -> None:
    function = product()
    assert program_of(function, Plan(())) is function

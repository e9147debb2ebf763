"""How tiles get from one register layout into another."""

from __future__ import annotations

import pytest

from tiledsl.ir.gpu.matrix_instructions import INSTRUCTIONS
from tiledsl.ir.layouts.conversions import ConversionPlan, convert_plan
from tiledsl.ir.layouts.layout import RegisterLayout, local, replicate, spatial

BF16 = INSTRUCTIONS["m16n8k16_bf16_f32"]


@pytest.mark.parametrize(
    ("source", "target", "kind"),
    [
        (spatial(32), spatial(32), "registers"),
        (local(2, 1) * spatial(32, 1) * local(1, 2), spatial(32, 1) * local(2, 2), "shared"),
        (local(2, 1) * local(1, 2) * spatial(32, 1), local(1, 2) * local(2, 1) * spatial(32, 1), "registers"),
        (spatial(8) * replicate(4, 1), replicate(4, 1) * spatial(8), "shuffle"),
        (replicate(32, 1) * local(4), spatial(4) * replicate(8, 1), "shared"),
        (spatial(64), replicate(2, 1) * spatial(32) * local(2), "shared"),
        (spatial(64), spatial(32) * local(2), "shared"),
        (spatial(4, 8), spatial(1, 8) * spatial(4, 1), "shuffle"),
        (replicate(2, 1) * spatial(32), replicate(2, 1) * spatial(32), "registers"),
    ],
)
def test_kinds(source: RegisterLayout, target: RegisterLayout, kind: str) -> None:
    assert convert_plan(source, target).kind == kind


def test_two_accumulators_are_an_operand_of_the_next_product() -> None:
    accumulators = local(1, 2) * BF16.accumulator_fragment
    assert convert_plan(accumulators, BF16.a_fragment) == ConversionPlan("registers", tuple(range(8)))


def test_slots_change_places() -> None:
    plan = convert_plan(local(2, 1) * local(1, 3) * spatial(32, 1), local(1, 3) * local(2, 1) * spatial(32, 1))
    assert plan == ConversionPlan("registers", (0, 3, 1, 4, 2, 5))


def test_the_lane_of_a_shuffle_is_told_by_digits() -> None:
    plan = convert_plan(spatial(4, 8), spatial(1, 8) * spatial(4, 1))
    assert plan == ConversionPlan("shuffle", (0,), ((4, 8, 1), (1, 4, 8)), (0,))
    assert [plan.lane(lane, 0) for lane in range(6)] == [0, 8, 16, 24, 1, 9]


def test_a_thread_gathers_from_lanes() -> None:
    plan = convert_plan(replicate(4, 1) * spatial(8), replicate(32, 1) * local(8))
    assert plan.kind == "shuffle"
    assert plan.slots == (0,) * 8
    assert [plan.lane(19, slot) for slot in range(8)] == list(range(16, 24))

"""Plans for products by threads that are all alike: decisions, reasons, and the cost beside what was measured."""

from __future__ import annotations

import math
from typing import Any

import pytest

import tiledsl
from tiledsl import tile
from tiledsl.passes.gpu.plans.product_plans.thread_cost import (
    MOST_REGISTERS,
    ComputedOperand,
    ThreadNest,
    ThreadTiling,
    bytes_ahead,
    meeting_clocks,
    registers_of,
    resident_blocks,
    thread_seconds,
)
from tiledsl.passes.gpu.plans.product_plans.thread_plans import Refusal, ThreadSearch
from tiledsl.passes.gpu_machine import gpu_machine

HOPPER, AMPERE = gpu_machine("sm_90"), gpu_machine("sm_80")
MEASURED = {
    (4096, 4096, 4096): (
        (256, 128, 64, (4, 2), 3, 281.1), (256, 128, 64, (4, 2), 4, 281.3), (128, 256, 64, (2, 4), 4, 290.8),
        (256, 128, 32, (4, 2), 4, 306.6), (128, 128, 64, (2, 2), 2, 331.8), (64, 256, 64, (1, 4), 3, 339.3),
        (128, 128, 64, (2, 4), 4, 362.8), (16, 64, 32, (1, 4), 4, 1118.6),
    ),
    (2048, 2048, 4096): (
        (256, 128, 64, (4, 2), 4, 73.0), (256, 128, 64, (4, 2), 3, 73.3), (128, 256, 64, (2, 4), 4, 75.5),
        (128, 128, 32, (2, 2), 3, 80.3), (128, 128, 64, (2, 2), 4, 86.0), (64, 256, 64, (1, 4), 2, 90.0),
        (64, 128, 64, (2, 2), 4, 96.4), (16, 64, 32, (1, 4), 2, 297.0),
    ),
    (16, 4096, 4096): (
        (16, 64, 64, (1, 4), 4, 21.9), (32, 64, 64, (2, 2), 4, 22.9), (16, 128, 64, (1, 4), 4, 23.6),
        (32, 64, 64, (2, 2), 3, 30.1), (32, 64, 32, (2, 2), 4, 34.1), (32, 64, 32, (2, 2), 3, 52.0),
        (16, 64, 32, (1, 4), 2, 75.8), (32, 128, 32, (2, 2), 2, 88.9),
    ),
    (512, 512, 4096): (
        (16, 64, 64, (1, 4), 4, 20.6), (32, 64, 64, (2, 2), 4, 21.1), (16, 128, 64, (1, 4), 4, 21.2),
        (64, 64, 64, (2, 2), 4, 23.2), (16, 128, 64, (1, 4), 3, 28.7), (64, 64, 64, (2, 2), 3, 30.8),
        (128, 64, 64, (2, 2), 3, 34.8), (128, 256, 32, (2, 4), 2, 139.6),
    ),
    (256, 8192, 1024): (
        (128, 128, 64, (2, 2), 4, 15.9), (64, 256, 64, (1, 4), 4, 15.9), (128, 128, 64, (2, 2), 3, 16.2),
        (64, 128, 64, (2, 2), 4, 17.0), (128, 64, 64, (2, 2), 4, 17.1), (64, 256, 32, (1, 4), 4, 19.7),
        (64, 128, 32, (2, 2), 3, 20.8), (16, 64, 32, (1, 4), 2, 43.6),
    ),
}  # fmt: skip
"""By rows, columns and depth: plans and us, of bf16 on one H200, the right operand with columns behind each other."""
COMPILED = (((128, 128, 64, (2, 2), 3), 242), ((64, 128, 64, (2, 2), 3), 146), ((64, 64, 64, (2, 2), 3), 90),
            ((256, 128, 64, (4, 2), 3), 240), ((16, 64, 64, (1, 4), 4), 54))  # fmt: skip
"""Tilings, and the registers of their code."""


def tiling(rows: int, columns: int, depth: int, warps: tuple[int, int], stages: int) -> ThreadTiling:
    return ThreadTiling(rows, columns, depth, warps, stages)


@pytest.mark.parametrize("shape", MEASURED, ids=str)
def test_the_cost_agrees_with_what_was_measured(shape: tuple[int, int, int]) -> None:
    nest = ThreadNest(*shape)
    timed = [(1e6 * thread_seconds(nest, tiling(*plan[:5]), HOPPER), plan[5]) for plan in MEASURED[shape]]
    errors = [math.log(predicted / measured) ** 2 for predicted, measured in timed]
    assert math.sqrt(sum(errors) / len(errors)) < 0.16
    assert min(timed)[1] <= 1.05 * min(measured for _, measured in timed)


@pytest.mark.parametrize(("of_plan", "registers"), COMPILED)
def test_registers(of_plan: tuple[int, int, int, tuple[int, int], int], registers: int) -> None:
    assert registers_of(ThreadNest(4096, 4096, 4096), tiling(*of_plan)) == pytest.approx(registers, rel=0.2)


NIBBLES = ComputedOperand(False, 0.516, 4.25, 32, False)
"""Of a right operand in groups with scales, which threads compute."""


def test_groups_of_warps_where_blocks_are_few() -> None:
    """Each as deep as one, with sums of its own; not of products whose sums a turn sees, nor with warps enough."""
    few, many = ThreadNest(16, 4096, 4096, alone=True), ThreadNest(4096, 4096, 4096, alone=True)
    options = ThreadSearch(few, HOPPER).tilings()
    assert {option.groups for option in options} == {1, 2, 4, 8}
    assert {option.groups for option in ThreadSearch(many, HOPPER).tilings()} == {1}
    assert {option.groups for option in ThreadSearch(few._replace(alone=False), HOPPER).tilings()} == {1}
    assert all(option.threads <= 512 for option in options if option.groups > 1)
    one = tiling(16, 64, 128, (1, 2), 2)
    four = one._replace(depth=512, groups=4)
    assert four.threads == 4 * one.threads
    assert registers_of(few, four) == registers_of(few, one)
    assert meeting_clocks(few, one, HOPPER) == 0 < meeting_clocks(few, four, HOPPER)


def test_what_is_computed_is_asked_for_a_turn_before() -> None:
    """64 columns of a warp, 128 deep, would be more than its threads have room for."""
    nest = ThreadNest(16, 14336, 4096, alone=True, computed=NIBBLES)
    search: list[Refusal] = []
    assert bytes_ahead(nest, tiling(16, 64, 128, (1, 2), 2)) == pytest.approx(66, abs=1)
    assert bytes_ahead(nest, tiling(16, 64, 256, (1, 2), 2)._replace(groups=2)) == pytest.approx(66, abs=1)
    found = ThreadSearch(nest, HOPPER, search).tilings()
    assert all(bytes_ahead(nest, option) <= 96 for option in found)
    assert any("bytes a turn before" in one.reason for one in search)
    in_ring = nest._replace(computed=NIBBLES._replace(in_ring=True))
    assert bytes_ahead(in_ring, tiling(16, 64, 256, (1, 1), 2)) == 0


def test_registers_of_deeper_instructions() -> None:
    nest = ThreadNest(4096, 4096, 4096, bytes=8, sum_bytes=8, step_bytes=64)
    assert registers_of(nest, tiling(64, 64, 16, (2, 2), 4)) == pytest.approx(160, rel=0.1)
    assert registers_of(nest, tiling(64, 128, 16, (1, 4), 4)) > MOST_REGISTERS  # 254, and spilled where sizes are odd


def test_blocks_of_a_multiprocessor() -> None:
    nest = ThreadNest(4096, 4096, 4096)
    assert resident_blocks(nest, tiling(128, 128, 64, (2, 2), 3), HOPPER) == 2
    assert resident_blocks(nest, tiling(256, 128, 64, (4, 2), 3), HOPPER) == 1
    assert resident_blocks(nest, tiling(128, 128, 64, (2, 2), 4), AMPERE) == 1


@pytest.mark.parametrize("machine", [HOPPER, AMPERE], ids=["sm_90", "sm_80"])
@pytest.mark.parametrize("bytes_", [1, 2, 4, 8])
def test_all_that_is_found_fits(machine: object, bytes_: int) -> None:
    machine = HOPPER if machine is HOPPER else AMPERE
    nest = ThreadNest(1000, 3000, 500, bytes=bytes_, sum_bytes=max(4, bytes_))
    found = ThreadSearch(nest, machine).ranked()
    assert found
    assert [seconds for seconds, _ in found] == sorted(seconds for seconds, _ in found)
    for _, one in found:
        assert registers_of(nest, one) <= MOST_REGISTERS
        assert resident_blocks(nest, one, machine) >= 1


def reasons(nest: ThreadNest) -> set[str]:
    refused: list[Refusal] = []
    ThreadSearch(nest, AMPERE, refused).tilings()
    return {" ".join(word for word in one.reason.split() if not word.isdigit()) for one in refused}


def test_reasons() -> None:
    assert "a thread would hold registers, and has room for" in reasons(ThreadNest(4096, 4096, 64, beside=3))
    assert any("bytes of shared memory" in reason for reason in reasons(ThreadNest(4096, 4096, 4096)))
    whole = reasons(ThreadNest(4096, 1040, 4096, whole=True))
    assert any("registers of sums" in reason for reason in whole)
    assert any("columns in eights" in reason for reason in reasons(ThreadNest(4096, 80, 64, whole=True)))


def test_small_products_have_small_tiles() -> None:
    _, best = ThreadSearch(ThreadNest(16, 4096, 4096), HOPPER).ranked()[0]
    assert best.rows <= 32
    assert all(one.columns <= 32 for one in ThreadSearch(ThreadNest(4096, 32, 64), HOPPER).tilings())


def test_one_turn_has_one_stage() -> None:
    assert {one.stages for one in ThreadSearch(ThreadNest(64, 64, 16, batches=512), HOPPER).tilings()} == {1}


def batched(a: Any, b: Any) -> Any:
    return a @ b


def test_small_products_of_a_batch_go_by_threads() -> None:
    """Warpgroups multiply 64 rows and more: of 32 they would do half for nothing. All of the batch counts."""
    specs = [tile.spec(shape, tile.f16) for shape in ((16384, 32, 32), (16384, 32, 32))]
    audit = tiledsl.fuse(tiledsl.trace(batched, *specs)).audit("sm_90")
    (kernel,) = audit.kernels
    assert not kernel.kernel.by_warpgroups
    assert kernel.kernel.predicted < 3 * kernel.kernel.floor

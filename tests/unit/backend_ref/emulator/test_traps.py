"""What programs for Hopper go wrong by: each trap with a program that avoids it, and one that does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.hopper.hopper_copies import handover, refill, store_again, store_in_turn, through_the_cluster
from tests.support.hopper.hopper_gemms import (
    Gemm,
    gemm,
    gemm_by_all,
    gemm_epilogue,
    gemm_from_registers,
    gemm_persistent,
    gemm_pipelined,
)
from tests.support.hopper.hopper_text import HopperProgram
from tiledsl.backend_ref.emulator.emulate import emulate
from tiledsl.support.errors import TileError

WRONG = "wrong numbers"
SEEDS = (None, 0, 1, 2)


def outcome(program: HopperProgram, seed: int | None) -> str:
    """The code of what is wrong, `wrong numbers`, or "" if all is right."""
    try:
        program.check(lambda function, arguments: emulate(function, arguments, seed=seed).results)
    except TileError as error:
        return error.code
    except AssertionError:
        return WRONG
    return ""


def outcomes(program: HopperProgram, *changes: tuple[str, str]) -> set[str]:
    """Of a program in which texts were replaced, in several orders. Every one of them must be there."""
    text = program.text
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    # in step, the blocks of a cluster know of each other what they do not otherwise
    seeds = [seed for seed in SEEDS if seed is not None or "cluster = 2" not in text]
    return {outcome(replace(program, text=text), seed) for seed in seeds}


RIGHT: list[HopperProgram] = [
    # one iteration, one wrap, odd counts, counts that are no multiple of twice the stages
    *(gemm(Gemm(stages, steps)) for stages, steps in [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 3), (3, 4), (3, 7)]),
    *(gemm_pipelined(Gemm(stages, steps)) for stages, steps in [(2, 1), (2, 3), (2, 5), (3, 7)]),
    *(gemm_persistent(Gemm(stages, steps)) for stages, steps in [(2, 1), (2, 3), (3, 4)]),
    *(refill(stages, steps) for stages, steps in [(1, 1), (1, 2), (2, 3), (3, 5)]),
    gemm(Gemm(2, 3, sizes=(100, 72), cut=24)),  # tails
    gemm(Gemm(2, 5, cluster=2)),
    gemm_from_registers(Gemm(2, 5, by="thread")),
    gemm_epilogue(Gemm(2, 3)),
    gemm_by_all(steps=3),
    store_again(3, roles=True),
    store_in_turn(5),
    handover(2, 5, by="warp"),
    through_the_cluster(3),
]


@pytest.mark.parametrize("program", RIGHT, ids=str)
def test_right_in_every_order(program: HopperProgram) -> None:
    assert outcomes(program) == {""}


WAIT_LAST = "%total = gpu.wgmma_wait([%sum]) {groups = 0}"


@pytest.mark.parametrize(
    ("program", "changes", "codes"),
    [
        # accumulators in flight, fences
        pytest.param(gemm_pipelined(Gemm(2, 3)), [(WAIT_LAST, ""), ("%total", "%sum")], {"emulator-accumulator"},
                     id="accumulator read in flight"),
        pytest.param(gemm_pipelined(Gemm(2, 3)), [(WAIT_LAST, WAIT_LAST.replace("= 0", "= 1"))],
                     {"emulator-accumulator-unwaited"}, id="accumulator not waited for"),
        pytest.param(gemm(Gemm(2, 3)), [("gpu.wgmma_fence()\n", "")], {"emulator-wgmma-fence"}, id="no fence"),
        # registers of `a`
        pytest.param(gemm_from_registers(Gemm(2, 3, by="thread")),
                     [("%landed, %kept = gpu.wgmma_wait([%next, %left])", "%landed = gpu.wgmma_wait([%next])")],
                     {"emulator-operand-registers"}, id="operand not kept"),
        # parity
        pytest.param(gemm(Gemm(2, 5)), [("%other = tile.map([%parity, %1]) {fn = xor}",
                                         "%other = tile.map([%parity, %0]) {fn = xor}")],
                     {"emulator-deadlock"}, id="parity of the empty side"),
        # arrivals and bytes
        pytest.param(gemm(Gemm(2, 5)), [("arrivals = 4", "arrivals = 5")], {"emulator-deadlock"}, id="arrival lacks"),
        pytest.param(gemm(Gemm(2, 5)), [("bytes = 16384", "bytes = 16400")], {"emulator-deadlock"}, id="bytes lack"),
        # proxies
        pytest.param(gemm_epilogue(Gemm(2, 3)), [("gpu.proxy_fence()\n", "")], {"emulator-proxy-fence"},
                     id="written, then stored by TMA"),
        pytest.param(gemm_by_all(steps=2), [("gpu.proxy_fence()\n", "")], {"emulator-proxy-fence"},
                     id="written, then multiplied"),
        pytest.param(refill(1, 3), [("gpu.proxy_fence()\n", "")], {"emulator-proxy-fence"}, id="read, then refilled"),
        # bulk stores
        pytest.param(store_again(3, roles=False), [("gpu.bulk_wait() {groups = 0, read = true}", "")],
                     {"emulator-race-under-way"}, id="no wait for what a store reads"),
        pytest.param(gemm_epilogue(Gemm(2, 3)), [("gpu.bulk_wait() {groups = 0}\n", "")], {"emulator-exit"},
                     id="no wait at the end"),
        # clusters
        pytest.param(through_the_cluster(3), [("gpu.barrier() {scope = cluster}", "gpu.barrier()")],
                     {"emulator-mbarrier-uninitialised"}, id="mbarriers of a cluster begin"),
        pytest.param(through_the_cluster(3), [("gpu.mbarrier_wait(%empty, %0, %last)\n", "")],
                     {"emulator-block-gone"}, id="blocks leave early"),
        # barriers
        pytest.param(store_again(3, roles=True), [("gpu.named_barrier() {id = 3, threads = 64}",
                                                   "gpu.named_barrier() {id = 3, threads = 96}")],
                     {"emulator-deadlock"}, id="too few threads come"),
        pytest.param(store_again(3, roles=True), [("gpu.named_barrier() {id = 3, threads = 64}", "gpu.barrier()")],
                     {"emulator-deadlock"}, id="barrier of the block in a role"),
    ],
)  # fmt: skip
def test_found_in_every_order(program: HopperProgram, changes: list[tuple[str, str]], codes: set[str]) -> None:
    assert outcomes(program, *changes) == codes


@pytest.mark.parametrize(
    ("program", "changes"),
    [
        pytest.param(gemm(Gemm(2, 5)), [("gpu.mbarrier_wait(%full, %stage, %parity)",
                                         "gpu.mbarrier_wait(%full, %stage, %other)")], id="parity of the full side"),
        pytest.param(gemm(Gemm(2, 5)), [("gpu.mbarrier_wait(%full, %stage, %parity)",
                                         "gpu.mbarrier_wait(%full, %stage, %0)")], id="parity that stays"),
        pytest.param(gemm(Gemm(2, 5)), [("arrivals = 4", "arrivals = 3")], id="one arrival too many"),
        pytest.param(gemm(Gemm(2, 5)), [("bytes = 16384", "bytes = 8192")], id="bytes of one box of two"),
        pytest.param(gemm(Gemm(2, 5)), [("gpu.mbarrier_wait(%empty, %stage, %other)\n", "")], id="never waits"),
        pytest.param(gemm(Gemm(3, 7)), [("%turn = tile.map([%i, %3]) {fn = floordiv}",
                                         "%turn = tile.map([%i, %2]) {fn = floordiv}")], id="turns of other stages"),
        pytest.param(gemm_persistent(Gemm(2, 3)), [("%step = tile.map([%before, %i]) {fn = add}",
                                                    "%step = tile.map([%i, %0]) {fn = add}")],
                     id="phases begin anew with each tile"),
        pytest.param(through_the_cluster(3), [("arrivals = 128", "arrivals = 64"),
                                            ("gpu.mbarrier_arrive(%empty, %stage) {scope = cluster}",
                                             "gpu.mbarrier_arrive(%empty, %stage)")],
                     id="multicast asks its own block alone"),
        pytest.param(handover(2, 5, by="thread"), [("gpu.mbarrier_arrive(%full, %stage) {by = thread}",
                                                    "gpu.mbarrier_arrive(%full, %stage) {by = role}"),
                                                   ("%full = gpu.mbarriers() {count = 2, arrivals = 64",
                                                    "%full = gpu.mbarriers() {count = 2, arrivals = 1")],
                     id="one thread speaks for others"),
    ],
)  # fmt: skip
def test_found_one_way_or_the_other(program: HopperProgram, changes: list[tuple[str, str]]) -> None:
    found = outcomes(program, *changes)
    assert not found & {"", WRONG}, found

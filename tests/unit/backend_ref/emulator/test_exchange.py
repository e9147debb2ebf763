"""Blocks of a cluster that send each other parts of a buffer: what comes, and what the emulator finds wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.gpu_code.emulated import SEEDS, numbers, outcomes, run, shared, small

MEMORY = (
    "%line = gpu.buffer() {shape = [64], dtype = f32, layout = rows(0), offset = 0}",
    "%parts = gpu.buffer() {shape = [2, 32], dtype = f32, layout = rows(0, 1), offset = 256}",
    "%came = gpu.mbarriers() {count = 1, arrivals = 1, offset = 1024}",
    "%got = gpu.mbarriers() {count = 1, arrivals = 2, offset = 1032}",
)
FENCE, BARRIER = "gpu.proxy_fence()\n", "gpu.barrier()\n"
EXPECT = "gpu.mbarrier_expect(%came, %0) {bytes = 256}\n"
SEND = "gpu.exchange(%mine, %parts, %came, %0)\n"
WAIT = "gpu.mbarrier_wait(%came, %0, %0)\n"
TELL = "gpu.mbarrier_arrive(%got, %0) {by = role, scope = cluster}\n"
STORE = """%all = gpu.reuse(%parts) {shape = [64], dtype = f32, layout = rows(0)}
%y = gpu.read(%all, [%0]) {places = [0], shape = [128], layout = spatial(128)}
gpu.store(%out, [%m], %y, []) {axes = [0]}
"""
LAST = "gpu.mbarrier_wait(%got, %0, %0)\n"
STEPS = (FENCE, BARRIER, EXPECT, SEND, WAIT, TELL, STORE, LAST)


def halves(*steps: str) -> str:
    """Each of two blocks has 64 numbers, and sends 32 of them to each."""
    body = f"""%both = gpu.load(%x, [%m], []) {{axes = [0], shape = [128], layout = spatial(128)}}
gpu.write(%line, %both, [%0]) {{places = [0]}}
%mine = gpu.reuse(%line) {{shape = [2, 32], dtype = f32, layout = rows(0, 1)}}
{"".join(steps)}"""
    return small(body, shared(*MEMORY), cluster=2, block=128)


@pytest.mark.parametrize("seed", SEEDS)
def test_parts_come_in_the_order_of_the_blocks(seed: int | None) -> None:
    (found,) = run(halves(*STEPS), numbers(128), seed=seed)
    parts = np.split(np.arange(128), 4)
    assert np.array_equal(found, np.concatenate([parts[0], parts[2], parts[1], parts[3]]))


@pytest.mark.parametrize(
    ("missing", "codes"),
    [
        (FENCE, {"emulator-proxy-fence"}),
        (BARRIER, {"emulator-race"}),
        (EXPECT, {"emulator-deadlock"}),
        (SEND, {"emulator-deadlock"}),
        (WAIT, {"emulator-race-under-way", "emulator-uninitialised"}),
        (TELL, {"emulator-deadlock"}),
        (LAST, {"emulator-exit", "emulator-block-gone"}),
    ],
)
def test_what_is_missing_is_found(missing: str, codes: set[str]) -> None:
    found = outcomes(halves(*(step for step in STEPS if step != missing)), numbers(128))
    assert found <= codes

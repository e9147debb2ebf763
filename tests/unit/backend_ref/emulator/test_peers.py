"""Blocks of a cluster that write to each other's shared memory: what the emulator finds where they do not meet."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.gpu_code.emulated import SEEDS, numbers, outcomes, run, shared, small

MEMORY = (
    "%s = gpu.buffer() {shape = [128], dtype = f32, layout = rows(0), offset = 0}",
    "%came = gpu.mbarriers() {count = 1, arrivals = 4, offset = 1024}",
)
ARRIVE = "gpu.mbarrier_arrive(%came, %0) {by = warp, scope = cluster}\n"
WAIT = "gpu.mbarrier_wait(%came, %0, %0)\n"


def halves(*meeting: str) -> str:
    """Both blocks send all that they have to both, meet, and block 0 stores what came from block 1."""
    body = f"""%both = gpu.load(%x, [%m], []) {{axes = [0], shape = [128], layout = spatial(128)}}
gpu.write(%s, %both, [%0]) {{places = [0], block = 0}}
gpu.write(%s, %both, [%0]) {{places = [0], block = 1}}
{"".join(meeting)}
%y = gpu.read(%s, [%64]) {{places = [0], shape = [64], layout = replicate(2) * spatial(64)}}
gpu.store(%out, [%m], %y, []) {{axes = [0]}}"""
    return small(body, shared(*MEMORY), cluster=2, block=128)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_another_block_wrote_is_read(seed: int | None) -> None:
    (found,) = run(halves(ARRIVE, WAIT), numbers(128), seed=seed)
    assert np.array_equal(found[:64], np.arange(64, 128))


@pytest.mark.parametrize(
    ("meeting", "codes"),
    [
        ((), {"emulator-race"}),
        (("gpu.barrier()\n",), {"emulator-race"}),
        ((ARRIVE,), {"emulator-race"}),
        ((WAIT,), {"emulator-deadlock"}),
        ((ARRIVE.replace("cluster", "block"), WAIT), {"emulator-deadlock"}),
        (("gpu.barrier() {scope = cluster}\n",), {""}),
    ],
)
def test_meetings(meeting: tuple[str, ...], codes: set[str]) -> None:
    found = outcomes(halves(*meeting), numbers(128))
    assert found & codes
    assert ("" in found) == ("" in codes)

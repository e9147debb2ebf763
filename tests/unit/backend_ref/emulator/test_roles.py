"""Roles go on where the launch has come to, and copies of elements that are stored in place."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.gpu_code.emulated import SEEDS, numbers, outcomes, shared, small
from tests.support.hopper.hopper_text import Array, role

S = "%s = gpu.buffer() {shape = [64], dtype = f32, layout = rows(0), offset = 0}"
FULL = "%full = gpu.mbarriers() {count = 1, arrivals = 1, offset = 256}"
XY = "%x: tensor<f32, [M], unit=0>, %y: tensor<f32, [M], unit=0>"
LOAD = "%t = gpu.load(%x, [%m], []) {axes = [0], shape = [64], layout = spatial(64)}\n"


def line(body: str, *memory: str) -> str:
    return small(body, shared(*memory), parameters=XY)


def both(count: int = 64) -> tuple[Array, Array]:
    return numbers(count), numbers(count) * 0


def test_copies_waited_for_before_the_roles_are_their_threads() -> None:
    copy = """gpu.copy(%x, [%m], [], %s, [%0])
{axes = [0], places = [0], vector = 1, shape = [64], layout = spatial(64)}
gpu.commit()
gpu.wait() {groups = 0}
"""
    halves = [
        role(first, 32, f"%u = gpu.read(%s, [%{first}]) {{places = [0], shape = [32], layout = spatial(32)}}\n"
             f"%at = tile.map([%m, %{first}]) {{fn = add}}\n"
             "gpu.store(%y, [%at], %u, []) {axes = [0]}")
        for first in (0, 32)
    ]  # fmt: skip
    assert outcomes(line(copy + "\n".join(halves), S), *both()) == {""}


def test_what_was_written_before_the_roles_is_told_in_them() -> None:
    write = LOAD + "gpu.write(%s, %t, [%0]) {places = [0]}\n"
    give = role(0, 32, "gpu.mbarrier_arrive(%full, %0) {by = warp}")
    take = role(
        32, 32,
        "gpu.mbarrier_wait(%full, %0, %0)\n%u = gpu.read(%s, [%0]) {places = [0], shape = [32], layout = spatial(32)}\n"
        "gpu.store(%y, [%m], %u, []) {axes = [0]}",
    )  # fmt: skip
    assert outcomes(line(write + give + "\n" + take, S, FULL), *both()) == {""}


@pytest.mark.parametrize("seed", SEEDS)
def test_in_place_with_copies(seed: int | None) -> None:
    """Who loads a copy late finds the new value, and stores it nowhere."""
    body = """%t = gpu.load(%x, [%m], []) {axes = [0], shape = [32], layout = replicate(2) * spatial(32)}
%u = tile.map([%t, %t]) {fn = add} : tile<f32, [32], register, replicate(2) * spatial(32)>
gpu.store(%x, [%m], %u, []) {axes = [0]}
"""
    assert outcomes(line(body), *both(), seeds=(seed,)) == {""}


def test_what_several_programs_add_to_is_read_by_none() -> None:
    body = """%t = gpu.load(%x, [%m], []) {axes = [0], shape = [64], layout = spatial(64)}
%old = gpu.atomic(%y, [%0], %t, []) {fn = add, axes = [0]}
gpu.barrier()
%v = gpu.load(%y, [%0], []) {axes = [0], shape = [64], layout = spatial(64)}
"""
    two = (np.ones(128, np.float32), np.zeros(128, np.float32))
    assert outcomes(line(body), *two) == {"emulator-race-programs"}

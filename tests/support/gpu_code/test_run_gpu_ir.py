"""GPU IR "on a device" that is not there: what is copied there and back, and what is seen to be wrong."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fakes.fake_driver import FakeDriver, Launch, fake_driver
from tests.support.gpu_code.run_gpu_ir import CompiledIr
from tests.support.hopper.async_programs import Tensor, through
from tests.support.hopper.hopper_text import HopperProgram

PROGRAM = through(Tensor("bf16", (60, 72), (64, 64), 128, cut=(3, 24)))
ROW, PITCH = 2 * 72, 2 * (72 + 24)


def copies(launch: Launch, rows: int = 60) -> None:
    """What the program does: its first parameters are tensor maps, of which a fake one begins with the address."""
    x, out, *_ = launch.words
    for row in range(rows):
        ctypes.memmove(out + row * PITCH, x + row * PITCH, ROW)


def run(program: HopperProgram, act: Callable[[Launch], None]) -> FakeDriver:
    compiled = CompiledIr(program.module)
    (kernel,) = compiled.source.kernels
    with fake_driver(counts={kernel.name: len(kernel.parameters)}, effects={kernel.name: act}) as driver:
        program.check(lambda _, arguments: compiled.run(arguments, 3))
    return driver


def test_a_kernel_that_does_what_it_should() -> None:
    driver = run(PROGRAM, copies)
    assert len(driver.launches) == 3
    assert not driver.memory


def test_what_is_wrong_is_seen() -> None:
    with pytest.raises(AssertionError, match="elements of bfloat16"):
        run(PROGRAM, lambda launch: copies(launch, 59))


def test_what_is_written_outside_is_seen() -> None:
    def act(launch: Launch) -> None:
        copies(launch)
        ctypes.memset(launch.words[1] + ROW, 1, 2)  # between two rows

    with pytest.raises(AssertionError, match="outside of an array"):
        run(PROGRAM, act)


def test_launches_that_differ_are_seen() -> None:
    runs: list[Any] = []

    def act(launch: Launch) -> None:
        runs.append(launch)
        copies(launch, 60 - len(runs))

    with pytest.raises(AssertionError, match="launches differ"):
        run(PROGRAM, act)

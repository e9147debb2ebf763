"""One case for each message of `support/catalogue/checking.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support.fakes.fake_cuda import fake_cuda
from tests.support.kernels import kernels_racy
from tiledsl import Kernel, tile
from tiledsl.support.catalogue.checking import ENTRIES
from tiledsl.support.errors import TileError


def compiled(function: Callable[..., Any], rank: int) -> Callable[[], object]:
    return lambda: Kernel(function).compile(tile.spec((None,) * rank, tile.f32), arch="reference")


def found(code: str, function: Callable[..., Any], *arrays: Any) -> Callable[[], object]:
    """Raises the error of that code that `check` finds."""

    def run() -> None:
        report = Kernel(function).check(*arrays)
        raise next(error for error in report.errors if error.code == code)

    return run


def on_device() -> object:
    with fake_cuda() as cuda:
        return Kernel(kernels_racy.flag).check(cuda.array(np.zeros(3, np.float32)))


RAMP: Any = np.arange(12, dtype=np.float32)
CASES: dict[str, Callable[[], object]] = {
    "race-store": compiled(kernels_racy.store_of_each, 2),
    "race-update": compiled(kernels_racy.update, 2),
    "race-neighbour": compiled(kernels_racy.stencil_in_place, 2),
    "race-stores": compiled(kernels_racy.two_stores, 2),
    "race-atomic": compiled(kernels_racy.zero_and_add, 1),
    "uninitialised": compiled(kernels_racy.unwritten_update, 1),
    "check-race-read": found("check-race-read", kernels_racy.neighbours_by_choice, RAMP),
    "check-race-store": found("check-race-store", kernels_racy.permuted, RAMP, np.arange(12) % 4),
    "check-race-atomic": found("check-race-atomic", kernels_racy.atomics_by_rows, RAMP, np.zeros(12, np.int64)),
    "check-race-within": found("check-race-within", kernels_racy.permuted, RAMP, np.arange(12) // 2),
    "check-uninitialised": found("check-uninitialised", kernels_racy.half_written, RAMP),
    "check-outside": found("check-outside", kernels_racy.permuted, RAMP, np.arange(12) + 1),
    "check-blocks": found("check-blocks", kernels_racy.by_blocks, RAMP),
    "check-device": on_device,
}
MESSAGES: dict[str, str] = {
    "race-store": "race: programs along `n` store different values to the same elements of `y`",
    "race-update": "race: programs along `n` read and store the same elements of `y`",
    "race-neighbour": "race: this reads elements of `a` that other programs along `n` store to",
    "race-stores": "race: programs along `n` store to elements of `y` that others store to as well",
    "race-atomic": "race: this stores to elements of `y` that other programs along `n` update by atomics",
    "uninitialised": "`y` is read here, and nothing was stored to it before",
    "check-race-read": "race: program (n = 4:8) reads element [3] of `x`, which program (n = 0:4) changes",
    "check-race-store": "race: program (n = 4:8) stores to element [0] of `y`, where program (n = 0:4) stores "
    "something else",
    "check-race-atomic": "race: program (n = 4:8) updates element [0] of `y`, which program (n = 0:4) reads, one of "
    "the two by an atomic",
    "check-race-within": "race: one store of program (n = 0:4) has several values for element [0] of `y`",
    "check-uninitialised": "program (n = 4:8) reads element [6] of `y`, and nothing was stored to it before",
    "check-outside": "program (n = 8:12) stores to `y` at 12 along axis 0, whose size is 12",
    "check-blocks": "element [1] of `y` depends on the sizes of blocks: it is 0.25 with some, 0.16666667 with others",
    "check-device": "`x` is a FakeArray on a CUDA device; checks run on the CPU",
}


WITHOUT_LOCATION: set[str] = set()


def test_every_message_has_a_case() -> None:
    assert set(CASES) == set(ENTRIES) == set(MESSAGES)


@pytest.mark.parametrize("code", CASES)
def test_message(code: str) -> None:
    with pytest.raises(TileError) as caught:
        CASES[code]()
    error = caught.value
    assert error.code == code
    assert type(error) is ENTRIES[code].kind
    assert error.message == MESSAGES[code]
    assert error.fix
    assert (error.location is None) == (code in WITHOUT_LOCATION)

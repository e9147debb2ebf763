"""One case for each message of `support/catalogue/checking.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support import kernels_racy
from tiledsl import Kernel, tile
from tiledsl.support.catalogue.checking import ENTRIES
from tiledsl.support.errors import TileError


def compiled(function: Callable[..., Any], rank: int) -> Callable[[], object]:
    return lambda: Kernel(function).compile(tile.spec((None,) * rank, tile.f32), arch="reference")


CASES: dict[str, Callable[[], object]] = {
    "race-store": compiled(kernels_racy.store_of_each, 2),
    "race-update": compiled(kernels_racy.update, 2),
    "race-neighbour": compiled(kernels_racy.stencil_in_place, 2),
    "race-stores": compiled(kernels_racy.two_stores, 2),
    "race-atomic": compiled(kernels_racy.zero_and_add, 1),
    "uninitialised": compiled(kernels_racy.unwritten_update, 1),
}
MESSAGES: dict[str, str] = {
    "race-store": "race: programs along `n` store different values to the same elements of `y`",
    "race-update": "race: programs along `n` read and store the same elements of `y`",
    "race-neighbour": "race: this reads elements of `a` that other programs along `n` store to",
    "race-stores": "race: programs along `n` store to elements of `y` that others store to as well",
    "race-atomic": "race: this stores to elements of `y` that other programs along `n` update by atomics",
    "uninitialised": "`y` is read here, and nothing was stored to it before",
}


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
    assert error.location is not None

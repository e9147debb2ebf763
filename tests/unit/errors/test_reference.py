"""One case for each message of `support/catalogue/reference.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support.tile_programs import GEMM, run
from tiledsl.support.catalogue.reference import ENTRIES
from tiledsl.support.errors import TileError

F32 = np.float32


def zeros(*shape: int) -> Any:
    return np.zeros(shape, F32)


def read_only() -> object:
    array = zeros(3)
    array.flags.writeable = False
    text = """
    func @f(%x: tensor<f32, [N]>) {
      %t = tile.load(%x, [:])
      tile.store(%x, [:], %t)
      tile.return([%x])
    }
    """
    return run(text, array)


def broken_promise() -> object:
    text = """
    func @f(%x: tensor<f32, [N]>) {
      %n = tile.size() {value = N}
      %t = tile.load(%x, [%n]) {in_bounds = [0]}
      tile.return([])
    }
    """
    return run(text, zeros(3))


def step_of_0() -> object:
    text = """
    func @f(%n: i64) {
      %zero = tile.constant() {value = 0, dtype = i64}
      tile.for(%zero, %n, %zero, []) body(%i: i64) { tile.yield([]) }
      tile.return([])
    }
    """
    return run(text, 3)


def failed_assertion() -> object:
    text = """
    func @f(%c: bool) {
      tile.assert(%c) {text = "c holds"}
      tile.return([])
    }
    """
    return run(text, False)


CASES: dict[str, Callable[[], object]] = {
    "reference-argument-count": lambda: run(GEMM, zeros(2, 2)),
    "reference-argument-type": lambda: run(GEMM, np.zeros((2, 2)), zeros(2, 2)),
    "reference-argument-rank": lambda: run(GEMM, zeros(2), zeros(2, 2)),
    "reference-size": lambda: run(GEMM, zeros(2, 3), zeros(4, 2)),
    "reference-size-unknown": lambda: run("func @f(%x: tensor<f32, [M + 1]>) { tile.return([]) }", zeros(2)),
    "reference-fact": lambda: run("func @f(%x: tensor<f32, [M]>) facts [M % 4 == 0] { tile.return([]) }", zeros(6)),
    "reference-read-only": read_only,
    "reference-promise": broken_promise,
    "reference-step": step_of_0,
    "assertion-failed": failed_assertion,
}
MESSAGES: dict[str, str] = {
    "reference-argument-count": "@gemm takes 2 arguments, 1 are given",
    "reference-argument-type": "%a of @gemm is tensor<f32, [M, K], unit=1>, the argument is an array of float64",
    "reference-argument-rank": "%a of @gemm is tensor<f32, [M, K], unit=1>, the argument has shape (2,)",
    "reference-size": "axis 0 of %b has size 4, but K is 3 (axis 1 of %a)",
    "reference-size-unknown": "axis 0 of %x has size M + 1, and no parameter tells what M is",
    "reference-fact": "@f was specialised for M % 4 == 0, but M is 6",
    "reference-read-only": "%x is stored to, but its array is read-only",
    "reference-promise": "tile.load promises that axis 0 of %x is in bounds, but coordinate 3 is outside of its size 3",
    "reference-step": "the step of this loop is 0",
    "assertion-failed": "assertion failed: c holds (outside of any grid)",
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
    assert error.location is not None
    assert error.fix


@pytest.mark.parametrize(
    ("dtype", "argument", "text"),
    [
        ("f32", "one", "%x of @f is f32, the argument is a str"),
        ("i64", 1.5, "%x of @f is i64, the argument is a float"),
        ("i64", np.float32(1.5), "%x of @f is i64, the argument is a float32"),
        ("f32", np.zeros(1, F32), "%x of @f is f32, the argument has shape (1,)"),
        ("tensor<f32, [1]>", [1.0], "%x of @f is tensor<f32, [1]>, the argument is a list"),
    ],
)
def test_other_arguments_that_do_not_fit(dtype: str, argument: Any, text: str) -> None:
    with pytest.raises(TileError) as caught:
        run(f"func @f(%x: {dtype}) {{ tile.return([]) }}", argument)
    assert caught.value.message == text

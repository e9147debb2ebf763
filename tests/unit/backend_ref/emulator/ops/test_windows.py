"""Windows by TMA in the emulator: which pixels come, and what it does not take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.gpu_code.emulated import fault, run
from tests.support.gpu_code.every_gpu_op import WINDOWS
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.verifier import Form, verify
from tiledsl.support.errors import TileError


def _image() -> Any:
    return np.random.default_rng(0).standard_normal((3, 5, 6, 64)).astype(np.float16)


@pytest.mark.parametrize("row", [0, 2])
@pytest.mark.parametrize("column", [0, 1, 2])
def test_each_position_gets_the_pixel_at_a_place_of_its_window(row: int, column: int) -> None:
    x, y = _image(), np.zeros((27, 64), np.float16)
    run(WINDOWS, x, y, row, column)
    padded: Any = np.pad(x, ((0, 0), (1, 3), (1, 3), (0, 0)))
    expected: Any = padded[:, row : row + 5 : 2, column : column + 5 : 2]
    assert np.array_equal(y, expected.reshape(27, 64))


def test_beyond_the_last_image_there_are_zeros() -> None:
    y = np.ones((40, 64), np.float16)
    run(WINDOWS, _image(), y, 1, 1)
    assert y[:27].any()
    assert not y[27:].any()


def test_a_box_begins_where_a_window_does() -> None:
    text = WINDOWS.replace(
        "%left = tile.map([%across, %one]) {fn = sub}", "%left = tile.map([%across, %one]) {fn = add}"
    )
    error = fault(text.replace("positions = [3, 3], strides = [2, 2]", "positions = [3, 2], strides = [2, 3]"),
                  _image(), np.zeros((27, 64), np.float16), 0, 0)  # fmt: skip
    assert "where no window does" in str(error)


def test_places_lie_within_what_tma_counts() -> None:
    error = fault(WINDOWS, _image(), np.zeros((27, 64), np.float16), 0, 256)
    assert "256 pixels into windows" in str(error)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("strides = [2, 2]", "strides = [2, 9]", "of which TMA knows 8"),
        ("lows = [-1, -1]", "lows = [-1, -129]", "where TMA knows 128"),
        ("threads = 32, shared", "threads = 32, cluster = 2, shared", "in a cluster of 2"),
        ("unit=3>, %y", "unit=2>, %y", "do not lie side by side"),
    ],
)
def test_what_tma_cannot_copy_is_not_legal(old: str, new: str, problem: str) -> None:
    with pytest.raises(TileError, match=problem):
        verify(parse_module(WINDOWS.replace(old, new, 1)), Form.GPU)

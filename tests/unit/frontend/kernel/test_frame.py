"""Names: what they stand for, and what may have been meant by one that stands for nothing."""

from __future__ import annotations

import enum

import numpy as np
import pytest

from tests.support.kernels.lowered_kernels import kernel_from_text, lower, lower_text
from tiledsl import TileSyntaxError, TileTypeError, tile


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("widht", "did you mean `width`?"),  # a variable
        ("WIDHT", "did you mean `WIDTH`?"),  # a global
        ("exp", "write `tile.exp`"),
        ("softmx", "did you mean `tile.softmax`?"),
        ("qqq", "assign it first"),
    ],
)
def test_unknown_names(name: str, hint: str) -> None:
    text = f"def kernel(x):\n    width = 3\n    for m in tile.grid(3):\n        x[m] = {name}"
    with pytest.raises(TileSyntaxError) as caught:
        lower(kernel_from_text(text, WIDTH=4), x=1)
    assert caught.value.fix == hint
    assert caught.value.message == f"the name `{name}` is not defined"


class Mode(enum.IntEnum):
    FAST = 3


CONSTANTS: list[tuple[object, str]] = [
    (True, "1.0"), (3, "3.0"), (2.5, "2.5"), (np.float32(0.5), "0.5"), (np.int8(-1), "-1.0"), (Mode.FAST, "3.0"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "shown"), CONSTANTS)
def test_numbers_from_outside(value: object, shown: str) -> None:
    text = "def kernel(x):\n    for m in tile.grid(3):\n        x[m] = x[m] * VALUE"
    assert f"value = {shown}" in lower_text(kernel_from_text(text, VALUE=value), x=1)


@pytest.mark.parametrize("value", [[1], {1: 2}, {1}, np.zeros(2), object(), 2j, ([1],)])
def test_objects_from_outside_are_refused(value: object) -> None:
    text = "def kernel(x):\n    for m in tile.grid(3):\n        x[m] = VALUE"
    with pytest.raises(TileTypeError, match=r"`VALUE` is a .* from outside of the kernel"):
        lower(kernel_from_text(text, VALUE=value), x=1)


def test_kernels_do_not_call_kernels() -> None:
    text = "def kernel(x):\n    for m in tile.grid(3):\n        x[m] = other(x)"
    with pytest.raises(TileTypeError, match="`other` is a kernel") as caught:
        lower(kernel_from_text(text, other=tile.kernel(test_numbers_from_outside)), x=1)
    assert caught.value.fix == "call it before or after this one, or make it a `@tile.func`"

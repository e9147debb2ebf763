"""One case for each message of `support/catalogue/ops.py`; `tests/unit/ops` has those of each op."""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiledsl
from tiledsl import ops
from tiledsl.support.catalogue.ops import ENTRIES
from tiledsl.support.errors import TileError

X = np.ones((3, 4), np.float32)
CASES: dict[str, Callable[[Any], object]] = {
    "ops-shapes": lambda x: ops.linear(x, x[:, :3]),
    "ops-rank": lambda x: ops.conv2d(x, x),
    "ops-option": lambda x: ops.gelu(x, "fast"),
    "ops-dtype": lambda x: ops.embedding(x, x),
}


@pytest.mark.parametrize("code", CASES)
def test_the_message_is_at_the_line_that_calls_the_op(code: str) -> None:
    with pytest.raises(TileError) as caught:
        tiledsl.trace(CASES[code], X)
    assert caught.value.code == code
    assert isinstance(caught.value, ENTRIES[code].kind)
    assert "test_ops.py" in str(caught.value.location)
    assert caught.value.fix


def test_both_sides_are_shown_with_where_they_come_from() -> None:
    def formula(x: Any) -> Any:
        hidden = x * 2
        return ops.linear(hidden, x[:, :3])

    with pytest.raises(TileError) as caught:
        tiledsl.trace(formula, X)
    text = str(caught.value)
    assert "ops.linear: `hidden` of shape [3, 4] does not fit `x[:, :3]` of shape [3, 3]" in text
    assert "hidden = x * 2" in text
    assert "pass `w.T`" in text

"""Which comparisons of a loop are masks: those of a coordinate of its own with others, and with scalars."""

from __future__ import annotations

import pytest

from tests.support.kernels.masked_products import KEY, QUERY, module_of
from tiledsl.ir.tile_ops import Range
from tiledsl.passes.gpu.roles.block_masks import masks_of


@pytest.mark.parametrize(
    "condition",
    [
        f"{KEY} <= {QUERY}",
        f"{QUERY} >= {KEY}",
        f"{KEY} < {QUERY} + 5",
        f"{KEY} - {QUERY} <= Q - K",
        "j.index[None, :] < K",
        "j.index[None, :] < s[0]",
    ],
)
def test_comparisons_that_hold_in_the_first_turns_are_masks(condition: str) -> None:
    (loop,) = [op for op in module_of(condition).walk() if isinstance(op, Range)]
    (mask,) = masks_of(loop)
    (comparison,) = mask.comparisons
    assert comparison.grows
    assert comparison.strict == ("<" in condition and "<=" not in condition)
    assert (mask.axis, mask.other) == (1, -1.0)


@pytest.mark.parametrize(
    ("condition", "grow"),
    [
        (f"{KEY} >= {QUERY}", [False]),
        (f"({KEY} <= {QUERY}) & ({QUERY} - {KEY} < 70)", [True, False]),
        (f"({KEY} > 5) & ({KEY} < s[0]) & ({KEY} <= {QUERY})", [False, True, True]),
        (f"tile.abs({QUERY} - {KEY}) < 70", [False, True]),
        (f"70 >= tile.abs({KEY} - {QUERY} + s[0])", [True, False]),
        (f"tile.abs(tile.cast({QUERY}, tile.i32) - tile.cast({KEY}, tile.i32)) < 70", [False, True]),
    ],
)
def test_windows_are_masks_with_two_ends(condition: str, grow: list[bool]) -> None:
    (loop,) = [op for op in module_of(condition).walk() if isinstance(op, Range)]
    (mask,) = masks_of(loop)
    assert [one.grows for one in mask.comparisons] == grow


@pytest.mark.parametrize(
    "condition",
    [
        f"{KEY} == {QUERY}",
        f"tile.abs({KEY} - {QUERY}) > 5",  # all but a window
        f"({KEY} <= {QUERY}) | ({KEY} < 5)",
        f"{KEY} * 2 <= {QUERY}",  # not a sum of coordinates
        "bias[i, j] > 0",
        f"({KEY} <= {QUERY}) & (bias[i, j] > 0)",
        f"{QUERY} <= 100",  # the same in every turn
    ],
)
def test_all_others_are_made_in_every_turn(condition: str) -> None:
    (loop,) = [op for op in module_of(condition).walk() if isinstance(op, Range)]
    assert masks_of(loop) == ()

"""Turns without masks: which loops get one of their own for them, and how many of the first turns it makes."""

from __future__ import annotations

import pytest

from tests.support.kernels.masked_products import ALIKE, KEY, KEYS, PLAN, QUERY, ROWS, lowered_for_all, module_of
from tiledsl.ir.core import Module
from tiledsl.ir.gpu.async_ops import Role, Wgmma
from tiledsl.ir.gpu.gpu_ops import Launch, Mma, Pad
from tiledsl.ir.tile_ops import For, Map
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.nest.evaluate_scalars import Place, ScalarValues


def loops_of(module: Module) -> list[For]:
    """The loops that multiply, in order."""
    role = next((op for op in module.walk() if isinstance(op, Role)), None)
    every = module.walk() if role is None else role.walk()
    return [op for op in every if isinstance(op, For) and any(isinstance(i, (Wgmma, Mma)) for i in op.body.ops)]


def comparisons(loop: For) -> int:
    return sum(isinstance(op, Map) and op.fn == "where" and bool(op.result.shape) for op in loop.body.walk())


@pytest.mark.parametrize(
    ("condition", "apart"),
    [
        (f"{KEY} <= {QUERY}", 0),
        (f"{KEY} < {QUERY}", 1),  # the last turn that is clean is so by nothing to spare
        (f"{KEY} + 2 <= {QUERY}", 2),  # and here one element is missing
        (f"{KEY} + 1 < {QUERY}", 2),
        (f"{KEY} < {QUERY} + 65", -64),
        (f"{KEY} + 70 <= {QUERY}", 70),
    ],
)
def test_the_first_loop_has_no_mask_and_ends_where_one_does_something(condition: str, apart: int) -> None:
    """A key is seen if it is `apart` or more before the query."""
    module = lowered_for_all(module_of(condition), PLAN)
    clean, others = loops_of(module)
    assert comparisons(clean) == 0
    assert comparisons(others) == 1
    assert others.start is clean.stop
    (launch,) = [op for op in module.walk() if isinstance(op, Launch)]
    keys = 640
    for first in range(0, 640, ROWS):
        wanted = 0
        while wanted < keys // KEYS and KEYS * wanted + KEYS - 1 + apart <= first:
            wanted += 1
        known = ScalarValues({"Q": 640, "K": keys}, {launch.body.arguments[0]: Place(first, 1)})
        # what follows the scores of a turn is made in the next one: the loop begins with the second turn
        assert known.of(clean.stop) == max(wanted, 1), (first, wanted)


@pytest.mark.parametrize(("plan", "arch"), [(PLAN, "sm_90"), (ALIKE, "sm_80")])
@pytest.mark.parametrize(
    ("condition", "loops"),
    [
        (f"{KEY} <= {QUERY}", 2),
        (f"({KEY} <= {QUERY}) & ({KEY} < s[0])", 2),
        (f"({KEY} * 2 + 1) <= {QUERY}", 2),
        (f"{KEY} <= tile.minimum({QUERY}, 100)", 2),
        (f"({KEY} <= {QUERY}) | ({KEY} == 0)", 2),  # because of keys that are not there
    ],
)
def test_loops_with_masks_are_two(condition: str, loops: int, plan: Plan, arch: str) -> None:
    module = lowered_for_all(module_of(condition), plan, arch)
    found = loops_of(module)
    assert len(found) == loops
    assert not any(isinstance(op, Pad) for op in found[0].body.ops)


@pytest.mark.parametrize(
    ("condition", "masked"),
    [
        (f"{KEY} <= {QUERY}", [0, 1]),
        (f"{KEY} >= {QUERY}", [1, 0, 0]),  # the last loop has blocks that are not whole
        (f"tile.abs({KEY} - {QUERY}) < 20", [1, 1]),
        (f"({KEY} >= {QUERY}) & (bias[i, j] > 0)", [1, 1]),
        (f"({KEY} <= {QUERY}) | (bias[i, j] > 0)", [1, 1]),
    ],
)
def test_comparisons_that_hold_later_have_a_loop_before(condition: str, masked: list[int]) -> None:
    assert [comparisons(loop) for loop in loops_of(lowered_for_all(module_of(condition), ALIKE, "sm_80"))] == masked

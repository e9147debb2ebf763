"""Turns without masks: which comparisons are masks, and how many of the first turns a loop of its own makes."""

from __future__ import annotations

import pytest

from tests.support.gpu_lowering import lowered
from tests.support.kernels import kernel_from_text, lower, tensor
from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import bf16, i64
from tiledsl.ir.gpu.async_ops import Role, Wgmma
from tiledsl.ir.gpu.gpu_ops import Launch
from tiledsl.ir.tile_ops import For, Map, Range
from tiledsl.passes.gpu.plan import parse_plan
from tiledsl.passes.gpu.roles.clean_turns import masks_of
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.nest.evaluate_scalars import Place, ScalarValues
from tiledsl.passes.pipelines import gpu_front_pipeline

ROWS, KEYS = 128, 64
PLAN = parse_plan("i=128, j=64, 256 threads, 8x1 warps, cooperative, 2 stages, aligned to 16/16/16/16/16/16")
QUERY, KEY = "i.index[:, None]", "j.index[None, :]"


def module_of(condition: str, dtype: str = "") -> Module:
    """Products of scores of which some are masked, form `tile-placed`."""
    text = f"""
    def masked(q, k, v, bias, s):
        Q, D = q.shape
        K, D = k.shape
        K, D = v.shape
        Q, K = bias.shape
        out = tile.empty((Q, D), tile.f32)
        for i in tile.grid(Q):
            acc = tile.zeros((i, D))
            for j in tile.range(K):
                scores = tile.dot(q[i, :], k[j, :].mT)
                scores = tile.where({condition}, scores, -1.0)
                acc = tile.dot(scores.to(v.dtype), v[j, :], acc)
            out[i, :] = acc
        return out
    """
    operand = tensor(2, bf16, (None, 64))
    arguments = dict.fromkeys("qkv", operand)
    module = lower(kernel_from_text(text), bias=tensor(2, bf16), s=tensor(1, i64), **arguments)
    return PassManager(gpu_front_pipeline()).run(module, PassContext())


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
    assert mask.strict == ("<" in condition and "<=" not in condition)
    assert (mask.axis, mask.other) == (1, -1.0)


@pytest.mark.parametrize(
    "condition",
    [
        f"{KEY} >= {QUERY}",  # holds in the last turns
        f"{KEY} == {QUERY}",
        f"{KEY} * 2 <= {QUERY}",  # not a sum of coordinates
        "bias[i, j] > 0",
        f"({KEY} <= {QUERY}) & (bias[i, j] > 0)",
        f"{QUERY} <= 100",  # the same in every turn
    ],
)
def test_all_others_are_made_in_every_turn(condition: str) -> None:
    (loop,) = [op for op in module_of(condition).walk() if isinstance(op, Range)]
    assert masks_of(loop) == ()


def loops_of(module: Module) -> list[For]:
    """The loops of the consumers that multiply, in order."""
    role = next(op for op in module.walk() if isinstance(op, Role))
    return [op for op in role.walk() if isinstance(op, For) and any(isinstance(i, Wgmma) for i in op.body.ops)]


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
    module = lowered(module_of(condition), PLAN)
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

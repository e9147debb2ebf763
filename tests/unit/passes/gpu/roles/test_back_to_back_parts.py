"""Which loops with products that feed on each other can be rotated, and the parts that they are cut into."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import pytest

from tests.support.kernels.lowered_kernels import kernel_from_text, lower, tensor
from tiledsl.ir.dtypes import bf16
from tiledsl.ir.tile_ops import Grid, Range
from tiledsl.passes.gpu.products.streamed_loads import COPIED_BYTES, Feed, feeds_of
from tiledsl.passes.gpu.roles.products.back_to_back_parts import Parts, parts_of
from tiledsl.passes.gpu.roles.rings import Ring
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_front_pipeline


class Fed(NamedTuple):
    """Of a ring what decides about rotations."""

    feed: Feed


def rotation(turn: str, *, start: str = "acc = tile.zeros((i, D))") -> Parts | None:
    """Of a loop over keys whose turns are `turn`."""
    lines = "\n                ".join(turn.strip().splitlines())
    text = f"""
    def weighed(q, k, v):
        Q, D = q.shape
        K, D = k.shape
        K, D = v.shape
        out = tile.empty((Q, D), tile.f32)
        for i in tile.grid(Q):
            {start}
            for j in tile.range(K):
                {lines}
            out[i, :] = acc
        return out
    """
    operands: dict[str, Any] = dict.fromkeys("qkv", tensor(2, bf16, (None, 64)))
    module = PassManager(gpu_front_pipeline()).run(lower(kernel_from_text(text), **operands), PassContext())
    (grid,) = [op for op in module.entry.body.ops if isinstance(op, Grid)]
    (loop,) = [op for op in grid.body.ops if isinstance(op, Range)]
    feeds = [feed for feed in feeds_of(grid, 90, lambda _: 16, COPIED_BYTES) if feed.block is loop.body]
    return parts_of(loop, cast("list[Ring]", [Fed(feed) for feed in feeds]))


PLAIN = """s = tile.dot(q[i, :], k[j, :].mT)
acc = tile.dot((s * 0.5).to(v.dtype), v[j, :], acc)"""
RESCALED = """s = tile.dot(q[i, :], k[j, :].mT)
w = tile.max(s, axis=1)
acc = tile.dot(tile.exp(s).to(v.dtype), v[j, :], acc * w[:, None])"""


def test_scores_what_is_made_of_them_and_sums() -> None:
    found = rotation(PLAIN)
    assert found is not None
    assert [dot.result.name for dot in found.scores] == ["s"]
    assert [(one.number, one.behind) for one in found.sums] == [(0, ())]
    assert found.lefts == (found.sums[0].dot.a,)


def test_what_becomes_of_the_sum_before_the_product_is_behind() -> None:
    found = rotation(RESCALED)
    assert found is not None
    (one,) = found.sums
    assert [op.name for op in one.behind] == ["tile.map"]
    assert one.behind[0] not in found.ahead


@pytest.mark.parametrize(
    "turn",
    [
        "acc = tile.dot(q[i, :], tile.dot(k[j, :].mT, v[j, :]).to(v.dtype), acc)",  # the right operand is computed
        # scores that depend on the sum before them
        "s = tile.dot((q[i, :] + acc.to(q.dtype)), k[j, :].mT)\nacc = tile.dot(s.to(v.dtype), v[j, :], acc)",
        # more than elementwise work on the sum
        "s = tile.dot(q[i, :], k[j, :].mT)\nacc = tile.dot(s.to(v.dtype), v[j, :], acc + tile.sum(acc))",
        # keys that are read by something else too
        "s = tile.dot(q[i, :], k[j, :].mT)\n"
        "acc = tile.dot((s + tile.sum(k[j, :].to(tile.f32), axis=1)).to(v.dtype), v[j, :], acc)",
    ],
)
def test_others_are_not_rotated(turn: str) -> None:
    assert rotation(turn) is None

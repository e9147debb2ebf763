"""What is known of the padding of tiles that are computed of a masked one."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.support.kernels.lowered_kernels import lower
from tiledsl import tile
from tiledsl.frontend.kernel.arguments import ConstantArgument
from tiledsl.ir import tile_ops as ops
from tiledsl.passes.gpu.roles.block_masks import masks_of
from tiledsl.passes.gpu.roles.known_padding import fills_of


@tile.kernel
def weights(x: tile.Tensor, first: tile.constexpr, scale: tile.constexpr, other: tile.constexpr) -> Any:
    Q, K = x.shape
    out = tile.empty(Q, tile.f32)
    for i in tile.grid(Q):
        top = tile.full(i, first)
        total = tile.zeros(i)
        for j in tile.range(K):
            scores = tile.where(j.index[None, :] <= i.index[:, None], x[i, j], other)
            top = tile.maximum(top, tile.max(scores, axis=1))
            p = tile.exp2(scores * scale - (top * scale)[:, None])
            total = total + tile.sum(p, axis=1)
        out[i] = total
    return out


def known(first: float, scale: float, other: float) -> list[float]:
    """The padding of all that is computed of the mask, in order."""
    constants = {"first": ConstantArgument(first), "scale": ConstantArgument(scale), "other": ConstantArgument(other)}
    module = lower(weights.__wrapped__, x=2, **constants)
    (loop,) = [op for op in module.walk() if isinstance(op, ops.Range)]
    (mask,) = masks_of(loop)
    assert mask.other == other
    return list(fills_of(loop, {mask.where.result: other}).values())


def test_weights_of_what_is_masked_are_0() -> None:
    assert known(-1e30, 0.5, -math.inf) == [-math.inf, -math.inf, -math.inf, 0.0]


@pytest.mark.parametrize(
    ("first", "scale", "other", "wanted"),
    [
        (-math.inf, 0.5, -math.inf, 2),  # the difference of two of them is NaN
        (-1e30, -0.5, -math.inf, 1),
        (-1e30, 0.0, -math.inf, 1),
        (-1e30, 0.5, -1e9, 1),
    ],
)
def test_else_it_is_padded_again(first: float, scale: float, other: float, wanted: int) -> None:
    assert len(known(first, scale, other)) == wanted

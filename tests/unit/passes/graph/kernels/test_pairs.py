"""Folds over pairs of what two tensors have go through one of them block by block, for many of the other at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl
from tiledsl import tile

RANDOM = np.random.default_rng(0)
X, Y, B = (RANDOM.normal(size=size).astype(np.float32) for size in (40, 700, (3, 700)))


def density(x: Any, y: Any) -> Any:
    d = x[:, None] - y[None, :]
    return tile.mean(tile.exp(-0.5 * d * d), axis=1)


def nearest(x: Any, y: Any) -> Any:
    return tile.min(tile.abs(x[:, None] - y[None, :]), axis=1)


def of_batches(x: Any, b: Any) -> Any:
    return tile.sum(tile.maximum(x[None, :, None], b[:, None, :]), axis=2)


def rows(b: Any) -> Any:
    return tile.sum(tile.exp(b), axis=1)


@pytest.mark.parametrize(
    ("formula", "given", "streams"),
    [(density, (X, Y), True), (nearest, (X, Y), True), (of_batches, (X, B), True), (rows, (B,), False),
     (density, (X, Y[:100]), False)],
)  # fmt: skip
def test_pairs(formula: Any, given: Any, streams: bool) -> None:
    fused = tiledsl.fuse(tiledsl.trace(formula, *given))
    (kernel,) = fused.build("sm_90").module("sm_90", {}).kernels.values()
    assert ("tile.range" in kernel.ir()) == streams
    found = tile.kernel(formula).emulate(*given, arch="sm_90")
    wanted = fused.build(arch="reference")(*given)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)

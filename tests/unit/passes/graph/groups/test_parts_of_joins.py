"""Parts of one join that read different tensors are one kernel, axis by axis where nothing else ties their axes."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tiledsl import tile


def maps(x: Any, y: Any) -> Any:
    return tile.concat([x * 2, y + 1], axis=-1)


def stacked(x: Any, y: Any) -> Any:
    return tile.stack([x * 2, y + 1, tile.abs(x.T)], axis=1)


def folded(x: Any, y: Any) -> Any:
    return tile.concat([tile.exp(x) - tile.max(x, axis=1, keepdims=True), tile.abs(y)], axis=1)


def both_ways(x: Any, y: Any) -> Any:
    """The axes of the sums are those of one square: they are not one."""
    return tile.concat([tile.sum(x, axis=0), tile.sum(x, axis=1), tile.max(y, axis=0)])


MEANINGS: dict[Callable[[Any, Any], Any], Callable[[Any, Any], Any]] = {
    maps: lambda x, y: np.concatenate([x * 2, y + 1], axis=-1),
    stacked: lambda x, y: np.stack([x * 2, y + 1, abs(x.T)], axis=1),
    folded: lambda x, y: np.concatenate([np.exp(x) - x.max(axis=1, keepdims=True), abs(y)], axis=1),
    both_ways: lambda x, y: np.concatenate([x.sum(axis=0), x.sum(axis=1), y.max(axis=0)]),
}


@pytest.mark.parametrize("formula", [*MEANINGS])
def test_parts_of_squares(formula: Any) -> None:
    random = np.random.default_rng(0)
    x, y = (random.standard_normal((40, 40)).astype(np.float32) for _ in range(2))
    assert_close(tile.kernel(formula).emulate(x, y), MEANINGS[formula](x, y), terms=40)


@pytest.mark.parametrize("formula", [maps, stacked, folded])
def test_they_are_one_kernel_on_a_gpu(formula: Any) -> None:
    square = tile.spec((40, 40), tile.f32)
    fused = tiledsl.fuse(tiledsl.trace(formula, square, square))
    assert len(fused.build(arch="sm_90").kernels) == 1

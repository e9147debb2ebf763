"""What a loop loads along quotients of its coordinates, where threads compute operands, is asked for a turn ahead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tiledsl import tile


@tile.kernel
def scaled(x: tile.Tensor, w: tile.Tensor, s: tile.Tensor, GROUP: tile.constexpr) -> tile.Tensor:
    M, K = x.shape
    N, K = w.shape
    y = tile.empty((M, N), tile.f32)
    for m, n in tile.grid(M, N, block=(16, 16)):
        acc = tile.zeros((m, n))
        for k in tile.range(K, block=32, num_stages=3):
            weights = w[n, k].to(tile.f32) * s[n, k.index // GROUP]
            acc = tile.dot(x[m, k], weights.to(x.dtype).T, acc)
        y[m, n] = acc
    return y


@pytest.mark.parametrize("group", [2, 32, 64])
@pytest.mark.parametrize(("rows", "columns", "depth"), [(16, 32, 256), (5, 19, 192), (16, 16, 64), (3, 7, 0)])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.filterwarnings("ignore::tiledsl.TilePerformanceWarning")
def test_groups_of_scales(group: int, rows: int, columns: int, depth: int, arch: str) -> None:
    """One turn and none too: the first tiles are there before the loop, the last turn asks for nothing beyond."""
    random = np.random.default_rng(0)
    x = random.integers(-3, 4, (rows, depth)).astype(np.float16)
    w = random.integers(-8, 8, (columns, depth)).astype(np.int8)
    s = random.integers(1, 4, (columns, depth // group)).astype(np.float32)
    y: Any = scaled.emulate(x, w, s, GROUP=group, arch=arch, seed=1)
    weights = w.astype(np.float64) * np.repeat(s, group, axis=1).astype(np.float64)
    np.testing.assert_array_equal(np.asarray(y, np.float64), x.astype(np.float64) @ np.transpose(weights))


def test_they_are_carried_from_turn_to_turn() -> None:
    """In the code: the loop's scales are those of the turn before, and it loads the next ones before it multiplies."""
    specs = [tile.spec((64, 512), tile.f16), tile.spec((64, 512), tile.i8), tile.spec((64, 16), tile.f32)]
    text = scaled.compile(*specs, GROUP=32, arch="sm_80").ir("gpu")
    carried, _, body = text[text.index("tile.for(") :].partition("body(")
    assert "next" in carried
    assert body.index("gpu.load(%s") < body.index("gpu.mma")

"""The kernels of scatters and of sorting in the emulator: what a GPU would run, with its threads."""

# pyright: reportPrivateUsage=false, reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.op_checks import normal
from tiledsl.ops import order
from tiledsl.ops.scatter import _scattered


def test_updates_of_a_column_see_each_other() -> None:
    index, updates = np.random.default_rng(0).integers(-1, 5, (9, 7)), normal(9, 7)
    wanted = np.zeros((6, 7), np.float32)
    np.add.at(wanted, (index, np.arange(7)[None]), updates)
    result: Any = _scattered.emulate(np.zeros(5 * 7, np.float32), index, updates, "add")
    assert np.allclose(np.reshape(result, (5, 7)), wanted[:5], atol=1e-6)


def test_parts_are_merged_and_short_rows_counted() -> None:
    x: Any = normal(3, 40)
    places = np.tile(np.arange(40), (3, 1))
    parts: Any = np.sort(x.reshape(3, 5, 8), axis=2).reshape(3, 40)
    wanted = np.concatenate([np.sort(part) for part in np.split(parts, [16, 32], axis=1)], axis=1)
    merged: Any = order._merged.emulate(parts, places, 8, 4, False)
    assert np.array_equal(np.reshape(merged[0], (3, 40)), wanted)
    assert np.array_equal(np.take_along_axis(parts, np.reshape(merged[1], (3, 40)), 1), wanted)
    counted: Any = order._counted.emulate(x, True)
    assert np.array_equal(np.reshape(counted[0], (3, 40)), -np.sort(-x))

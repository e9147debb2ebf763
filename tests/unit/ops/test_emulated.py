"""The kernels of scatters and of sorting in the emulator: what a GPU would run, with its threads."""

# pyright: reportPrivateUsage=false, reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.op_checks import normal
from tiledsl import tile
from tiledsl.ops import order
from tiledsl.ops.scatter import _in_order, _into_columns, _into_slices, _numbers_of_rows


def test_updates_of_a_column_see_each_other() -> None:
    index, updates = np.random.default_rng(0).integers(-1, 5, (9, 7)), normal(9, 7)
    wanted = np.zeros((6, 7), np.float32)
    np.add.at(wanted, (index, np.arange(7)[None]), updates)
    result: Any = _in_order.emulate(np.zeros(5 * 7, np.float32), index, updates, "add")
    assert np.allclose(np.reshape(result, (5, 7)), wanted[:5], atol=1e-6)


def test_updates_of_a_place_meet() -> None:
    """Ragged, of several blocks; places count from the end, or are outside."""
    draw = np.random.default_rng(1)
    places, updates = draw.integers(-6, 7, 300), normal(300, 21)
    wanted = np.zeros((5, 21), np.float32)
    inside = (places >= -5) & (places < 5)
    np.add.at(wanted, places[inside], updates[inside])
    assert np.allclose(_into_slices.emulate(np.zeros((5, 21), np.float32), places, updates, "add"), wanted, atol=1e-4)
    index = draw.integers(0, 4, (2, 9, 3))
    greatest = np.zeros((2, 4, 3), np.float32)
    values = normal(2, 9, 3)
    np.maximum.at(greatest, (np.arange(2)[:, None, None], index, np.arange(3)), values)
    got: Any = _into_columns.emulate(np.zeros(24, np.float32), index, values, 4, "max")
    assert np.array_equal(np.reshape(got, (2, 4, 3)), greatest)
    last = np.full((2, 4), -1, np.int32)
    np.maximum.at(last, (np.arange(2)[:, None], index[:, :, 0]), np.arange(9))
    found: Any = _numbers_of_rows.emulate(np.full(8, -1, np.int32), np.ascontiguousarray(index[:, :, 0]), 4)
    assert np.array_equal(np.reshape(found, (2, 4)), last)


def test_neighbours_of_a_warp_update_neighbours() -> None:
    """The elements of a thread are a warp apart, so that 32 threads update one line together."""
    types: list[Any] = [tile.spec((2000, 96), tile.f32), tile.spec((9000,), tile.i64), tile.spec((9000, 96), tile.f32)]
    source = _into_slices.compile(*types, "add", arch="sm_90").source
    (update,) = [line for line in source.splitlines() if "atomicAdd(" in line]
    assert "s % 3 * 32" in update


def test_parts_are_merged_and_short_rows_counted() -> None:
    x: Any = normal(3, 40)
    places = np.tile(np.arange(40), (3, 1))
    parts: Any = np.sort(x.reshape(3, 5, 8), axis=2).reshape(3, 40)
    wanted = np.concatenate([np.sort(part) for part in np.split(parts, [16, 32], axis=1)], axis=1)
    merged: Any = order._merged.emulate(parts, places, 8, 4, False, tile.i32)
    assert np.array_equal(np.reshape(merged[0], (3, 40)), wanted)
    assert np.array_equal(np.take_along_axis(parts, np.reshape(merged[1], (3, 40)), 1), wanted)
    counted: Any = order._counted.emulate(x, True)
    assert np.array_equal(np.reshape(counted[0], (3, 40)), -np.sort(-x))

"""Which slots of a tile hold the elements of another one that is a view of it: a table for each."""

from __future__ import annotations

import numpy as np

from tiledsl.ir.gpu.gpu_ops import Convert, Slice
from tiledsl.ir.layouts.conversions import convert_plan, slice_slots
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.tile_ops import Broadcast


def broadcast_table(source: RegisterLayout, result: RegisterLayout) -> tuple[int, ...]:
    """For each slot of the result of a broadcast, the slot of the source that holds its element."""
    slots = np.arange(result.slots, dtype=np.int64)
    offset = result.rank - source.rank
    places = result.slot_coordinates(slots)
    own = [np.zeros_like(slots) if size == 1 else places[axis + offset] for axis, size in enumerate(source.shape)]
    _, table = source.place(own)
    table = np.broadcast_to(np.asarray(table, np.int64), slots.shape)
    found = source.slot_coordinates(table)
    for want, got in zip(own, found):
        assert np.array_equal(want, np.broadcast_to(got, want.shape)), f"{source} does not broadcast to {result}"
    return tuple(int(slot) for slot in table)


def view_table(op: Broadcast | Slice | Convert) -> tuple[int, ...]:
    """For each slot of the result, the slot of the source that holds its element, in the same thread."""
    source, result = op.source.layout, op.result.layout
    if isinstance(op, Broadcast):
        return broadcast_table(source, result)
    if isinstance(op, Slice):
        found = slice_slots(source, op.starts, result, op.steps)
        assert found is not None, f"a slice of {source} as {result} is spread over threads"
        return found
    return convert_plan(source, result).slots

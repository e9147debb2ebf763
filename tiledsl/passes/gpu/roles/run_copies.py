"""Where the runs of a block lie whose rows are pages of a table: one scalar for each, found before the block is copied.

    %page_0 = gpu.load(%table, [%b, floordiv(%start, 64)])
    %page_1 = gpu.load(%table, [%b, floordiv(%start + 64, 64)])
    wait until the stage is empty
    gpu.tma_load(%keys, [%page_0, mod(%start, 64), %g, %0]) to rows 0 to 63
    gpu.tma_load(%keys, [%page_1, mod(%start + 64, 64), %g, %0]) to rows 64 to 127

Runs beyond the end of the block lie outside of the tensor: zeros come, and nothing is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.gpu import async_ops
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.types import TileType
from tiledsl.passes.gpu.layouts.infer_layouts import tile_axes
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.products.row_runs import RowRuns

LARGEST = (1 << 31) - 1
"""Of the coordinates that TMA takes; no tensor has more."""
OUTSIDE = -1
WIDE = 32
"""Bits of integers that may be larger, or below their least."""


@dataclass(frozen=True)
class Box:
    """What comes into a stage: a load, the buffer of its stages, its size, and which axis counts rows of runs."""

    op: ops.Load
    buffer: Value
    shape: tuple[int, ...]
    along: int


def copy_runs(
    state: Lowering,
    box: Box,
    runs: RowRuns,
    places: Sequence[Mapping[int, Value]],
    stage: Value,
    barriers: Value,
    index: Value,
) -> None:
    """Begins to copy all runs of a block, one box each, which an mbarrier counts."""
    op, zero = box.op, state.constant(0)
    axes, rows = tile_axes(op), box.shape[box.along] // len(places)
    axes[runs.rows] = box.along
    shape = tuple(rows if axis == box.along else size for axis, size in enumerate(box.shape))
    for number, where in enumerate(places):
        offsets = [stage, zero, zero]
        offsets[1 + box.along] = state.constant(number * rows)
        indices = [where[n] if n in where else state.start_of(one) for n, one in enumerate(op.indices)]
        state.emit(
            async_ops.TmaLoad, tensor=state.tensors[op.tensor], indices=indices, axes=tuple(axes), buffer=box.buffer,
            offsets=offsets, barriers=barriers, index=index, places=(1, 2), shape=shape,
        )  # fmt: skip


def run_places(state: Lowering, op: ops.Load, runs: RowRuns, rows: int) -> list[Mapping[int, Value]]:
    """The coordinates of each run of a block of `rows`, by axis of the tensor, but for those that all have."""
    place, together = state.block(runs.axis), runs.together(rows)
    found: list[Mapping[int, Value]] = []
    for first in range(0, rows, together):
        row, made = state.arithmetic("add", place.start, first), dict[Value, Value]()
        where = {runs.rows: state.constant(0)}
        if together != runs.run:
            where[runs.rows] = state.arithmetic("mod", row, runs.run)
        for axis in runs.jumps:
            index = op.indices[axis]
            assert isinstance(index, Value)
            where[axis] = _inside(state, _element(state, index, row, made), first, place.extent)
        found.append(where)
    return found


def _inside(state: Lowering, value: Value, first: int, extent: Value | None) -> Value:
    """A coordinate of a run, as i64; one outside of every tensor where the block ends before it."""
    wide = value.dtype.bits > WIDE or not value.dtype.is_signed
    value = state.builder.cast(value, i64)
    if wide:
        value = state.arithmetic("maximum", state.arithmetic("minimum", value, LARGEST), OUTSIDE)
    if not first or extent is None:
        return value
    starts = state.builder.map("lt", state.constant(first), extent)
    return state.builder.map("where", starts, value, state.constant(OUTSIDE))


def _element(state: Lowering, value: Value, row: Value, made: dict[Value, Value]) -> Value:
    """The element of a tile of integers that stands at coordinate `row` of the block. `made`: those that are there, as
    what several values are computed of is computed once."""
    if value not in made:
        made[value] = _made_anew(state, value, row, made)
    return made[value]


def _made_anew(state: Lowering, value: Value, row: Value, made: dict[Value, Value]) -> Value:
    if not value.shape:
        return state.scalar(value)
    match value.op:
        case ops.Coordinates():
            return row
        case ops.Map() as op:
            return state.builder.map(op.fn, *(_element(state, one, row, made) for one in op.inputs))
        case ops.Cast() as op:
            return state.builder.cast(_element(state, op.source, row, made), op.dtype)
        case ops.Broadcast() as op:
            return _element(state, op.source, row, made)
        case ops.Load() as op:
            indices: list[Value] = []
            checked: list[int] = []
            for axis, index in enumerate(op.indices):
                assert isinstance(index, Value)
                assert isinstance(index.type, TileType)
                indices.append(state.builder.cast(_element(state, index, row, made), i64))
                if index.shape or axis not in op.in_bounds:  # what is known to be inside is so for rows of the block
                    checked.append(axis)
            return state.emit(
                gpu.Load, name=op.result.name, tensor=state.tensors[op.tensor], indices=indices, extents=(),
                axes=(-1,) * len(indices), checked=tuple(checked), shape=(),
            ).result  # fmt: skip
        case _:
            raise AssertionError(f"{value.op} gives no place of a run")

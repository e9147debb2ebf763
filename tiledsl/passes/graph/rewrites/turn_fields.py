"""Elements of short rows that become planes are computed plane by plane, side by side.

    %y = map(%x, ...)  of [256, 224, 224, 3]                         pixels, channel by channel
    %t = graph.transpose(%y) {permutation = [0, 3, 1, 2]}            planes
 =>
    %t = graph.concat([reshape(slice(%y) [.., 0:1]), reshape(slice(%y) [.., 1:2]), ...]) {axis = 1}

Slices go through what is computed element by element (`move-reindexing`), and one kernel reads whole rows, of which
threads have all elements (`kernels/records.py`), and writes whole runs of each plane: nothing is turned in shared
memory, and nothing is accessed element by element.

The other way round, planes become rows of a few elements (a shuffle of pixels by 3), where these are stored:

    %t = graph.transpose(%x) {permutation = [0, 2, 3, 1]}, %x of [256, 3, 224, 224] in memory
 =>
    %t = graph.concat([reshape(slice(%x) [:, 0:1]), reshape(slice(%x) [:, 1:2]), ...]) {axis = 3}
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Op, Value
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.shapes import sizes_of, volume
from tiledsl.passes.graph.analysis.views import view_of_value
from tiledsl.passes.manager import PassContext

MOST_PLANES = 8
"""Of a join that elementwise ops go through (`move-reindexing`)."""
LEAST_EACH = 1 << 10
"""Elements of a plane: fewer are no runs."""
MOST_OPS = 64
"""Elementwise ops that are looked at, and written once for each plane."""


@dataclass(frozen=True)
class TurnFields:
    """Of the entry, on GPUs."""

    name: ClassVar[str] = "turn-fields"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        entry = module.entry.body
        turns = [op for op in entry.ops if isinstance(op, ops.Transpose)] if self.arch.startswith("sm_") else []
        for op in turns:
            axis, last = _plane_axis(op), len(op.permutation) - 1
            if axis is not None and _is_made_of_rows(op):
                _join_parts(op, last, axis)
                count = sizes_of(op.source)[-1]
                context.remark(self.name, op.location, f"rows of {count} become as many planes, by one kernel")
            elif _makes_rows(op) and _is_stored(op):
                count = sizes_of(op.result)[-1]
                _join_parts(op, op.permutation[-1], last)
                context.remark(self.name, op.location, f"{count} planes become rows of as many, by one kernel")
        return module


def _join_parts(op: ops.Transpose, source_axis: int, axis: int) -> None:
    """Puts a join of the places along an axis, each transposed by itself, in the place of a transpose."""
    entry, sizes = op.parent, sizes_of(op.source)
    assert entry is not None
    parts: list[Value] = []
    shape = tuple(1 if at == axis else size for at, size in enumerate(sizes_of(op.result)))
    in_order = [at for at in op.permutation if at != source_axis] == [
        at for at in range(len(sizes)) if at != source_axis
    ]
    for number in range(sizes[source_axis]):
        starts = tuple(number if at == source_axis else 0 for at in range(len(sizes)))
        stops = tuple(number + 1 if at == source_axis else size for at, size in enumerate(sizes))
        part = ops.Slice(op.location, source=op.source, starts=starts, stops=stops, steps=(1,) * len(sizes))
        moved: Op
        if in_order:
            moved = ops.Reshape(op.location, source=part.result, shape=shape)
        else:
            moved = ops.Transpose(op.location, source=part.result, permutation=op.permutation)
        for new in (part, moved):
            entry.insert_before(op, new)
        parts += moved.results
    joined = ops.Concat(op.location, sources=parts, axis=axis, result_names=[op.result.name])
    entry.insert_before(op, joined)
    op.result.replace_with(joined.result)
    op.erase()


def _makes_rows(op: ops.Transpose) -> bool:
    """Whether planes, of which neighbours lie side by side in memory along the axis before it, become rows of a few
    elements: the last axis comes from elsewhere."""
    sizes, view = sizes_of(op.result), view_of_value(op.source)
    last = len(sizes) - 1
    if last < 1 or op.permutation[-1] == last or not 1 < sizes[-1] <= MOST_PLANES or not volume(op.result):
        return False
    if view is None or not isinstance(view.buffer.op, (ops.Call, type(None))) or view.place.unit is None:
        return False
    return op.permutation[-2] == view.place.unit and volume(op.result) // sizes[-1] >= LEAST_EACH


def _is_stored(op: ops.Transpose) -> bool:
    """Whether what is transposed is stored, and nobody computes with it."""
    value = op.result
    while [type(user) for user in value.users] == [ops.Reshape]:
        value = next(iter(value.users)).results[0]
    return bool(value.users) and all(isinstance(user, (ops.Return, ops.Call)) for user in value.users)


def _plane_axis(op: ops.Transpose) -> int | None:
    """Where the last axis goes, of a few elements, if all others stay in their order; None where it is none such."""
    sizes, last = sizes_of(op.source), len(op.permutation) - 1
    others = [axis for axis in op.permutation if axis != last]
    at = op.permutation.index(last)
    if others != sorted(others) or at == last or not 1 < sizes[last] <= MOST_PLANES:
        return None
    inner = math.prod(sizes_of(op.result)[at + 1 :])
    return at if inner >= LEAST_EACH and volume(op.result) else None


def _is_made_of_rows(op: ops.Transpose) -> bool:
    """Whether a tensor is computed element by element, for its transpose alone, of rows that lie in memory."""
    size, found = volume(op.source), False
    pending: list[tuple[Value, Op]] = [(op.source, op)]
    seen = 0
    while pending:
        value, reader = pending.pop()
        made, seen = value.op, seen + 1
        if seen > MOST_OPS:
            return False
        if isinstance(made, (ops.Map, ops.Cast)):
            if any(user is not reader for user in value.users):
                return False
            pending += [(operand, made) for operand in made.operands]
        elif volume(value) == size and not isinstance(made, (ops.Broadcast, ops.Iota)):
            view = view_of_value(value)
            if view is None or not (view.buffer.op is None or isinstance(view.buffer.op, ops.Call)):
                return False
            found = found or view.place.unit == len(sizes_of(value)) - 1
    return found and isinstance(op.source.op, (ops.Map, ops.Cast))

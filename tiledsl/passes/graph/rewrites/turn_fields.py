"""Elements of short rows that become planes are computed plane by plane, side by side.

    %y = map(%x, ...)  of [256, 224, 224, 3]                         pixels, channel by channel
    %t = graph.transpose(%y) {permutation = [0, 3, 1, 2]}            planes
 =>
    %t = graph.concat([reshape(slice(%y) [.., 0:1]), reshape(slice(%y) [.., 1:2]), ...]) {axis = 1}

Slices go through what is computed element by element (`move-reindexing`), and one kernel reads whole rows, of which
threads have all elements (`kernels/records.py`), and writes whole runs of each plane: nothing is turned in shared
memory, and nothing is accessed element by element.
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
            axis = _plane_axis(op)
            if axis is None or not _is_made_of_rows(op):
                continue
            sizes = sizes_of(op.source)
            parts: list[Value] = []
            for number in range(sizes[-1]):
                starts, stops = (*(0,) * (len(sizes) - 1), number), (*sizes[:-1], number + 1)
                part = ops.Slice(op.location, source=op.source, starts=starts, stops=stops, steps=(1,) * len(sizes))
                shape = tuple(1 if at == axis else size for at, size in enumerate(sizes_of(op.result)))
                plane = ops.Reshape(op.location, source=part.result, shape=shape)
                for new in (part, plane):
                    entry.insert_before(op, new)
                parts.append(plane.result)
            joined = ops.Concat(op.location, sources=parts, axis=axis, result_names=[op.result.name])
            entry.insert_before(op, joined)
            op.result.replace_with(joined.result)
            op.erase()
            context.remark(self.name, op.location, f"rows of {sizes[-1]} become as many planes, by one kernel")
        return module


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

"""Views of an element of a sequence as views of the whole sequence, with the axis of steps in front.

   %row = graph.slice(%x) {starts = [0], stops = [4], ...}, %x an element of %xs
=>
   %rows = graph.slice(%xs) {starts = [0, 0], stops = [128, 4], ...}
"""

from __future__ import annotations

from typing import Any

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Op, Value

VIEWS = (ops.Slice, ops.Transpose, ops.Reshape)
"""What can be lifted."""


def root_of(value: Value) -> Value:
    """What a value is a view of."""
    while isinstance(value.op, VIEWS):
        value = value.op.source
    return value


def lifted(value: Value, root: Value, stands: Value, before: Op, count: Any) -> Value:
    """What `value`, a view of `root`, is of `stands`, in front of an op. `count`: of the steps, where `stands` has an
    element for each; None where it is the same in all of them."""
    if value is root:
        return stands
    op = value.op
    assert isinstance(op, VIEWS)
    source = lifted(op.source, root, stands, before, count)
    fields: dict[str, Any] = dict(op.attributes)
    if count is not None:
        match op:
            case ops.Slice():
                fields = {"starts": (0, *op.starts), "stops": (count, *op.stops), "steps": (1, *op.steps)}
            case ops.Transpose():
                fields = {"permutation": (0, *(axis + 1 for axis in op.permutation))}
            case ops.Reshape():
                fields = {"shape": (count, *op.shape)}
    made = type(op)(op.location, source=source, result_names=[value.name], **fields)
    assert before.parent is not None
    before.parent.insert_before(before, made)
    return made.results[0]

"""Folds of what is transposed and computed element by element, in the order in which it lies in memory.

    %t = transpose(%x) {permutation = [0, 3, 1, 2]}              %h = map(%x, ...)
    %h = map(%t, ...)                                      =>    %s = reduce(%h) {axes = [1, 2]}
    %s = reduce(%h) {axes = [2, 3]}

Images with channels last are folded along rows of channels so, as whoever wrote them with channels first had not meant.
"""

from __future__ import annotations

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.rewrite import Rewriter
from tiledsl.passes.graph.analysis.shapes import sizes_of


def turned_fold(op: ops.Reduce) -> ops.Reduce:
    """The fold, of what it reads as that lies in memory; itself where nothing is transposed, or others read it too."""
    chain: list[ops.Map | ops.Cast] = []
    value = op.source
    while isinstance(value.op, (ops.Map, ops.Cast)) and _is_read_once(value):
        chain.append(value.op)
        followed = _followed(value.op)
        if followed is None:
            return op
        value = followed
    turned = value.op
    if not isinstance(turned, ops.Transpose) or not _is_read_once(value):
        return op
    order = turned.permutation
    build = Rewriter(op)
    made = {value: turned.source}
    for one in reversed(chain):
        made[one.results[0]] = _of(build, one, made, sizes_of(turned.source))
    source, axes = made[op.source], tuple(sorted(order[axis] for axis in op.axes))
    new = build.emit(ops.Reduce, source=source, axes=axes, fn=op.fn, result_names=[op.result.name])
    left = [order[axis] for axis in range(len(order)) if axis not in op.axes]
    permutation = tuple(sorted(left).index(axis) for axis in left)
    result = new.result
    if list(permutation) != sorted(permutation):
        result = build.emit(ops.Transpose, source=result, permutation=permutation).result
    if op.keepdims:
        result = build.emit(ops.Reshape, source=result, shape=sizes_of(op.result)).result
    op.result.replace_with(result)
    op.erase()
    return new


def _is_read_once(value: Value) -> bool:
    return sum(value.users.values()) == 1


def _followed(op: ops.Map | ops.Cast) -> Value | None:
    """The only operand of an elementwise op that is no scalar for all elements."""
    if isinstance(op, ops.Cast):
        return op.source
    found = [value for value in op.inputs if not _is_scalar(value)]
    return found[0] if len(found) == 1 else None


def _is_scalar(value: Value) -> bool:
    op: Op | None = value.op
    return not sizes_of(value) or (isinstance(op, ops.Broadcast) and not sizes_of(op.source))


def _of(build: Rewriter, op: ops.Map | ops.Cast, made: dict[Value, Value], shape: tuple[int, ...]) -> Value:
    """What an op makes of the same elements in another order."""
    if isinstance(op, ops.Cast):
        return build.emit(ops.Cast, source=made[op.source], dtype=op.dtype).result
    inputs: list[Value] = []
    for value in op.inputs:
        if value in made:
            inputs.append(made[value])
        elif isinstance(value.op, ops.Broadcast):
            inputs.append(build.emit(ops.Broadcast, source=value.op.source, shape=shape).result)
        else:
            inputs.append(value)
    return build.emit(ops.Map, fn=op.fn, inputs=inputs).result

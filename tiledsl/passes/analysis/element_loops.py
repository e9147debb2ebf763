"""Loops that change the tiles that they carry element by element: their sums can stay in registers.

for k: y[n] = y[n] + x[n + k] * w[k]         such a loop
for k: y[n] = y[n] + sum(x[n, k, :])         none: a fold goes through a tile of its own
for k: y[n] = y[n] - y.T[n]                  none: an element depends on others
for k: y[n] = where(x[y[n]] < z[n], ...)     such a loop: an element reads where it says itself
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.types import AxisType, TensorType
from tiledsl.passes.analysis.sizes import size_of

_IN_PLACE = (ops.Map, ops.Cast)
"""Of which an element reads the same element of each operand."""
_MOVED = (ops.Broadcast, ops.Transpose, ops.Reshape)
_SOURCES = (ops.Load, ops.Constant, ops.Size, ops.Arange, ops.Coordinates, ops.Start, ops.Extent)


def is_elementwise(loop: Op, written: Collection[Value]) -> bool:
    """Whether all that a loop does, one coordinate at a time, and loops within it, is to change tiles element by
    element; `written` are the tensors that the program stores to."""
    if not isinstance(loop, (ops.Range, ops.For)) or not loop.initial:
        return False
    loops = list(loops_within(loop))
    if any(isinstance(one, ops.For) and size_of(one.step) != 1 for one in loops):
        return False
    bodies = [op for one in loops for op in one.body.ops]
    shapes = {value.shape for one in loops for value in one.initial}
    single = all(not isinstance(one.body.arguments[0].type, AxisType) for one in loops)
    if not single or len(shapes) != 1 or () in shapes or not all(_is_plain(op, written) for op in bodies):
        return False
    made = {value for one in loops for value in one.body.arguments[1:]}
    made |= {value for one in loops[1:] for value in one.results}
    ends = [one.body.terminator for one in loops]
    changed = [value for end in ends if end is not None for value in end.operands]
    return _are_read_in_place([*changed, *(value for one in loops[1:] for value in one.initial)], made)


def loops_within(loop: ops.Range | ops.For) -> Iterator[ops.Range | ops.For]:
    """The loop, and those within it."""
    yield loop
    for op in loop.body.ops:
        if isinstance(op, (ops.Range, ops.For)):
            yield from loops_within(op)


def _is_plain(op: Op, written: Collection[Value]) -> bool:
    match op:
        case ops.Load():
            return op.tensor not in written
        case ops.Reshape():  # by axes of one element
            return [dim for dim in op.source.shape if dim != 1] == [dim for dim in op.shape if dim != 1]
        case _:
            return isinstance(op, (*_IN_PLACE, *_MOVED, *_SOURCES, ops.Shift, ops.Range, ops.For, ops.Yield))


def _are_read_in_place(values: Sequence[Value], made: Collection[Value]) -> bool:
    """Whether an element of each value needs no other element of what the loops make."""
    stack, seen = [(value, True) for value in values], set[tuple[Value, bool]]()
    while stack:
        here = value, in_place = stack.pop()
        if here in seen:
            continue
        seen.add(here)
        if value in made:
            if not in_place:
                return False
            continue
        if value.op is not None and isinstance(value.op, (*_IN_PLACE, *_MOVED, ops.Load)):
            operands = [v for v in value.op.operands if not isinstance(v.type, (TensorType, AxisType))]
            stack += [(v, in_place and _is_at_the_same_place(value.op, v)) for v in operands]
    return True


def _is_at_the_same_place(op: Op, operand: Value) -> bool:
    """Whether an element of what the op makes needs just that element of an operand."""
    return isinstance(op, _IN_PLACE) or (isinstance(op, ops.Load) and operand.shape == op.result.shape)

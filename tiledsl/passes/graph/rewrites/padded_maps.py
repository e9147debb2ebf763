"""What elementwise ops make, padded, as made of what they read, padded.

    pad(map(x, broadcast(y)), value)    =>    where(inside, map(pad(x), broadcast(pad(y))), value)

Elements outside are computed of zeros and left out, unless that makes what is padded with anyway. So nothing is in
memory before it is padded, nor padded after.
"""

from __future__ import annotations

import math

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import bool_, i64
from tiledsl.ir.rewrite import Rewriter
from tiledsl.ir.strided_views import numbers
from tiledsl.ir.type_rules import tensor_type
from tiledsl.passes.graph.analysis.outline import MapOp, is_arithmetic_of_coordinates
from tiledsl.passes.graph.analysis.shapes import bytes_of, sizes_of, volume
from tiledsl.passes.graph.analysis.views import view_of_value
from tiledsl.passes.graph.rewrites.parts_of_maps import is_in_memory
from tiledsl.passes.graph.rewrites.repeat_maps import COST, cost_of
from tiledsl.passes.graph.rewrites.shift_joins import shifted

FEW = 16
"""As many times fewer numbers may be computed and go to memory before they are padded: one for each window."""
MOST_READ = 2
"""As many times the bytes of what is made may be read for it: to write it and to pad it moves four times as many."""


def can_be_padded(made: MapOp) -> bool:
    """Whether all that an elementwise op is computed from is in memory, or few numbers, and not too much."""
    cost, read = 0, 0
    if not volume(made.result):
        return False
    work, seen = [made.result], set[Value]()
    while work:
        value = work.pop()
        if value in seen or not sizes_of(value):
            continue
        seen.add(value)
        source = value.op.source if isinstance(value.op, ops.Broadcast) else value
        if isinstance(value.op, ops.Iota) or is_arithmetic_of_coordinates(value.op):
            return False  # coordinates of what is padded are others
        if value is not made.result and FEW * volume(source) <= volume(made.result):
            continue
        if isinstance(value.op, (ops.Map, ops.Cast)):
            cost += cost_of(value.op)
            work += value.op.operands
        elif is_in_memory(value) and view_of_value(value) is not None:
            read += bytes_of(source)
        else:
            return False
    return cost <= COST and read <= MOST_READ * bytes_of(made.result)


def is_zero_outside(made: MapOp, pad: ops.Pad) -> bool:
    """Whether zeros outside make zeros, which is what is padded with: then nothing has to be left out."""
    axes = [axis for axis, ends in enumerate(zip(pad.low, pad.high)) if any(ends)]

    def is_zero(value: Value, *, made_again: bool = False) -> bool:
        op, shape = value.op, sizes_of(value)
        if isinstance(op, ops.Constant):
            return op.value == 0
        if not isinstance(op, (ops.Map, ops.Cast)) or not (made_again or FEW * volume(value) > volume(made.result)):
            source = op.source if isinstance(op, ops.Broadcast) else value
            sizes = (1,) * (len(shape) - len(sizes_of(source))) + sizes_of(source)
            return bool(shape) and all(sizes[axis] != 1 for axis in axes)
        first, *others = op.operands
        if isinstance(op, ops.Map) and op.fn in ("mul", "div") and others and _is_positive(others[0]):
            return is_zero(first)
        kept = isinstance(op, ops.Cast) or op.fn in ("add", "sub", "maximum", "minimum", "abs", "mul")
        return kept and all(map(is_zero, op.operands))

    return pad.value == 0 and tensor_type(pad.result).dtype != bool_ and is_zero(made.result, made_again=True)


def _is_positive(value: Value) -> bool:
    """Whether a value is a number above 0 that is finite."""
    return isinstance(value.op, ops.Constant) and 0 < value.op.value < math.inf


def padded_map(made: MapOp, pad: ops.Pad, rewriter: Rewriter) -> Value:
    """What an elementwise op makes of what is padded as `pad` says."""
    known: dict[Value, Value] = {}

    def padded(value: Value) -> Value:
        if value not in known:
            op = value.op
            if isinstance(op, (ops.Map, ops.Cast)) and FEW * volume(value) > volume(made.result):
                known[value] = of_map(op)
            else:
                known[value] = _leaf(value, pad, rewriter)
        return known[value]

    def of_map(op: MapOp) -> Value:
        inputs = [padded(value) for value in op.operands]
        with rewriter.at(op.location):
            if isinstance(op, ops.Cast):
                return rewriter.emit(ops.Cast, source=inputs[0], dtype=op.dtype).result
            return rewriter.emit(ops.Map, fn=op.fn, inputs=inputs).result

    return of_map(made)


def _leaf(value: Value, pad: ops.Pad, rewriter: Rewriter) -> Value:
    """A value that is in memory, by windows of one element, which groups read of what is not padded."""
    shape = sizes_of(value)
    if not shape:
        return value
    if isinstance(value.op, ops.Broadcast):
        source, rank = value.op.source, len(sizes_of(value.op.source))
        low, high = numbers(pad.low)[len(shape) - rank :], numbers(pad.high)[len(shape) - rank :]
        source = _padded(source, low, high, rewriter)
        return rewriter.emit(ops.Broadcast, source=source, shape=sizes_of(pad.result)).result
    return _padded(value, numbers(pad.low), numbers(pad.high), rewriter)


def _padded(value: Value, low: tuple[int, ...], high: tuple[int, ...], rewriter: Rewriter) -> Value:
    """A value padded along axes of more than one element: what is repeated along others stays so."""
    own = sizes_of(value)
    low, high = (tuple(n if size > 1 else 0 for n, size in zip(ends, own)) for ends in (low, high))
    return shifted(rewriter, value, low, tuple(map(sum, zip(own, low, high))))


def kept_inside(value: Value, pad: ops.Pad, axis: int, rewriter: Rewriter) -> Value:
    """A value where it is not padded along an axis, and what is padded with elsewhere."""
    shape, low = sizes_of(value), numbers(pad.low)[axis]
    fill = rewriter.emit(ops.Constant, value=pad.value, dtype=tensor_type(value).dtype).result
    place = rewriter.emit(ops.Iota, shape=shape, axis=axis).result
    for fn, end, is_cut in (("ge", low, low), ("lt", low + sizes_of(pad.source)[axis], numbers(pad.high)[axis])):
        if is_cut:
            number = rewriter.emit(ops.Constant, value=end, dtype=i64).result
            inside = rewriter.emit(ops.Map, fn=fn, inputs=[place, number]).result
            value = rewriter.emit(ops.Map, fn="where", inputs=[inside, value, fill]).result
    return value

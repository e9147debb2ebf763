"""Views that mix the rows of what is padded with their padding are looked up in what is not padded.

    %p = pad(%x) of [4, 700, 701], %x of [4, 700, 700]
    %r = slice(reshape(%p) to [4, 701, 700]) of all rows but the first
 =>
    %q = iota(490000) + 700, %row = %q // 701, %column = %q - %row * 701 - 1
    %g = gather(reshape(%x) to [4, 490000], %row * 700 + clamp(%column))
    %r = reshape(where(0 <= %column, %g, 0))

So the shift of relative positions, or diagonals as rows, is one copy, by elementwise ops that others may join: nothing
padded is in memory. Slices and windows along the axes of what is padded are blocks of it as they are (`shift-slices`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, Union

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.rewrite import Rewriter
from tiledsl.ir.strided_views import VIEWS, StridedView, numbers, simplest
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.outline import is_soft
from tiledsl.passes.graph.analysis.shapes import sizes_of, volume
from tiledsl.passes.graph.analysis.views import view_of_value
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.manager import PassContext

READERS = (ops.Return, ops.Map, ops.Cast)
"""What may read such a view: others want it in memory, or look for windows."""
MOST_AXES = 2
"""Of a view, along which places are computed together."""

_Computed: TypeAlias = Callable[[str, Value, Union[Value, int]], Value]
"""A function of coordinates, and of others or a number."""


@dataclass(frozen=True)
class PaddedViews:
    """Of the entry, on GPUs."""

    name: ClassVar[str] = "padded-views"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        pads = [op for op in module.entry.body.ops if isinstance(op, ops.Pad)] if self.arch.startswith("sm_") else []
        found = False
        for pad in pads:
            rows, last = _rows_of(pad), list(_read_views(pad.result))
            views = [None if rows is None else _place(value, rows) for value in last]
            if rows is None or not last or None in views:
                continue
            for value, view in zip(last, views):
                assert view is not None
                assert value.op is not None
                value.replace_with(_looked_up(Rewriter(value.op), pad, rows, view, sizes_of(value)))
            context.remark(self.name, pad.location, "rows and their padding are read together: they are looked up")
            found = True
        if found:
            tidy(module.entry)
        return module


@dataclass(frozen=True)
class _Rows:
    """What is padded as rows behind each other: how far apart they begin, what each has, what is padded in front of
    it, and how many elements all take."""

    pitch: int
    length: int
    low: int
    total: int


def _rows_of(pad: ops.Pad) -> _Rows | None:
    """The rows that are padded, along one axis, of what lies in memory row by row."""
    view = view_of_value(pad.source)
    ends = [*zip(numbers(pad.low), numbers(pad.high))]
    padded = [axis for axis, pair in enumerate(ends) if pair != (0, 0)]
    if len(padded) != 1 or min(ends[padded[0]]) < 0 or not volume(pad.source):
        return None
    if view is None or not view.place.is_contiguous or not isinstance(view.buffer.op, (ops.Call, type(None))):
        return None
    (axis,) = padded
    sizes, wider = sizes_of(pad.source), sizes_of(pad.result)
    inner = math.prod(sizes[axis + 1 :])
    return _Rows(wider[axis] * inner, sizes[axis] * inner, ends[axis][0] * inner, volume(pad.result))


def _read_views(value: Value) -> Iterator[Value]:
    """The views of a value that are read by what is none; the value itself too."""
    if any(not isinstance(user, VIEWS) for user in value.users):
        yield value
    for user in value.users:
        if isinstance(user, VIEWS):
            yield from _read_views(user.results[0])


def _place(value: Value, rows: _Rows) -> StridedView | None:
    """Where the elements of a view are, with as few axes as can be, if it mixes rows and their padding, and elementwise
    ops read it, or nobody."""
    if not all(isinstance(user, (*READERS, *VIEWS)) for user in value.users):
        return None
    chain = value
    mixed = False
    while isinstance(chain.op, VIEWS):
        mixed = mixed or (isinstance(chain.op, ops.Reshape) and not is_soft(chain.op))
        chain = chain.op.source
    view = view_of_value(value)
    if not mixed or view is None or view.buffer is not chain or not view.place.count:
        return None
    place = simplest(view.place)
    if min(place.strides) < 1 or len(place.shape) - _batches(place, rows) > MOST_AXES:
        return None
    return place if _mixes(view.place, rows) else None


def _batches(place: StridedView, rows: _Rows) -> int:
    """1 where the first axis of a view counts equal numbers of whole rows, which are all, else 0."""
    first = len(place.shape) > 1 and place.strides[0] * place.shape[0] == rows.total
    return int(first and place.strides[0] % rows.pitch == 0)


def _mixes(place: StridedView, rows: _Rows) -> bool:
    """Whether a view goes from one row to the next along an axis that counts no rows: it is no slice of rows then."""
    within = [(n, stride) for n, stride in zip(place.shape, place.strides) if stride % rows.pitch]
    return place.offset % rows.pitch + sum((n - 1) * stride for n, stride in within) >= rows.pitch


def _looked_up(rewriter: Rewriter, pad: ops.Pad, rows: _Rows, place: StridedView, shape: tuple[int, ...]) -> Value:
    """What a view of the rows has, of this shape."""
    batches = _batches(place, rows)
    count = place.shape[0] if batches else 1
    sizes, strides = place.shape[batches:], place.strides[batches:]

    def number(value: int) -> Value:
        return rewriter.emit(ops.Constant, value=value, dtype=i64).result

    def of(fn: str, left: Value, right: Value | int) -> Value:
        inputs = [left, number(right) if isinstance(right, int) else right]
        return rewriter.emit(ops.Map, fn=fn, inputs=inputs).result

    at: Value | None = None
    for axis, (size, stride) in enumerate(zip(sizes, strides)):
        along = rewriter.emit(ops.Iota, shape=(size,), axis=0).result
        along = along if stride == 1 else of("mul", along, stride)
        if len(sizes) > 1:
            ones = tuple(size if other == axis else 1 for other in range(len(sizes)))
            along = rewriter.emit(ops.Reshape, source=along, shape=ones).result
            along = rewriter.emit(ops.Broadcast, source=along, shape=sizes).result
        at = along if at is None else of("add", at, along)
    assert at is not None
    at = of("add", at, place.offset) if place.offset else at
    row = of("floordiv", at, rows.pitch)
    column = of("sub", at, of("mul", row, rows.pitch))
    column = of("sub", column, rows.low) if rows.low else column
    within = of("minimum", column, rows.length - 1) if rows.low + rows.length < rows.pitch else column
    within = of("maximum", within, 0) if rows.low else within
    indices = of("add", of("mul", row, rows.length), within)
    flat = rewriter.emit(ops.Reshape, source=pad.source, shape=(count, volume(pad.source) // count)).result
    found = rewriter.emit(ops.Gather, source=flat, indices=indices, axis=1).result
    inside = _inside(of, column, rows)
    inside = rewriter.emit(ops.Broadcast, source=inside, shape=sizes_of(found)).result
    fill = rewriter.emit(ops.Constant, value=pad.value, dtype=tensor_type(found).dtype).result
    chosen = rewriter.emit(ops.Map, fn="where", inputs=[inside, found, fill]).result
    return rewriter.emit(ops.Reshape, source=chosen, shape=shape).result


def _inside(of: _Computed, column: Value, rows: _Rows) -> Value:
    """Which columns are of the rows, not of what they are padded with."""
    if not rows.low:
        return of("lt", column, rows.length)
    first = of("ge", column, 0)
    ends = rows.low + rows.length == rows.pitch
    return first if ends else of("and", first, of("lt", column, rows.length))

"""Which values of a graph are views of memory: made from a buffer by reindexing alone, in a way that strides can tell.

%t = transpose(%x)         strides of %x in another order
%h = reshape(%t)           splits an axis always, joins neighbours that lie behind each other; else it is no view
"""

from __future__ import annotations

from typing import NamedTuple

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.strided_views import VIEWS, StridedView, reshaped, view_of, whole
from tiledsl.ir.type_rules import tensor_type
from tiledsl.passes.graph.analysis.shapes import sizes_of


class View(NamedTuple):
    """Where the elements of a value are."""

    buffer: Value
    place: StridedView


def view_of_value(value: Value) -> View | None:
    """The view that a value is, if it is one. Parameters, and what any op but a reindexing gives, are buffers, and so
    are transposes of what is stored in that order."""
    op = value.op
    if not isinstance(op, VIEWS) or is_stored_so(op):
        return View(value, whole(sizes_of(value)))
    source = view_of_value(op.source)
    place = source and view_of(op, source.place)
    return None if source is None or place is None else View(source.buffer, place)


def is_stored_so(op: Op | None) -> bool:
    """Whether a transpose is all that anybody sees of what a group computes: that is stored in its order."""
    if not isinstance(op, ops.Transpose) or len(op.source.users) != 1:
        return False
    made = op.source.op
    if isinstance(made, ops.Cast):  # what is widened may be read as it was
        return tensor_type(made.source).dtype.bits >= made.dtype.bits
    return isinstance(made, (ops.Map, ops.Contract, ops.Reduce))


def can_reshape(place: StridedView, shape: tuple[int, ...]) -> bool:
    """Whether strides can tell the elements of a view under another shape."""
    return reshaped(place, shape) is not None


def place_of(value: Value, shape: tuple[int, ...]) -> StridedView | None:
    """Where the elements of a value are, under `shape`; None if that is no view of memory."""
    view = view_of_value(value)
    return view and reshaped(view.place, shape)


def nearest_axis(value: Value) -> int | None:
    """Of the axes of a view that have several elements, the one along which they lie nearest to each other; None for
    what is no view, or one number."""
    view = view_of_value(value)
    if view is None:
        return None
    strides = [stride for size, stride in zip(view.place.shape, view.place.strides) if size != 1]
    apart = [(stride, -number) for number, stride in enumerate(strides) if stride]
    return -min(apart)[1] if apart else None

"""Subscripts of whole tensors: slices, coordinates, new axes, and one tensor of ints that gathers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from tiledsl.frontend.language import tensors as language_tensors
from tiledsl.frontend.trace.array_types import is_array
from tiledsl.frontend.trace.trace import Trace, describe, performs, records
from tiledsl.frontend.trace.trace_elementwise import apply, tensor
from tiledsl.frontend.trace.trace_shapes import reshaped, to_axis
from tiledsl.frontend.trace.traced import TracedTensor, dim_of
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import bool_
from tiledsl.ir.graph_ops import Gather, Iota, Slice
from tiledsl.ir.symbolic import Dim, ceildiv, maximum, minimum
from tiledsl.ir.symbolic_order import known_at_most
from tiledsl.ir.types import Shape


@dataclass
class _Selection:
    """What a subscript selects, axis by axis."""

    starts: list[Dim] = field(default_factory=list[Dim])
    stops: list[Dim] = field(default_factory=list[Dim])
    steps: list[int] = field(default_factory=list[int])
    order: list[str] = field(default_factory=list[str])
    """The entries in order: `axis`, `drop`, `new`, `gather`."""
    reversed: dict[int, tuple[Dim, Dim, int]] = field(default_factory=dict[int, "tuple[Dim, Dim, int]"])
    """Axes that are taken backwards: the first coordinate, how many, and the step."""
    gather: TracedTensor | None = None
    gathered_axis: int = 0


@performs("subscript")
def subscript(trace: Trace, source: TracedTensor, key: Any) -> TracedTensor:
    """`source[key]` as at most one slice, a gather for each axis that is taken backwards, one gather, one reshape."""
    selection = _Selection()
    entries = cast("tuple[Any, ...]", key if isinstance(key, tuple) else (key,))
    for entry in _expanded(trace, source, entries):
        _select(trace, source, selection, entry)
    _check_order(trace, source, selection)
    value = source.value
    whole = all(
        start == 0 and stop == dim and step == 1
        for start, stop, step, dim in zip(selection.starts, selection.stops, selection.steps, source.type.shape)
    )
    if not whole:
        starts, stops, steps = tuple(selection.starts), tuple(selection.stops), tuple(selection.steps)
        value = trace.emit(Slice, source=value, starts=starts, stops=stops, steps=steps)
    for axis, (first, count, step) in selection.reversed.items():
        value = trace.emit(Gather, source=value, indices=_backwards(trace, first, count, step), axis=axis)
    indices: Shape = ()
    if selection.gather is not None:
        axis = selection.gathered_axis
        value = trace.emit(Gather, source=value, indices=selection.gather.value, axis=axis)
        indices = selection.gather.type.shape
    result = trace.tensor(value, source.weak)
    sizes = list(result.type.shape)
    shape: list[Dim] = []
    for what in selection.order:
        if what == "new":
            shape.append(1)
        elif what == "gather":
            shape += sizes[: len(indices)]
            del sizes[: len(indices)]
        else:
            size = sizes.pop(0)
            shape += [size] if what == "axis" else []
    return trace.tensor(reshaped(trace, value, tuple(shape)), source.weak)


def _expanded(trace: Trace, source: TracedTensor, key: tuple[Any, ...]) -> list[Any]:
    """The entries, `...` and what is missing written out as `:`."""
    text = trace.text_of(source)
    count = sum(entry is not None and entry is not Ellipsis for entry in key)
    if count > source.ndim:
        trace.fail("subscript-count", source, name=text, rank=source.ndim, count=count)
    if sum(entry is Ellipsis for entry in key) > 1:
        trace.fail("subscript-ellipsis")
    missing = [slice(None)] * (source.ndim - count)
    if not any(entry is Ellipsis for entry in key):
        return [*key, *missing]
    at = next(i for i, entry in enumerate(key) if entry is Ellipsis)
    return [*key[:at], *missing, *key[at + 1 :]]


def _select(trace: Trace, source: TracedTensor, selection: _Selection, entry: Any) -> None:
    if entry is None:
        selection.order.append("new")
        return
    axis = len(selection.starts)
    dim = source.type.shape[axis]
    start: Dim
    stop: Dim
    coordinate = dim_of(entry)
    if isinstance(entry, slice):
        start, stop, step = _bounds(trace, source, dim, cast("Any", entry))
        if step < 0:
            length = ceildiv(start - stop, -step)
            selection.reversed[axis] = start, _at_least(length, 0), step
            start, stop, step = 0, dim, 1
        what = "axis"
    elif coordinate is not None:
        start = _coordinate(trace, source, dim, coordinate)
        stop, step, what = start + 1, 1, "drop"
    else:
        start, stop, step, what = 0, dim, 1, "gather"
        indices = _indices(trace, source, entry)
        if selection.gather is not None:
            trace.fail("graph-gather-axes", source, text=trace.text_of(source))
        selection.gather, selection.gathered_axis = indices, axis
    selection.starts.append(start)
    selection.stops.append(stop)
    selection.steps.append(step)
    selection.order.append(what)


def _indices(trace: Trace, source: TracedTensor, entry: Any) -> TracedTensor:
    if not isinstance(entry, TracedTensor) and not is_array(entry):
        trace.fail("graph-subscript", source, text=trace.text_of(source), what=describe(entry))
    indices = tensor(trace, entry)
    if indices.dtype == bool_:
        text = f"{trace.text_of(source)}[{trace.text_of(indices)}]"
        trace.fail("graph-data-shape", indices, text=text, what=describe(indices), operation="selection by a bool mask")
    if not indices.dtype.is_integer:
        text = trace.text_of(indices)
        trace.fail("subscript-dtype", indices, text=text, name=trace.text_of(source), dtype=indices.dtype)
    return indices


def _coordinate(trace: Trace, source: TracedTensor, dim: Dim, coordinate: Dim) -> Dim:
    if not isinstance(coordinate, int):
        return coordinate
    outside = isinstance(dim, int) and not -dim <= coordinate < dim
    if outside:
        trace.fail("subscript-range", source, text=coordinate, name=trace.text_of(source), dim=dim)
    return coordinate if coordinate >= 0 else dim + coordinate


def _bounds(trace: Trace, source: TracedTensor, dim: Dim, entry: slice[Any, Any, Any]) -> tuple[Dim, Dim, int]:
    """Start, stop and step of a slice, within the axis as NumPy's are: backwards, from its last to before its first."""
    step = 1 if entry.step is None else entry.step
    if not isinstance(step, int) or step == 0:
        trace.fail("graph-slice-step", source, text=trace.text_of(source), step=describe(step))
    low, high, defaults = (0, dim, (0, dim)) if step > 0 else (-1, dim - 1, (dim - 1, -1))
    bounds: list[Dim] = []
    for bound, default in zip((entry.start, entry.stop), defaults):
        size = default if bound is None else dim_of(bound)
        if size is None:
            what = describe(bound)
            trace.fail("graph-slice-bound", bound, text=trace.text_of(bound), name=trace.text_of(source), what=what)
        if bound is None:
            bounds.append(default)
        elif isinstance(size, int) and size < 0:
            bounds.append(_at_least(dim + size, low))
        else:
            bounds.append(size if known_at_most(size, high) else minimum(size, high))
    start, stop = bounds
    if step > 0 and not known_at_most(start, stop):
        stop = maximum(start, stop)
    return start, stop, step


def _backwards(trace: Trace, first: Dim, count: Dim, step: int) -> Value:
    """The coordinates first, first + step ..."""
    turns = apply(trace, "mul", trace.tensor(trace.emit(Iota, shape=(count,), axis=0)), step)
    return apply(trace, "add", turns, trace.tensor(trace.size(first), weak=True)).value


def _at_least(size: Dim, least: int) -> Dim:
    return max(size, least) if isinstance(size, int) else size if known_at_most(least, size) else maximum(size, least)


def _check_order(trace: Trace, source: TracedTensor, selection: _Selection) -> None:
    """NumPy puts gathered axes first if a coordinate stands apart from the gather. Here that is refused."""
    order = selection.order
    if selection.gather is not None and "drop" in order:
        advanced = [i for i, what in enumerate(order) if what in ("gather", "drop")]
        if advanced[-1] - advanced[0] >= len(advanced):
            trace.fail("graph-gather-apart", source, text=trace.text_of(source))


@records(language_tensors.take)
def take(trace: Trace, x: Any, indices: Any, axis: Any = 0) -> TracedTensor:
    source = tensor(trace, x)
    at = to_axis(trace, "tile.take", axis, source.ndim)
    return trace.tensor(
        trace.emit(Gather, source=source.value, indices=_indices(trace, source, indices).value, axis=at)
    )

"""Tensors put together and taken apart: concat, stack, split, pad, windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from tiledsl.frontend.language import tensors as language
from tiledsl.frontend.language.promotion import promote_all
from tiledsl.frontend.trace.trace import Trace, describe, records
from tiledsl.frontend.trace.trace_elementwise import coerce, strength_of, tensor
from tiledsl.frontend.trace.trace_shapes import entries_of, reshaped, to_axes, to_axis, to_shape
from tiledsl.frontend.trace.traced import TracedTensor, dim_of
from tiledsl.ir.core import InvalidIRError, Value
from tiledsl.ir.graph_ops import Concat, Interleave, Pad, Slice, Window
from tiledsl.ir.symbolic import Dim, floordiv
from tiledsl.ir.types import Shape, format_shape


def _alike(trace: Trace, name: str, tensors: Any, axis: Any, extra: int) -> tuple[list[TracedTensor], int]:
    """The tensors of a list, and the axis counted from the front in tensors of `extra` more axes.

    Raises TileShapeError unless their sizes agree: in all axes, or in all but `axis` if there are no extra ones.
    """
    if not isinstance(tensors, (tuple, list)) or not tensors:
        trace.fail("graph-list", name=name, what=describe(tensors))
    given = [tensor(trace, x) for x in entries_of(tensors)]
    first = given[0]
    at = to_axis(trace, name, axis, first.ndim + extra)
    for other in given[1:]:
        if _compared(other, at, extra) != _compared(first, at, extra):
            trace.fail(
                "graph-concat", first, other,
                name=name, axis=at, a=trace.text_of(first), first=format_shape(first.type.shape),
                b=trace.text_of(other), second=format_shape(other.type.shape),
            )  # fmt: skip
    return given, at


def _compared(x: TracedTensor, axis: int, extra: int) -> object:
    shape = x.type.shape
    return shape if extra else (len(shape), shape[:axis], shape[axis + 1 :])


def _joined(trace: Trace, tensors: Sequence[TracedTensor], axis: int) -> TracedTensor:
    dtype = promote_all([strength_of(x) for x in tensors]).dtype
    return trace.tensor(trace.emit(Concat, sources=[coerce(trace, x, dtype) for x in tensors], axis=axis))


@records(language.concat)
def concat(trace: Trace, tensors: Any, axis: Any = 0) -> TracedTensor:
    given, at = _alike(trace, "tile.concat", tensors, axis, extra=0)
    return _joined(trace, given, at)


@records(language.interleave)
def interleave(trace: Trace, tensors: Any, axis: Any = 0) -> TracedTensor:
    given, at = _alike(trace, "tile.interleave", tensors, axis, extra=0)
    dtype = promote_all([strength_of(x) for x in given]).dtype
    lengths = tuple(x.type.shape[at] for x in given)
    sources = [coerce(trace, x, dtype) for x in given]
    try:
        return trace.tensor(trace.emit(Interleave, sources=sources, axis=at))
    except InvalidIRError:
        trace.fail("graph-interleave", given[0], text=trace.text_of(given[0]), lengths=format_shape(lengths), axis=at)


@records(language.stack)
def stack(trace: Trace, tensors: Any, axis: Any = 0) -> TracedTensor:
    given, at = _alike(trace, "tile.stack", tensors, axis, extra=1)
    shape = given[0].type.shape
    widened = [trace.tensor(reshaped(trace, x.value, (*shape[:at], 1, *shape[at:])), x.weak) for x in given]
    return _joined(trace, widened, at)


@records(language.split)
def split(trace: Trace, x: Any, parts: Any, axis: Any = 0) -> tuple[TracedTensor, ...]:
    source = tensor(trace, x)
    at = to_axis(trace, "tile.split", axis, source.ndim)
    size = source.type.shape[at]
    sizes: list[Dim] = []
    count = dim_of(parts)
    if isinstance(count, int) and count > 0:
        sizes = [floordiv(size, count)] * count
    elif isinstance(parts, (tuple, list)):
        sizes = list(to_shape(trace, parts))
    total: Dim = 0
    for part in sizes:
        total = total + part
    if not sizes or total != size:
        trace.fail("graph-split", source, axis=at, text=trace.text_of(source), size=size, parts=cast("object", parts))
    results: list[TracedTensor] = []
    start: Dim = 0
    for part in sizes:
        results.append(trace.tensor(_slice(trace, source, at, start, start + part), source.weak))
        start = start + part
    return tuple(results)


def _slice(trace: Trace, source: TracedTensor, axis: int, start: Dim, stop: Dim) -> Value:
    shape = source.type.shape
    starts: Shape = tuple(start if i == axis else 0 for i in range(len(shape)))
    stops: Shape = tuple(stop if i == axis else size for i, size in enumerate(shape))
    return trace.emit(Slice, source=source.value, starts=starts, stops=stops, steps=(1,) * len(shape))


@records(language.pad)
def pad(trace: Trace, x: Any, widths: Any, value: Any = 0) -> TracedTensor:
    source = tensor(trace, x)
    pairs = _widths(widths, source.ndim)
    if pairs is None or any(isinstance(width, int) and width < 0 for pair in pairs for width in pair):
        trace.fail("graph-pad", source, widths=widths, rank=source.ndim)
    if not isinstance(value, (bool, int, float)):
        trace.fail(
            "argument-kind", name="tile.pad", parameter="value", expected="a number", text=trace.text_of(value),
            what=describe(value),
        )  # fmt: skip
    number = float(value) if source.dtype.is_float else value
    low, high = (tuple(pair[side] for pair in pairs) for side in (0, 1))
    if not any(low) and not any(high):
        return source
    return trace.tensor(trace.emit(Pad, source=source.value, low=low, high=high, value=number), source.weak)


def _widths(widths: Any, rank: int) -> list[tuple[Dim, Dim]] | None:
    """A pair for each axis, from what NumPy takes; None if it does not say that."""
    width = dim_of(widths)
    if width is not None:
        return [(width, width)] * rank
    if not isinstance(widths, (tuple, list)):
        return None
    entries = entries_of(widths)
    sizes = [dim_of(entry) for entry in entries]
    if len(entries) == 2 and sizes[0] is not None and sizes[1] is not None:
        return [(sizes[0], sizes[1])] * rank
    pairs: list[tuple[Dim, Dim]] = []
    for entry in entries:
        if not isinstance(entry, (tuple, list)) or len(entries_of(entry)) != 2:
            return None
        low, high = map(dim_of, entries_of(entry))
        if low is None or high is None:
            return None
        pairs.append((low, high))
    return pairs * rank if len(pairs) == 1 else pairs if len(pairs) == rank else None


@records(language.window)
def window(trace: Trace, x: Any, sizes: Any, axes: Any, strides: Any = 1, dilations: Any = 1) -> TracedTensor:
    source = tensor(trace, x)
    at = tuple(to_axis(trace, "tile.window", axis, source.ndim) for axis in entries_of(axes))
    to_axes(trace, "tile.window", axes, source.ndim)  # each once
    values = [_for_each(trace, source, value, len(at)) for value in (sizes, strides, dilations)]
    try:
        result = trace.emit(
            Window, source=source.value, axes=at, sizes=values[0], strides=values[1], dilations=values[2]
        )
    except InvalidIRError as error:
        trace.fail("graph-window", source, text=trace.text_of(source), reason=error)
    return trace.tensor(result, source.weak)


def _for_each(trace: Trace, source: TracedTensor, value: Any, count: int) -> Shape:
    """One number for each of `count` axes."""
    given = to_shape(trace, value)
    if not isinstance(value, (tuple, list)):
        return given * count
    if len(given) != count:
        trace.fail("graph-window", source, text=trace.text_of(source), reason=f"{value} are not {count} numbers")
    return given

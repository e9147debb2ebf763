"""Shapes of whole tensors: reshape, transpose, broadcast; and tensors that are made of nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from tiledsl.frontend.language import math as language_math
from tiledsl.frontend.language import program as language_program
from tiledsl.frontend.language.element_counts import counts_differ, filled_hole
from tiledsl.frontend.language.promotion import fill_dtype
from tiledsl.frontend.trace.trace import Trace, describe, performs, records, type_of
from tiledsl.frontend.trace.trace_elementwise import apply, coerce, dtype_of, operand, shape_of, strength_of, tensor
from tiledsl.frontend.trace.traced import TracedTensor, dim_of
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import DType, f32, i64
from tiledsl.ir.graph_ops import Broadcast, Iota, Reshape, Transpose
from tiledsl.ir.symbolic import Dim, ceildiv
from tiledsl.ir.type_rules import broadcast_shapes
from tiledsl.ir.types import Shape, format_shape


def entries_of(value: Any) -> tuple[Any, ...]:
    """The entries of what may be one of them, a tuple or a list."""
    return tuple(cast("Sequence[Any]", value)) if isinstance(value, (tuple, list)) else (value,)


def to_shape(trace: Trace, value: Any) -> Shape:
    """A shape as users write it: a size or a tuple of sizes. Raises TileTypeError for what is none."""
    shape: list[Dim] = []
    for entry in entries_of(value):
        dim = dim_of(entry)
        if dim is None:
            code = "graph-data-shape" if isinstance(entry, TracedTensor) else "shape-entry"
            trace.fail(code, entry, text=trace.text_of(entry), what=describe(entry), operation="a shape")
        if isinstance(dim, int) and dim < 0:
            trace.fail("shape-negative", text=value, dim=dim)
        shape.append(dim)
    return tuple(shape)


def to_axis(trace: Trace, name: str, value: Any, rank: int) -> int:
    """One axis of a tensor of that rank, counted from the front. Raises TileShapeError if there is none."""
    axis = dim_of(value)
    if not isinstance(axis, int):
        trace.fail(
            "argument-kind", name=name, parameter="axis", expected="an int", text=trace.text_of(value),
            what=describe(value),
        )  # fmt: skip
    if not -rank <= axis < rank:
        choices = f"use an axis from {-rank} to {rank - 1}" if rank else "leave it out: a scalar has no axes"
        trace.fail("graph-axis", name=name, axis=axis, rank=rank, choices=choices)
    return axis % rank


def to_axes(trace: Trace, name: str, value: Any, rank: int) -> tuple[int, ...]:
    """Some axes of a tensor of that rank, in order; None means all."""
    if value is None:
        return tuple(range(rank))
    axes = tuple(to_axis(trace, name, axis, rank) for axis in entries_of(value))
    if len(set(axes)) != len(axes):
        trace.fail("axis-repeated", name=name, text=value)
    return tuple(sorted(axes))


def reshaped(trace: Trace, value: Value, shape: Shape) -> Value:
    """The same elements under another shape of the same size."""
    return value if type_of(value).shape == shape else trace.emit(Reshape, source=value, shape=shape)


def permuted(trace: Trace, value: Value, permutation: tuple[int, ...]) -> Value:
    """Axis i of the result is axis permutation[i] of `value`."""
    in_order = permutation == tuple(range(len(permutation)))
    return value if in_order else trace.emit(Transpose, source=value, permutation=permutation)


@records(language_math.reshape)
def reshape(trace: Trace, x: Any, shape: Any) -> TracedTensor:
    source = tensor(trace, x)
    before = source.type.shape
    after = filled_hole(before, _with_hole(trace, entries_of(shape)))
    why = counts_differ(before, after)
    if why:
        name, first, second = trace.text_of(source), format_shape(before), format_shape(after)
        trace.fail("reshape-size", source, name=name, before=first, after=second, why=why)
    return trace.tensor(reshaped(trace, source.value, after), source.weak)


def _with_hole(trace: Trace, entries: tuple[Any, ...]) -> Shape:
    """A shape in which one size may be -1."""
    holes = [i for i, entry in enumerate(entries) if dim_of(entry) == -1]
    if not holes:
        return to_shape(trace, entries)
    if len(holes) > 1:
        trace.fail("reshape-holes", text=entries)
    return (*to_shape(trace, entries[: holes[0]]), -1, *to_shape(trace, entries[holes[0] + 1 :]))


@records(language_math.transpose)
def transpose(trace: Trace, x: Any, axes: Any = None) -> TracedTensor:
    source = tensor(trace, x)
    rank = source.ndim
    permutation = tuple(reversed(range(rank)))
    if axes is not None:
        permutation = tuple(to_axis(trace, "tile.transpose", axis, rank) for axis in entries_of(axes))
        if sorted(permutation) != list(range(rank)):
            trace.fail("not-a-permutation", source, text=axes, rank=rank)
    return trace.tensor(permuted(trace, source.value, permutation), source.weak)


@performs("mT")
def matrix_transpose(trace: Trace, x: TracedTensor) -> TracedTensor:
    if x.ndim < 2:
        trace.fail("transpose-rank", x, text=trace.text_of(x), rank=x.ndim)
    return swapaxes(trace, x, -1, -2)


@performs("swapaxes")
def swapaxes(trace: Trace, x: TracedTensor, axis1: Any, axis2: Any) -> TracedTensor:
    first, second = (to_axis(trace, "swapaxes", axis, x.ndim) for axis in (axis1, axis2))
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    return trace.tensor(permuted(trace, x.value, tuple(order)), x.weak)


@performs("squeeze")
def squeeze(trace: Trace, x: TracedTensor, axis: Any = None) -> TracedTensor:
    shape = x.type.shape
    ones = tuple(i for i, size in enumerate(shape) if size == 1)
    dropped = ones if axis is None else to_axes(trace, "squeeze", axis, x.ndim)
    for i in dropped:
        if shape[i] != 1:
            trace.fail("graph-squeeze", x, text=trace.text_of(x), axis=i, size=shape[i])
    kept = tuple(size for i, size in enumerate(shape) if i not in dropped)
    return trace.tensor(reshaped(trace, x.value, kept), x.weak)


@records(language_math.broadcast_to)
def broadcast_to(trace: Trace, x: Any, shape: Any) -> TracedTensor:
    source = tensor(trace, x)
    return trace.tensor(broadcast_exactly(trace, source, to_shape(trace, shape)), source.weak)


def broadcast_exactly(trace: Trace, source: TracedTensor, shape: Shape) -> Value:
    """A tensor under exactly this shape. Raises TileShapeError if it does not broadcast to it."""
    before = source.type.shape
    if len(before) > len(shape) or broadcast_shapes(before, shape) != shape:
        name = trace.text_of(source)
        trace.fail("broadcast-to", source, name=name, before=format_shape(before), after=format_shape(shape))
    return source.value if before == shape else trace.emit(Broadcast, source=source.value, shape=shape)


def filled(trace: Trace, shape: Any, value: Any, dtype: DType) -> TracedTensor:
    """One value everywhere."""
    number = trace.tensor(coerce(trace, value, dtype))
    return trace.tensor(broadcast_exactly(trace, number, to_shape(trace, shape)))


@records(language_program.zeros)
def zeros(trace: Trace, shape: Any, dtype: Any = f32) -> TracedTensor:
    return filled(trace, shape, 0, dtype_of(trace, "tile.zeros", dtype))


@records(language_program.ones)
def ones(trace: Trace, shape: Any, dtype: Any = f32) -> TracedTensor:
    return filled(trace, shape, 1, dtype_of(trace, "tile.ones", dtype))


@records(language_program.full)
def full(trace: Trace, shape: Any, value: Any, dtype: Any = None) -> TracedTensor:
    given = operand(trace, value)
    if shape_of(given):
        trace.fail("full-value", given, text=trace.text_of(given), what=describe(given))
    wanted = fill_dtype(strength_of(given)) if dtype is None else dtype_of(trace, "tile.full", dtype)
    return filled(trace, shape, given, wanted)


@records(language_program.arange)
def arange(trace: Trace, start: Any, stop: Any = None, step: Any = 1, dtype: Any = i64) -> TracedTensor:
    first, last = (0, _bound(trace, start)) if stop is None else (_bound(trace, start), _bound(trace, stop))
    if not isinstance(step, int) or step <= 0:
        trace.fail("arange-step", text=trace.text_of(step))
    count = ceildiv(last - first, step)
    shape = (max(count, 0) if isinstance(count, int) else count,)
    value: Any = trace.tensor(trace.emit(Iota, shape=shape, axis=0))
    value = value if step == 1 else apply(trace, "mul", value, step)
    if first != 0:
        value = apply(trace, "add", value, trace.tensor(trace.size(first), weak=True))
    return trace.tensor(coerce(trace, value, dtype_of(trace, "tile.arange", dtype)))


@records(language_program.static_assert)
def static_assert(trace: Trace, condition: Any, message: Any = "") -> None:
    if isinstance(condition, TracedTensor):
        trace.fail("static-assert-run-time", condition, text=trace.text_of(condition), what=describe(condition))
    if not condition:
        trace.fail("static-assert", message=message or "the condition is false")


def _bound(trace: Trace, value: Any) -> Dim:
    dim = dim_of(value)
    if dim is None:
        trace.fail("arange-bound", value, text=trace.text_of(value), what=describe(value))
    return dim

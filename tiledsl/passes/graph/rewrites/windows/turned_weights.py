"""Products with weights that are turned round, as transposed convolutions have them: the windows are, instead.

    %b = graph.gather(%w, 1 - iota)                         the places of the weights, the last one first
    %y = contract(window(pad(%x)) {dilations = [1]}, %b)
 =>
    %y = contract(window(pad(%x)) {dilations = [-1]}, %w)   the places of each window, the last one first

A sum is the same in any order of its places. So weights are read as they lie, and no kernel has to turn them before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.rewrite import Rewriter
from tiledsl.ir.strided_views import numbers
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.analysis.views import view_of_value
from tiledsl.passes.graph.rewrites.windows.windows_product import WindowsProduct


class Turned(NamedTuple):
    """A value is `source` with some axes, of several elements, the other way round."""

    source: Value
    axes: frozenset[int]


def straighten_slices(block: Block) -> None:
    """Slices of one element of each turned axis become slices of what is not turned, where its rows lie as those do."""
    for op in list(block.ops):
        if isinstance(op, ops.Slice) and 1 in sizes_of(op.result):
            source, axes = turned(op.result, Rewriter(op))
            before, after = view_of_value(op.result), view_of_value(source)
            same = before is not None and after is not None and before.place.unit == after.place.unit
            if same and not axes and source is not op.result:
                op.result.replace_with(source)


def with_straight_weights(product: WindowsProduct) -> WindowsProduct | None:
    """The same product of weights as they lie, with windows that are turned round; None where the weights are not
    turned, or along something else than the places of a window."""
    op = product.op
    weights = turned(product.weights, Rewriter(op))
    names = [product.of_weights[axis] for axis in weights.axes]
    if not names or not set(names) <= set(product.within):
        return None
    windows = product.windows
    dilations = tuple(
        -dilation if name in names else dilation for name, dilation in zip(product.within, windows.dilations)
    )
    made = ops.Window(windows.location, source=windows.source, axes=windows.axes, sizes=windows.sizes,
                      strides=windows.strides, dilations=dilations, result_names=[windows.result.name])  # fmt: skip
    assert op.parent is not None
    op.parent.insert_before(op, made)
    is_left = op.a is windows.result
    op.set_field("a" if is_left else "b", made.result)
    op.set_field("b" if is_left else "a", weights.source)
    return replace(product, windows=made, weights=weights.source)


def turned(value: Value, rewriter: Rewriter) -> Turned:
    """What a value is of one whose axes are not turned. What is between the two is made again by `rewriter`."""
    match value.op:
        case ops.Gather() as op if _is_backwards(op):
            source, axes = turned(op.source, rewriter)
            return Turned(source, axes ^ {op.axis})
        case ops.Reshape() | ops.Transpose() | ops.Slice() as op:
            source, axes = turned(op.source, rewriter)
            if axes:
                return _above(op, source, axes, rewriter) or Turned(value, frozenset())
        case _:
            pass
    return Turned(value, frozenset())


def _above(op: Op, source: Value, axes: frozenset[int], rewriter: Rewriter) -> Turned | None:
    """What a view of a turned value is of the same view of what is not turned."""
    match op:
        case ops.Transpose():
            made = rewriter.emit(ops.Transpose, source=source, permutation=op.permutation).result
            return Turned(made, frozenset(op.permutation.index(axis) for axis in axes))
        case ops.Reshape():
            parts = _parts_of(axes, sizes_of(source), sizes_of(op.result))
            made = None if parts is None else rewriter.emit(ops.Reshape, source=source, shape=op.shape).result
            return None if parts is None or made is None else Turned(made, parts)
        case ops.Slice():
            starts, stops = list(numbers(op.starts)), list(numbers(op.stops))
            for axis in axes:  # element j is j * step from the other end
                last = starts[axis] + (sizes_of(op.result)[axis] - 1) * op.steps[axis]
                size = sizes_of(source)[axis]
                starts[axis], stops[axis] = size - 1 - last, size - starts[axis]
            made = rewriter.emit(
                ops.Slice, source=source, starts=tuple(starts), stops=tuple(stops), steps=op.steps
            ).result
            return Turned(made, frozenset(axis for axis in axes if sizes_of(made)[axis] > 1))
        case _:
            return None


def _parts_of(axes: frozenset[int], old: tuple[int, ...], new: tuple[int, ...]) -> frozenset[int] | None:
    """The axes of another shape that turned ones are divided into: turning one turns all of its parts. None where one
    is not divided, but a part of another axis."""
    found: set[int] = set()
    before, number, passed = 1, 0, 1
    for axis, size in enumerate(old):
        if axis in axes:
            while passed < before and number < len(new):
                passed *= new[number]
                number += 1
            if passed != before:
                return None
            while passed < before * size and number < len(new):
                passed *= new[number]
                found.add(number)
                number += 1
            if passed != before * size:
                return None
        before *= size
    return frozenset(found)


def _is_backwards(op: ops.Gather) -> bool:
    """Whether all elements of an axis are taken, the last one first."""
    size = sizes_of(op.source)[op.axis]
    return sizes_of(op.indices) == (size,) and _steps(op.indices) == (size - 1, -1)


def _steps(value: Value) -> tuple[int, int] | None:
    """The first integer of a row, and how far the next one is from each; None for other rows."""
    match value.op:
        case ops.Iota():
            return 0, 1
        case ops.Constant() | ops.Size() as op if isinstance(op.value, int):
            return op.value, 0
        case ops.Map(fn="add" | "mul" as fn) as op:
            left, right = (_steps(operand) for operand in op.inputs)
            if left is None or right is None:
                return None
            if fn == "add":
                return left[0] + right[0], left[1] + right[1]
            if left[1] and right[1]:
                return None
            return left[0] * right[0], left[0] * right[1] + left[1] * right[0]
        case _:
            return None

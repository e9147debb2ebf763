"""Writes a graph in its simplest form: nothing twice, nothing that nobody reads, no reindexing that could be left out.

%t = transpose(%x) {[1, 0]}
%u = transpose(%t) {[1, 0]}            =>      graph.return([%x])
graph.return([%u])
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import ClassVar, cast

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Block, Function, Module, Op, Value
from tiledsl.ir.rewrite import Rewriter, Rules
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.verifier import Form, is_tile_function
from tiledsl.passes.analysis.scalars.fold_constants import fold_cast
from tiledsl.passes.manager import PassContext

RULES = Rules()
Shape = tuple[Dim, ...]


@dataclass(frozen=True)
class CanonicaliseGraph:
    """Applies the rules of this file until none fits, merges equal ops and drops unread ones."""

    name: ClassVar[str] = "canonicalise-graph"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH

    def run(self, module: Module, context: PassContext) -> Module:
        for function in module.functions:
            if not is_tile_function(function):
                tidy(function)
        called = ops.called_by(module.functions)
        return Module([f for f in module.functions if f is module.entry or f.name in called])


def tidy(function: Function) -> None:
    """Does all that the pass does, to one function."""
    drop_unread(function.body)
    changed = True
    while changed:
        changed = RULES.apply(function)
        changed = _merge_equal(function.body) or changed
        drop_unread(function.body)


def drop_unread(block: Block) -> None:
    """Takes out every op whose results nobody reads."""
    for op in reversed(list(block.ops)):
        if op.effect != "terminator" and not any(value.users for value in op.results):
            op.erase()


def _merge_equal(block: Block) -> bool:
    """Makes one of ops that do the same to the same operands."""
    known: dict[object, Op] = {}
    changed = False
    for op in list(block.ops):
        if op.effect == "terminator" or isinstance(op, (ops.Serial, ops.Call, ops.Loop, ops.Iota)):
            continue  # coordinates of two axes of one size are not the same: each has its own
        # 1, 1.0 and True are equal, so are 0.0 and -0.0: numbers are told by their text
        attributes = [
            repr(op.attributes[name]) if kind.kind == "number" else op.attributes[name]
            for name, kind in op.attribute_fields.items()
        ]
        key = (op.name, op.operands, *attributes)
        first = known.setdefault(key, op)
        if first is not op:
            op.result.replace_with(first.result)
            op.erase()
            changed = True
    return changed


@RULES.on(ops.Transpose)
def transposed_not_at_all(op: ops.Transpose, rewriter: Rewriter) -> bool:
    # transpose(x, [0, 1, ...]) => x
    if op.permutation != tuple(range(len(op.permutation))):
        return False
    rewriter.replace(op, op.source)
    return True


@RULES.on(ops.Transpose)
def transposed_twice(op: ops.Transpose, rewriter: Rewriter) -> bool:
    # transpose(transpose(x, p), q) => transpose(x, p after q)
    inner = op.source.op
    if not isinstance(inner, ops.Transpose):
        return False
    permutation = tuple(inner.permutation[i] for i in op.permutation)
    rewriter.replace(op, rewriter.emit(ops.Transpose, source=inner.source, permutation=permutation).result)
    return True


@RULES.on(ops.Concat)
def join_of_one(op: ops.Concat, rewriter: Rewriter) -> bool:
    # concat(x) => x; and what has no elements is no part of a join
    parts = [value for value in op.sources if tensor_type(value).shape[op.axis] != 0] or list(op.sources[:1])
    if len(parts) == 1:
        rewriter.replace(op, parts[0])
        return True
    if len(parts) == len(op.sources):
        return False
    rewriter.replace(op, rewriter.emit(ops.Concat, sources=parts, axis=op.axis).result)
    return True


@RULES.on(ops.Reshape, ops.Broadcast)
def shaped_as_it_is(op: ops.Reshape | ops.Broadcast, rewriter: Rewriter) -> bool:
    # reshape(x, shape of x), broadcast(x, shape of x) => x
    if tensor_type(op.source).shape != op.shape:
        return False
    rewriter.replace(op, op.source)
    return True


@RULES.on(ops.Reshape, ops.Broadcast)
def shaped_twice(op: ops.Reshape | ops.Broadcast, rewriter: Rewriter) -> bool:
    # reshape(reshape(x)) => reshape(x), and so for broadcast
    inner = op.source.op
    if type(inner) is not type(op) or not isinstance(inner, (ops.Reshape, ops.Broadcast)):
        return False
    rewriter.replace(op, rewriter.emit(type(op), source=inner.source, shape=op.shape).result)
    return True


@RULES.on(ops.Reshape)
def reshaped_before_it_is_repeated(op: ops.Reshape, rewriter: Rewriter) -> bool:
    # reshape(broadcast(x: [1, c, 1], [n, c, w]), [n, g, c / g, w]) => broadcast(reshape(x, [1, g, c / g, 1]), ...)
    inner = op.source.op
    if not isinstance(inner, ops.Broadcast):
        return False
    shape = unrepeated(tensor_type(inner.source).shape, inner.shape, op.shape)
    if shape is None:
        return False
    small = rewriter.emit(ops.Reshape, source=inner.source, shape=shape).result
    rewriter.replace(op, rewriter.emit(ops.Broadcast, source=small, shape=op.shape).result)
    return True


def unrepeated(small: Shape, repeated: Shape, reshaped: Shape) -> Shape | None:
    """The shape that gives `reshaped` once it is repeated, for a tensor that is `repeated` before it is reshaped; None
    if axes that are repeated and axes that are not become one."""
    together = _together(repeated, reshaped)
    if together is None:
        return None
    small = (*(1 for _ in range(len(repeated) - len(small))), *small)
    found: list[Dim] = []
    for before, after in together:
        long = [axis for axis in before if repeated[axis] != 1]
        kept = [axis for axis in long if small[axis] == repeated[axis]]
        if kept and len(kept) < len(long):
            return None
        found += [reshaped[axis] for axis in after] if kept else [1 for _ in after]
    return tuple(found)


def _together(before: Shape, after: Shape) -> list[tuple[range, range]] | None:
    """Axes of one shape and axes of another that stand for the same elements, from the first on; None where a size is
    not known, or 0."""
    if any(not isinstance(size, int) or size == 0 for size in (*before, *after)):
        return None
    found: list[tuple[range, range]] = []
    i = j = 0
    while i < len(before) or j < len(after):
        first, second = i, j
        left = right = 1
        while left != right or (i == first and j == second):
            if j == len(after) or (i < len(before) and left <= right):
                left, i = left * cast("int", before[i]), i + 1
            else:
                right, j = right * cast("int", after[j]), j + 1
        found.append((range(first, i), range(second, j)))
    return found


@RULES.on(ops.Reshape)
def joined_and_split_again(op: ops.Reshape, rewriter: Rewriter) -> bool:
    # reshape(transpose(reshape(x: [n, b, h * d], [n, b * h, d]), [1, 0, 2]), [b, h, n, d])
    #   => transpose(reshape(x, [n, b, h, d]), [1, 2, 0, 3]): axes are split alone, which strides can always tell
    turned = op.source.op
    inner = turned.source.op if isinstance(turned, ops.Transpose) else None
    if not isinstance(turned, ops.Transpose) or not isinstance(inner, ops.Reshape):
        return False
    factors = factors_of(tensor_type(inner.source).shape, inner.shape)
    if factors is None or not any(len(sizes) > 1 for sizes in factors) or not _is_cut(op.shape):
        return False
    order = [(axis, place) for axis in turned.permutation for place in range(len(factors[axis]))]
    kept = set(_ends(op.shape))
    ends = _ends([factors[axis][place] for axis, place in order])
    within = (end for end, (axis, place) in zip(ends, order) if place < len(factors[axis]) - 1)
    if not all(end in kept for end in within):
        return False
    numbers = {each: n for n, each in enumerate((a, p) for a, sizes in enumerate(factors) for p in range(len(sizes)))}
    split = rewriter.emit(ops.Reshape, source=inner.source, shape=tuple(size for sizes in factors for size in sizes))
    permutation = tuple(numbers[each] for each in order)
    moved = rewriter.emit(ops.Transpose, source=split.result, permutation=permutation).result
    rewriter.replace(op, rewriter.emit(ops.Reshape, source=moved, shape=op.shape).result)
    return True


def factors_of(before: Shape, after: Shape) -> list[list[int]] | None:
    """What the axes of the second shape are made of, so that those of the first are products of the same factors; none
    for an axis of one element. None where there are no such factors, or a size is not known, or 0."""
    if not _is_cut(before) or not _is_cut(after):
        return None
    cuts = sorted({1, *_ends(before), *_ends(after)})
    if any(end % start for start, end in pairwise(cuts)):
        return None
    found: list[list[int]] = []
    start = 1
    for end in _ends(after):
        among = [cut for cut in cuts if start <= cut <= end]
        found.append([second // first for first, second in pairwise(among)])
        start = end
    return found


def _is_cut(shape: Shape) -> bool:
    """Whether all sizes are numbers above 0."""
    return all(isinstance(size, int) and size > 0 for size in shape)


def _ends(shape: Sequence[Dim]) -> list[int]:
    """The products of the first sizes, of each number of them."""
    return list(accumulate(cast("Sequence[int]", shape), operator.mul))


@RULES.on(ops.Reduce)
def fold_of_one(op: ops.Reduce, rewriter: Rewriter) -> bool:
    # sum(x: [m, 1], axis=1) => reshape(x, [m])
    if op.fn in ("argmax", "argmin") or any(tensor_type(op.source).shape[axis] != 1 for axis in op.axes):
        return False
    shape = tensor_type(op.result).shape
    rewriter.replace(op, rewriter.emit(ops.Reshape, source=op.source, shape=shape).result)
    return True


@RULES.on(ops.Window)
def windows_of_one(op: ops.Window, rewriter: Rewriter) -> bool:
    # window(x, sizes=1, strides=1) => reshape(x), where x is not padded
    if isinstance(op.source.op, ops.Pad) or any(size != 1 for size in (*op.sizes, *op.strides)):
        return False
    rewriter.replace(op, rewriter.emit(ops.Reshape, source=op.source, shape=tensor_type(op.result).shape).result)
    return True


@RULES.on(ops.Window)
def windows_along_axes_of_one(op: ops.Window, rewriter: Rewriter) -> bool:
    # window(x: [n, 1, w], axes=[1, 2], sizes=[1, k]) => reshape(window(x, axes=[2], sizes=[k]))
    shape = tensor_type(op.source).shape
    windows = list(zip(op.axes, op.sizes, op.strides, op.dilations))
    kept = [window for window in windows if shape[window[0]] != 1 or window[1:3] != (1, 1)]
    if not kept or kept == windows:
        return False
    axes, sizes, strides, dilations = zip(*kept)
    narrow = rewriter.emit(
        ops.Window, source=op.source, axes=axes, sizes=sizes, strides=strides, dilations=dilations
    ).result
    rewriter.replace(op, rewriter.emit(ops.Reshape, source=narrow, shape=tensor_type(op.result).shape).result)
    return True


@RULES.on(ops.Slice)
def sliced_not_at_all(op: ops.Slice, rewriter: Rewriter) -> bool:
    # x[0:n, 0:m] => x
    whole = tensor_type(op.source).shape
    if any(start != 0 for start in op.starts) or op.stops != whole or any(step != 1 for step in op.steps):
        return False
    rewriter.replace(op, op.source)
    return True


@RULES.on(ops.Cast)
def cast_to_itself(op: ops.Cast, rewriter: Rewriter) -> bool:
    # cast(x: t, t) => x
    if tensor_type(op.source).dtype != op.dtype:
        return False
    rewriter.replace(op, op.source)
    return True


@RULES.on(ops.Cast)
def cast_of_a_spread_number(op: ops.Cast, rewriter: Rewriter) -> bool:
    # cast(broadcast(c: []), t) => broadcast(cast(c, t)); cast(constant(c), t) => constant(c: t)
    source = _number_of(op.source)
    if source is not op.source:
        number = rewriter.emit(ops.Cast, source=source, dtype=op.dtype).result
        rewriter.replace(op, rewriter.emit(ops.Broadcast, source=number, shape=tensor_type(op.result).shape).result)
        return True
    constant = source.op
    value = fold_cast(constant.value, constant.dtype, op.dtype) if isinstance(constant, ops.Constant) else None
    if value is None:
        return False
    rewriter.replace(op, rewriter.emit(ops.Constant, value=value, dtype=op.dtype).result)
    return True


@RULES.on(ops.Map)
def map_of_a_spread_number(op: ops.Map, rewriter: Rewriter) -> bool:
    # map(x, broadcast(c: [])) => map(x, c), where another operand has the shape
    plain = [_number_of(value) for value in op.inputs]
    shaped = [value for value, number in zip(op.inputs, plain) if number is value and tensor_type(value).shape]
    if not shaped or all(number is value for value, number in zip(op.inputs, plain)):
        return False
    op.set_field("inputs", plain)
    rewriter.revisit(op)
    return True


def _number_of(value: Value) -> Value:
    """The number that a tensor repeats, if it is one; else the tensor."""
    source = value
    while isinstance(source.op, (ops.Broadcast, ops.Reshape)):
        source = source.op.source
    return value if tensor_type(source).shape else source

"""Axes are merged as late as can be, where a view of memory with merged axes would be a copy.

    %r = reshape(%v) to [4, 24, h, w], %v = transpose(reshape(%x)) of [24, 2, 2, h, w]: strides cannot tell %r
    %t = transpose(%r)                                 =>    %t = reshape(transpose(reshape(%v) to [4, 6, 2, 2, h, w]))
    %s = reduce(%r) over all that was merged           =>    %s = reduce(%v) over each of its axes
    %c = slice(%r) of whole runs of the inner axes     =>    %c = reshape(slice(%v))

What transposes, folds, slices, pads or looks up along axes of such a tensor does so along the factors of these, of
which strides can tell every one; what is left of the reshape is behind it, where it costs nothing if the result is
stored then. So a chain of reshapes and transposes is one copy, and windows that are folded are folded where they lie.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Op, Value
from tiledsl.ir.rewrite import Rewriter, Rules
from tiledsl.ir.strided_views import numbers
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.outline import is_soft
from tiledsl.passes.graph.analysis.shapes import sizes_of, volume
from tiledsl.passes.graph.analysis.views import view_of_value
from tiledsl.passes.graph.rewrites.canonicalise_graph import factors_of, tidy
from tiledsl.passes.manager import PassContext

RULES = Rules()

READERS = (ops.Transpose, ops.Slice, ops.Pad, ops.Reduce, ops.Gather, ops.Reshape, ops.Map, ops.Cast)
"""What may read a reshape whose axes are merged later. Others want it in memory: then all read that copy."""

MOST_AXES = 8
"""Of a tensor whose axes are not merged yet: kernels count places along each of them."""


@dataclass(frozen=True)
class LateMerges:
    """Of the entry."""

    name: ClassVar[str] = "late-merges"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH

    def run(self, module: Module, context: PassContext) -> Module:
        if RULES.apply(module.entry):
            tidy(module.entry)
        return module


class _Merged(NamedTuple):
    """What a reshape that would be a copy is of, and the factors of each of its axes."""

    source: Value
    factors: list[list[int]]

    def split(self, rewriter: Rewriter) -> Value:
        """The tensor with each factor as an axis."""
        shape = tuple(size for sizes in self.factors for size in sizes)
        return rewriter.emit(ops.Reshape, source=self.source, shape=shape).result

    def places(self, axis: int) -> range:
        """The axes of the factors of an axis."""
        first = sum(map(len, self.factors[:axis]))
        return range(first, first + len(self.factors[axis]))


def _merged(value: Value) -> _Merged | None:
    """The reshape that a value is, if it would be a copy, and no reader needs it in memory."""
    op = value.op
    if not isinstance(op, ops.Reshape) or not all(isinstance(user, READERS) for user in value.users):
        return None
    view = view_of_value(op.source)
    if view is None or isinstance(view.buffer.op, COMPUTED) or view_of_value(value) is not None:
        return None
    factors = factors_of(sizes_of(op.source), sizes_of(value))
    if factors is None or sum(map(len, factors)) > MOST_AXES:
        return None
    return _Merged(op.source, factors)


COMPUTED = (ops.Map, ops.Cast, ops.Random, ops.Reduce, ops.Scan, ops.Contract, ops.Gather, ops.Concat, ops.Interleave)
"""What may be stored in the order in which it is read: a reshape of that need be no copy."""


def _is_read_by_product(value: Value) -> bool:
    """Whether a product reads a value, or a program or a loop, maybe by plain reindexing."""
    return any(
        isinstance(user, (ops.Contract, ops.Call, ops.Loop)) or (is_soft(user) and _is_read_by_product(user.results[0]))
        for user in value.users
    )


@RULES.on(ops.Transpose)
def transposed_first(op: ops.Transpose, rewriter: Rewriter) -> bool:
    # transpose(reshape(x)) => reshape(transpose(split x)), but for products: these read any order of one copy
    merged = _merged(op.source)
    if merged is None or _is_read_by_product(op.result):
        return False
    order = [place for axis in op.permutation for place in merged.places(axis)]
    turned = rewriter.emit(ops.Transpose, source=merged.split(rewriter), permutation=tuple(order)).result
    return _replaced(op, turned, rewriter)


@RULES.on(ops.Reduce)
def folded_first(op: ops.Reduce, rewriter: Rewriter) -> bool:
    # reduce(reshape(x)) => reshape(reduce(split x)), over all factors of the axes
    merged = _merged(op.source)
    axes = tuple(place for axis in op.axes for place in merged.places(axis)) if merged is not None else ()
    if merged is None or not axes or op.fn in ("argmax", "argmin"):
        return False
    split = merged.split(rewriter)
    return _replaced(op, rewriter.emit(ops.Reduce, source=split, axes=axes, fn=op.fn).result, rewriter)


@RULES.on(ops.Slice)
def sliced_first(op: ops.Slice, rewriter: Rewriter) -> bool:
    # slice(reshape(x)) => reshape(slice(split x)), where it takes whole runs of the inner factors, or one of each
    merged = _merged(op.source)
    if merged is None or not volume(op.result):
        return False
    cuts: list[_Cut] = []
    for sizes, start, stop, step in zip(merged.factors, numbers(op.starts), numbers(op.stops), op.steps):
        found = _cut_of(sizes, _Cut(start, stop, step))
        if found is None:
            return False
        cuts += found
    starts, stops, steps = (tuple(cut[i] for cut in cuts) for i in range(3))
    source = merged.split(rewriter)
    return _replaced(
        op, rewriter.emit(ops.Slice, source=source, starts=starts, stops=stops, steps=steps).result, rewriter
    )


@RULES.on(ops.Pad)
def padded_first(op: ops.Pad, rewriter: Rewriter) -> bool:
    # pad(reshape(x)) => reshape(pad(split x)), along axes that nothing was merged to
    merged = _merged(op.source)
    if merged is None or any(isinstance(user, ops.Window) for user in op.result.users):
        return False
    low, high = ([0] * sum(map(len, merged.factors)) for _ in range(2))
    for axis, ends in enumerate(zip(numbers(op.low), numbers(op.high))):
        places = merged.places(axis)
        if ends != (0, 0):
            if len(places) != 1:
                return False
            low[places[0]], high[places[0]] = ends
    source = merged.split(rewriter)
    padded = rewriter.emit(ops.Pad, source=source, low=tuple(low), high=tuple(high), value=op.value).result
    return _replaced(op, padded, rewriter)


@RULES.on(ops.Gather)
def looked_up_first(op: ops.Gather, rewriter: Rewriter) -> bool:
    # gather(reshape(x)) => reshape(gather(split x)), along an axis that nothing was merged to
    merged = _merged(op.source)
    places = range(0) if merged is None else merged.places(op.axis)
    if merged is None or len(places) != 1:
        return False
    split = merged.split(rewriter)
    return _replaced(op, rewriter.emit(ops.Gather, source=split, indices=op.indices, axis=places[0]).result, rewriter)


class _Cut(NamedTuple):
    start: int
    stop: int
    step: int


def _cut_of(factors: Sequence[int], cut: _Cut) -> list[_Cut] | None:
    """What a cut of a merged axis takes of each of its factors; None where that is no cut of each."""
    if len(factors) < 2:
        return [cut] if factors else []
    run, rest = math.prod(factors[1:]), factors[1:]
    first, at = divmod(cut.start, run)
    if cut.stop - cut.start > 1 and cut.step % run == 0:  # one place in every so many runs
        last = (cut.stop - 1 - at) // run + 1
        found = _cut_of(rest, _Cut(at, at + 1, 1))
        return None if found is None else [_Cut(first, last, cut.step // run), *found]
    if at + cut.stop - cut.start <= run and cut.start < cut.stop:  # within one run
        found = _cut_of(rest, _Cut(at, at + cut.stop - cut.start, cut.step))
        return None if found is None else [_Cut(first, first + 1, 1), *found]
    if cut.step == 1 and at == cut.stop % run == 0:
        return [_Cut(first, cut.stop // run, 1), *(_Cut(0, size, 1) for size in rest)]
    return None


def _replaced(op: Op, made: Value, rewriter: Rewriter) -> bool:
    """Puts a value, under the shape of an op's result, in the place of that."""
    result = rewriter.emit(ops.Reshape, source=made, shape=sizes_of(op.results[0])).result
    rewriter.replace(op, result)
    return True

"""Folds in two steps what would be too much for the few programs that it has results for.

    %s = reduce(%x: [8192, 8192]) {axes = [0, 1], fn = add}
 =>
    %p = reduce(%x) {axes = [1], fn = add}                      a program for each row
    %s = reduce(%p) {axes = [0], fn = add}                      one for the sums of rows

A single long axis is cut where its size divides: reshape [n] -> [d, n / d] -> [d] -> []. The reshape goes up through
what is computed for each element, so that this is still one kernel with the first step.

A fold across memory, of columns side by side, has programs for a few columns each, since whole lines are read. On a
GPU what is more than the registers of one block is folded in two steps too, whatever number of results there is: blocks
that hold a part of their columns wait for nobody.

    %s = reduce(%x: [8192, 8192]) {axes = [0], fn = add}
 =>
    %p = reduce(reshape(%x) [32, 256, 8192]) {axes = [1], fn = add}
    %s = reduce(%p) {axes = [0], fn = add}

Rows of a few elements, as pixels are, are folded many side by side first, so that threads read whole vectors:

    %s = reduce(%x: [65536, 3] of bytes) {axes = [0], fn = add}
 =>
    %p = reduce(reshape(%x) [1024, 64, 3]) {axes = [0], fn = add}
    %s = reduce(%p) {axes = [0], fn = add}
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Op, Value
from tiledsl.ir.dtypes import i32, i64
from tiledsl.ir.rewrite import Rewriter
from tiledsl.ir.tile_ops import tensor_type
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.limits import busy_programs
from tiledsl.passes.graph.analysis.shapes import bytes_of, sizes_of, volume
from tiledsl.passes.graph.analysis.value_order import operands_first
from tiledsl.passes.graph.groups.cut_axes import Cut, Parts, parts_of
from tiledsl.passes.graph.groups.turned_folds import turned_fold
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.manager import PassContext

ARG_FOLDS = ("argmax", "argmin")
MANY = 1 << 16
"""More elements than that, for each result, are worth a second step."""
PART = 1 << 13
"""About as many elements one program should fold."""
LINE = 128
"""Bytes of columns side by side that a program reads."""
HELD = 1 << 15
"""Bytes of such columns that the threads of a block hold with ease."""
CLUSTER = 8
"""Blocks that fold a row together."""
ROW = 1 << 17
"""Elements of a row that they hold."""
FEW = 1 << 5
"""Rows of such columns that a part has at least."""
SECTOR = 32
"""Bytes of a row, below which many are folded side by side first."""
LARGE = 1 << 24
"""Bytes of a tensor that take longer to read than a second kernel to begin."""


@dataclass(frozen=True)
class SplitFolds:
    """Of the entry. `arch`: a fold is split if it has fewer results than four times the programs that keep it busy."""

    name: ClassVar[str] = "split-folds"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        programs = 4 * busy_programs(self.arch, context.machine)
        on_gpu = self.arch.startswith("sm_")
        for op in list(module.entry.body.ops):
            if isinstance(op, ops.Reduce) and (on_gpu or op.fn not in ARG_FOLDS):
                fold = turned_fold(op) if on_gpu and bytes_of(op.source) >= LARGE and op.fn not in ARG_FOLDS else op
                fold = self._widen_columns(fold, context) if on_gpu and op.fn not in ARG_FOLDS else fold
                if on_gpu and self._split_columns(fold, context):
                    continue
                self._split(fold, programs, context)
        tidy(module.entry)
        return module

    def _split(self, op: ops.Reduce, programs: int, context: PassContext) -> None:
        results = volume(op.result)
        each = volume(op.source) // results if results else 0
        if results == 0 or results >= programs or each <= MANY:
            return
        if results * CLUSTER >= programs // 4 and each <= ROW and _meets_shifted_blocks(op):
            return
        wanted = math.ceil(max(programs, each * results / PART) / results)
        found = parts_of(sizes_of(op.source), op.axes, wanted)
        what = f"{each} elements for each of {results} results"
        if found is None:
            context.remark(self.name, op.location, f"{what}, one program each: their axes cannot be cut")
            return
        programs_ = f"{found.count} programs for each"
        context.remark(self.name, op.location, f"{what}: folded in two steps, by {programs_} first")
        for step in in_two_steps(op, found):  # where there are very many parts, these are split again
            self._split(step, programs, context)

    def _widen_columns(self, op: ops.Reduce, context: PassContext) -> ops.Reduce:
        """A fold of more columns side by side, in front of one that folds these, where rows are less than a sector; the
        one that is first."""
        shape, last = sizes_of(op.source), max(op.axes, default=-1)
        read, behind = _read(op.source), math.prod(shape[last + 1 :])
        if last < 0 or not behind > 1 or not read or bytes_of(op.source) < LARGE or _is_chained(op):
            return op
        run = behind * min(bytes_of(v) // volume(v) for v in read)
        wide = [k for k in range(2, shape[last]) if shape[last] % k == 0 and LINE <= run * k <= 2 * LINE]
        each = math.prod(shape[axis] for axis in op.axes)
        if run >= SECTOR or not wide or each < FEW * wide[0]:
            return op
        together = max(wide, key=lambda k: (k & -k, -k))
        text = f"rows of {run} bytes are folded {together} side by side first"
        context.remark(self.name, op.location, text)
        return _side_by_side(op, last, together)

    def _split_columns(self, op: ops.Reduce, context: PassContext) -> bool:
        """Splits a fold across memory of more than a block holds; whether it was one."""
        shape = sizes_of(op.source)
        kept = [axis for axis in range(len(shape)) if axis not in op.axes and shape[axis] > 1]
        if not kept or kept[-1] < max(op.axes) or bytes_of(op.source) < LARGE:
            return False
        read = _read(op.source)
        if not read:  # but what is repeated, of which a block reads little
            return False
        element = min(bytes_of(v) // volume(v) for v in read)
        run = element * min(math.prod(shape[max(op.axes) + 1 :]), LINE // element)
        each = math.prod(shape[axis] for axis in op.axes)
        if run * each <= HELD or _is_chained(op):
            return False
        found = parts_of(shape, op.axes, math.ceil(run * each / HELD), least=FEW)
        if found is None or not 1 < found.count < each:
            return False
        what = f"{each} elements for each of {volume(op.result)} columns"
        context.remark(self.name, op.location, f"{what}: folded in two steps, {each // found.count} at a time first")
        in_two_steps(op, found)
        return True


def _read(value: Value) -> list[Value]:
    """What a tensor is computed from, element by element, of as many elements."""
    size = volume(value)
    above = operands_first(value, lambda v: isinstance(v.op, (ops.Map, ops.Cast)))
    leaves = [v for v in above if not isinstance(v.op, (ops.Map, ops.Cast))]
    return [v for v in leaves if volume(v) == size and not isinstance(v.op, (ops.Broadcast, ops.Iota))]


def _is_chained(op: ops.Reduce) -> bool:
    """Whether what a fold reads is folded once more with its result, or was before: both want the columns at hand."""
    size = volume(op.source)
    above = operands_first(op.source, lambda v: isinstance(v.op, (ops.Map, ops.Cast, ops.Broadcast, ops.Reshape)))
    if any(isinstance(value.op, ops.Reduce) and not _goes_across(value.op, op) for value in above):
        return True
    below: set[Op] = set()
    pending = list(op.result.users)
    while pending:
        user = pending.pop()
        if user not in below:
            below.add(user)
            pending += [reader for result in user.results for reader in result.users]
    return any(user in below for value in above if volume(value) == size for user in value.users)


def _side_by_side(op: ops.Reduce, axis: int, together: int) -> ops.Reduce:
    """Replaces a fold by one that has so many coordinates of a folded axis side by side, which is returned, and one
    that folds those."""
    rewriter = Rewriter(op)
    source = Cut(rewriter, axis, sizes_of(op.source)[axis] // together).of(op.source)
    first = rewriter.emit(ops.Reduce, source=source, axes=op.axes, fn=op.fn)  # the axis is the part in front now
    kept = [a for a in range(len(sizes_of(source))) if a not in op.axes]
    result = rewriter.emit(ops.Reduce, source=first.result, axes=(kept.index(axis + 1),), fn=op.fn).result
    if op.keepdims:
        result = rewriter.emit(ops.Reshape, source=result, shape=sizes_of(op.result)).result
    rewriter.replace(op, result)
    return first


def _goes_across(other: ops.Reduce, op: ops.Reduce) -> bool:
    """Whether a fold goes along other axes of a tensor of that shape: of rows, where columns are folded."""
    return sizes_of(other.source) == sizes_of(op.source) and not set(other.axes) & set(op.axes)


def in_two_steps(op: ops.Reduce, parts: Parts) -> list[ops.Reduce]:
    """Replaces a fold by one for each part, and those that fold these, which are returned."""
    rewriter = Rewriter(op)
    cut = Cut(rewriter, parts.axis, parts.parts)
    source = cut.of(op.source)
    # what is kept stays, and so do parts; the axis behind these is folded with all others
    folded = tuple(a if a < parts.axis else a + 1 for a in op.axes if a not in parts.outer)
    remaining = [a for a in range(len(sizes_of(source))) if a not in folded]
    at = tuple(remaining.index(a) for a in (*parts.outer, parts.axis))
    first = rewriter.emit(ops.Reduce, source=source, axes=folded, fn=op.fn).result
    if op.fn in ARG_FOLDS:
        last, result = _first_place(rewriter, op, source, first, folded[0], at[0])
    else:
        last = [rewriter.emit(ops.Reduce, source=first, axes=at, fn=op.fn)]
        result = last[0].result
    if op.keepdims:
        result = rewriter.emit(ops.Reshape, source=result, shape=sizes_of(op.result)).result
    rewriter.replace(op, result)
    return last


def _first_place(
    rewriter: Rewriter, op: ops.Reduce, source: Value, places: Value, folded: int, at: int
) -> tuple[list[ops.Reduce], Value]:
    """Where the first extremum of all stands: the least place among those parts whose extremum it is.

    A part's place that is not that of the extremum counts as one beyond the end. NaN is beyond all numbers, and is
    where it differs from itself.
    """

    def map_(fn: str, *inputs: Value) -> Value:
        return rewriter.emit(ops.Map, fn=fn, inputs=inputs).result

    def number(value: int) -> Value:
        return rewriter.emit(ops.Constant, value=value, dtype=i64).result

    fn = "max" if op.fn == "argmax" else "min"
    extrema = rewriter.emit(ops.Reduce, source=source, axes=(folded,), fn=fn).result
    best = rewriter.emit(ops.Reduce, source=extrema, axes=(at,), fn=fn, keepdims=True)
    spread = rewriter.emit(ops.Broadcast, source=best.result, shape=sizes_of(extrema)).result
    reached = map_("eq", extrema, spread)
    if tensor_type(extrema).dtype.is_float:
        reached = map_("or", reached, map_("ne", extrema, extrema))
    each, whole = sizes_of(source)[folded], sizes_of(op.source)[op.axes[0]]
    part = rewriter.emit(ops.Iota, shape=sizes_of(places), axis=at).result
    narrow = rewriter.emit(ops.Cast, source=places, dtype=i32).result  # half the bytes between the steps
    place = map_("add", map_("mul", part, number(each)), rewriter.emit(ops.Cast, source=narrow, dtype=i64).result)
    chosen = map_("where", reached, place, number(whole))
    least = rewriter.emit(ops.Reduce, source=chosen, axes=(at,), fn="min")
    return [], least.result


def _meets_shifted_blocks(op: ops.Reduce) -> bool:
    """Whether a fold of such rows is computed of shifted blocks of what is not padded in memory, as it would be to be
    cut: then no fold of rows that are as long is, so that one kernel has all of them whole."""
    shape = sizes_of(op.source)
    assert op.parent is not None
    folds = [one for one in op.parent.ops if isinstance(one, ops.Reduce) and one.axes == op.axes]
    return any(sizes_of(one.source) == shape and _is_of_shifted_blocks(one.source) for one in folds)


def _is_of_shifted_blocks(value: Value) -> bool:
    """Whether a value is computed of shifted blocks of what is not padded in memory, which it would be to be cut."""
    above = operands_first(value, lambda v: isinstance(v.op, (ops.Map, ops.Cast)))
    windows = [v.op.source.op for v in above if isinstance(v.op, ops.Reshape)]
    return any(isinstance(op, ops.Window) and isinstance(op.source.op, ops.Pad) for op in windows)

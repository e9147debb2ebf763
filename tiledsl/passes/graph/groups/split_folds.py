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
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Op, Value
from tiledsl.ir.rewrite import Rewriter
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.shapes import bytes_of, sizes_of, volume
from tiledsl.passes.graph.analysis.value_order import operands_first
from tiledsl.passes.graph.groups.price import rates_of
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.manager import PassContext

MANY = 1 << 16
"""More elements than that, for each result, are worth a second step."""
PART = 1 << 15
"""About as many elements one program should fold."""
ROW = 1 << 10
"""An axis is kept whole in the first step only if programs still fold as many elements."""
LINE = 128
"""Bytes of columns side by side that a program reads."""
HELD = 1 << 15
"""Bytes of such columns that the threads of a block hold with ease."""
FEW = 1 << 5
"""Rows of such columns that a part has at least."""
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
        programs = 4 * rates_of(self.arch).programs
        for op in list(module.entry.body.ops):
            if isinstance(op, ops.Reduce) and op.fn not in ("argmax", "argmin"):
                if self.arch.startswith("sm_") and self._split_columns(op, context):
                    continue
                self._split(op, programs, context)
        tidy(module.entry)
        return module

    def _split(self, op: ops.Reduce, programs: int, context: PassContext) -> None:
        results = volume(op.result)
        each = volume(op.source) // results if results else 0
        if results == 0 or results >= programs or each <= MANY:
            return
        found = cut_of(sizes_of(op.source), op.axes, math.ceil(max(programs, each * results / PART) / results))
        what = f"{each} elements for each of {results} results"
        if found is None:
            context.remark(self.name, op.location, f"{what}, one program each: their axes cannot be cut")
            return
        axis, parts = found
        context.remark(self.name, op.location, f"{what}: folded in two steps, by {parts} programs for each first")
        _in_two_steps(op, axis, parts)

    def _split_columns(self, op: ops.Reduce, context: PassContext) -> bool:
        """Splits a fold across memory of more than a block holds; whether it was one."""
        shape = sizes_of(op.source)
        kept = [axis for axis in range(len(shape)) if axis not in op.axes and shape[axis] > 1]
        if not kept or kept[-1] < max(op.axes) or bytes_of(op.source) < LARGE:
            return False
        element = min((bytes_of(v) // volume(v) for v in _read(op.source)), default=4)
        run = element * min(math.prod(shape[max(op.axes) + 1 :]), LINE // element)
        each = math.prod(shape[axis] for axis in op.axes)
        if run * each <= HELD or _is_chained(op):
            return False
        found = cut_of(shape, op.axes, math.ceil(run * each / HELD), least=FEW)
        if found is None or not 1 < found[1] < each:
            return False
        axis, parts = found
        what = f"{each} elements for each of {volume(op.result)} columns"
        context.remark(self.name, op.location, f"{what}: folded in two steps, {each // parts} at a time first")
        _in_two_steps(op, axis, parts)
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
    if any(isinstance(value.op, ops.Reduce) for value in above):
        return True
    below: set[Op] = set()
    pending = list(op.result.users)
    while pending:
        user = pending.pop()
        if user not in below:
            below.add(user)
            pending += [reader for result in user.results for reader in result.users]
    return any(user in below for value in above if volume(value) == size for user in value.users)


def cut_of(shape: Sequence[int], axes: Sequence[int], wanted: int, least: int = ROW) -> tuple[int, int] | None:
    """The axis to cut of those that are folded, and into how many parts; about `wanted`. One is kept whole if parts
    then fold `least` elements."""
    whole = math.prod(shape[axis] for axis in axes)
    for axis in axes:
        if wanted <= shape[axis] <= PART and whole // shape[axis] >= least:
            return axis, shape[axis]
    axis = max(axes, key=lambda axis: shape[axis])
    size = shape[axis]
    divisors = [d for d in range(2, math.isqrt(size) + 1) if size % d == 0]
    divisors += [size // d for d in divisors if d * d != size]
    if not divisors:
        return None
    return axis, min(divisors, key=lambda parts: abs(math.log(parts / wanted)))


def _in_two_steps(op: ops.Reduce, axis: int, parts: int) -> None:
    rewriter = Rewriter(op)
    cut = Cut(rewriter, axis, parts)
    source = cut.of(op.source)
    # the axis of parts stays, the one behind it is folded with all others
    folded = [a if a < axis else a + 1 for a in op.axes]
    first = rewriter.emit(ops.Reduce, source=source, axes=tuple(folded), fn=op.fn).result
    at = axis - sum(1 for a in op.axes if a < axis)
    result = rewriter.emit(ops.Reduce, source=first, axes=(at,), fn=op.fn).result
    if op.keepdims:
        result = rewriter.emit(ops.Reshape, source=result, shape=sizes_of(op.result)).result
    rewriter.replace(op, result)


class Cut:
    """Tensors of which one axis is two, of `parts` and of what each has."""

    def __init__(self, rewriter: Rewriter, axis: int, parts: int) -> None:
        self.rewriter = rewriter
        self.axis = axis
        self.parts = parts
        self.known: dict[Value, Value] = {}

    def of(self, value: Value) -> Value:
        """The tensor with the axis cut: what is computed for each element is computed so."""
        # what maps read is cut first, so that long chains of them are not followed by recursion
        for part in operands_first(value, lambda v: v not in self.known and isinstance(v.op, (ops.Map, ops.Cast))):
            if part not in self.known:
                self.known[part] = self._cut(part)
        return self.known[value]

    def shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        size = shape[self.axis]
        two = (1, 1) if size == 1 else (self.parts, size // self.parts)
        return (*shape[: self.axis], *two, *shape[self.axis + 1 :])

    def _cut(self, value: Value) -> Value:
        emit = self.rewriter.emit
        shape = sizes_of(value)
        match value.op:
            case _ if not shape:
                return value
            case ops.Map() as op:
                return emit(ops.Map, fn=op.fn, inputs=[self.of(v) for v in op.inputs]).result
            case ops.Cast() as op:
                return emit(ops.Cast, source=self.of(op.source), dtype=op.dtype).result
            case ops.Broadcast() as op:
                source = sizes_of(op.source)
                source = (*(1,) * (len(shape) - len(source)), *source)
                spread = emit(ops.Reshape, source=op.source, shape=self.shape(source)).result
                return emit(ops.Broadcast, source=spread, shape=self.shape(shape)).result
            case ops.Iota() as op if op.axis != self.axis:
                along = op.axis if op.axis < self.axis else op.axis + 1
                return emit(ops.Iota, shape=self.shape(shape), axis=along).result
            case _:
                return emit(ops.Reshape, source=value, shape=self.shape(shape)).result

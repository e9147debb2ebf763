"""Integers of 64 bits that are known to need no more than 32 are compared, folded, made floats, and divided for the
coordinates of lookups, in 32, and so is all that they are computed of: half the instructions, of a conversion or an
absolute value a fifth.

%w = cast(%x: u8) {dtype = i64}, %e = map([%w, iota(64)]) {fn = eq}      =>   the same of i32
%c = cast(%e) {dtype = i64}, %s = reduce(%c) {axes = [1], fn = add}      =>   cast(reduce(cast(%e, i32)), i64)
%d = map([%i, %j]) {fn = sub}, %a = map([%d]) {fn = abs}, le(%a, 128)    =>   the same of cast(%i, i32), cast(%j, i32)
gather(%x, (iota + 5) % 1203)                                            =>   the coordinates are i32
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Op, Value
from tiledsl.ir.dtypes import i32, i64
from tiledsl.ir.rewrite import Rewriter, Rules
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.index_spans import Span, index_span
from tiledsl.passes.graph.analysis.outline import is_arithmetic_of_coordinates, is_soft
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.manager import PassContext

OF_LOOKUPS = Rules()
RULES = Rules()
COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")
ORDERED = ("lt", "le", "gt", "ge")
FOLDED = ("add", "max", "min")
COMPUTED = ("add", "sub", "mul", "neg", "abs", "minimum", "maximum", "floordiv", "mod")
"""Functions of what they are made of in 32 bits as well, where that is known to fit."""
DEEPEST = 50
"""Functions of functions that are gone through."""
_MOST = 1 << 31


@dataclass(frozen=True)
class NarrowIntegers:
    """Of the entry, on GPUs, whose threads have registers of 32 bits; on CPUs only the coordinates of lookups, of which
    vectors divide twice as many."""

    name: ClassVar[str] = "narrow-integers"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        rules = RULES if self.arch.startswith("sm_") else OF_LOOKUPS
        if rules.apply(module.entry):
            tidy(module.entry)
        return module


@RULES.on(ops.Map)
def compared_in_32_bits(op: ops.Map, rewriter: Rewriter) -> bool:
    # eq(x: i64, y: i64) => eq(cast(x, i32), cast(y, i32)), where both are known to fit
    if op.fn not in COMPARED or any(tensor_type(value).dtype != i64 for value in op.inputs):
        return False
    if not all(_fits(index_span(value)) for value in op.inputs) or not any(map(sizes_of, op.inputs)):
        return False
    inputs = [_narrow(value, rewriter) for value in op.inputs]
    rewriter.replace(op, rewriter.emit(ops.Map, fn=op.fn, inputs=inputs).result)
    return True


@RULES.on(ops.Map)
@OF_LOOKUPS.on(ops.Map)
def decided_choice(op: ops.Map, rewriter: Rewriter) -> bool:
    # where(lt(x, 0), x + n, x) => x, where x is known not to be negative: what a lookup counts from the end
    if op.fn != "where":
        return False
    condition, *choices = op.inputs
    compared = _bare(condition)
    if not isinstance(compared, ops.Map) or compared.fn not in ORDERED:
        return False
    spans = [index_span(value) for value in compared.inputs]
    if any(span is None for span in spans):
        return False
    decided = {_ordered(compared.fn, a, b) for a in spans[0] or () for b in spans[1] or ()}
    if len(decided) > 1:
        return False
    chosen, shape = choices[0 if decided.pop() else 1], tensor_type(op.result).shape
    if tensor_type(chosen).shape != shape:
        return False
    rewriter.replace(op, chosen)
    return True


def _ordered(fn: str, a: int, b: int) -> bool:
    return {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[fn]


@RULES.on(ops.Reduce)
def folded_in_32_bits(op: ops.Reduce, rewriter: Rewriter) -> bool:
    # sum(x: i64) => cast(sum(cast(x, i32)), i64), where the sum is known to fit
    if op.fn not in FOLDED or tensor_type(op.source).dtype != i64 or tensor_type(op.result).dtype != i64:
        return False
    span, count = index_span(op.source), math.prod(sizes_of(op.source)[axis] for axis in op.axes)
    if span is not None and op.fn == "add":
        span = min(0, span[0] * count), max(0, span[1] * count)
    if not _fits(span):
        return False
    narrow = _narrow(op.source, rewriter)
    folded = rewriter.emit(ops.Reduce, source=narrow, axes=op.axes, fn=op.fn, keepdims=op.keepdims)
    rewriter.replace(op, rewriter.emit(ops.Cast, source=folded.result, dtype=i64).result)
    return True


@RULES.on(ops.Cast)
def converted_from_32_bits(op: ops.Cast, rewriter: Rewriter) -> bool:
    # cast(x: i64) to a float => cast(cast(x, i32)), where x is computed and known to fit: rounded once as well
    if not op.dtype.is_float or tensor_type(op.source).dtype != i64 or not sizes_of(op.source):
        return False
    if not isinstance(_bare(op.source), (ops.Map, ops.Iota)) or not _fits(index_span(op.source)):
        return False
    rewriter.replace(op, rewriter.emit(ops.Cast, source=_narrow(op.source, rewriter), dtype=op.dtype).result)
    return True


def _bare(value: Value) -> Op | None:
    """What computes the elements of a value."""
    op = value.op
    while op is not None and is_soft(op):
        op = op.operands[0].op
    return op


@RULES.on(ops.Gather)
@OF_LOOKUPS.on(ops.Gather)
def looked_up_in_32_bits(op: ops.Gather, rewriter: Rewriter) -> bool:
    # gather(x, (iota * a + b) // c: i64) => gather(x, the same of i32), where nothing on the way needs more
    if tensor_type(op.indices).dtype != i64 or not is_arithmetic_of_coordinates(op.indices.op):
        return False
    work, made = [op.indices], dict[Value, None]()
    while work:
        value = work.pop()
        if value not in made and value.op is not None:
            if tensor_type(value).dtype != i64 or not _fits(index_span(value)):
                return False
            made[value] = None
            work += value.op.operands
    if not any(_is_divided(value) or _is_bounded(value) for value in made):
        return False
    indices = _narrow(op.indices, rewriter)
    rewriter.replace(op, rewriter.emit(ops.Gather, source=op.source, indices=indices, axis=op.axis).result)
    return True


def _is_divided(value: Value) -> bool:
    """Whether a value is a quotient or a remainder by a number that is no power of two: a few multiplications."""
    if not isinstance(value.op, ops.Map) or value.op.fn not in ("floordiv", "mod"):
        return False
    span = index_span(value.op.inputs[1])
    return span is not None and span[0] == span[1] > 0 and bool(span[0] & (span[0] - 1))


def _is_bounded(value: Value) -> bool:
    """Whether coordinates are kept within bounds, so that no view has them."""
    return isinstance(value.op, ops.Map) and value.op.fn in ("minimum", "maximum")


def _fits(span: Span | None) -> bool:
    return span is not None and -_MOST <= span[0] <= span[1] < _MOST


def _narrow(value: Value, rewriter: Rewriter, known: dict[Value, Value] | None = None, deepest: int = DEEPEST) -> Value:
    """A tensor that fits in 32 bits, as one of these. `known`: what is narrow already."""
    known = {} if known is None else known
    if value not in known:
        known[value] = _narrowed(value, rewriter, known, deepest)
    return known[value]


def _narrowed(value: Value, rewriter: Rewriter, known: dict[Value, Value], deepest: int) -> Value:
    op = value.op
    if isinstance(op, ops.Map) and op.fn in COMPUTED and deepest and all(_fits(index_span(v)) for v in op.inputs):
        inputs = [_narrow(operand, rewriter, known, deepest - 1) for operand in op.inputs]
        return rewriter.emit(ops.Map, fn=op.fn, inputs=inputs).result
    if isinstance(op, ops.Constant) or (isinstance(op, ops.Size) and isinstance(op.value, int)):
        return rewriter.emit(ops.Constant, value=op.value, dtype=i32).result
    if isinstance(op, ops.Cast) and not tensor_type(op.source).dtype.is_float:
        if tensor_type(op.source).dtype == i32:
            return op.source
        return rewriter.emit(ops.Cast, source=op.source, dtype=i32).result
    if op is not None and is_soft(op):
        source = _narrow(op.operands[0], rewriter, known, deepest)
        return rewriter.emit(type(op), source=source, **op.attributes).result
    return rewriter.emit(ops.Cast, source=value, dtype=i32).result

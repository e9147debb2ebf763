"""Integers of 64 bits that are known to need no more than 32 are compared, and folded, in 32: half the instructions.

%w = cast(%x: u8) {dtype = i64}, %e = map([%w, iota(64)]) {fn = eq}      =>   the same of i32
%c = cast(%e) {dtype = i64}, %s = reduce(%c) {axes = [1], fn = add}      =>   cast(reduce(cast(%e, i32)), i64)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Value
from tiledsl.ir.dtypes import i32, i64
from tiledsl.ir.rewrite import Rewriter, Rules
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.index_spans import Span, index_span
from tiledsl.passes.graph.analysis.outline import is_soft
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.manager import PassContext

RULES = Rules()
COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")
FOLDED = ("add", "max", "min")
_MOST = 1 << 31


@dataclass(frozen=True)
class NarrowIntegers:
    """Of the entry, on GPUs, whose threads have registers of 32 bits."""

    name: ClassVar[str] = "narrow-integers"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        if self.arch.startswith("sm_") and RULES.apply(module.entry):
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


def _fits(span: Span | None) -> bool:
    return span is not None and -_MOST <= span[0] <= span[1] < _MOST


def _narrow(value: Value, rewriter: Rewriter) -> Value:
    """A tensor that fits in 32 bits, as one of these."""
    op = value.op
    if isinstance(op, ops.Constant):
        return rewriter.emit(ops.Constant, value=op.value, dtype=i32).result
    if isinstance(op, ops.Cast) and not tensor_type(op.source).dtype.is_float:
        if tensor_type(op.source).dtype == i32:
            return op.source
        return rewriter.emit(ops.Cast, source=op.source, dtype=i32).result
    if op is not None and is_soft(op):
        return rewriter.emit(type(op), source=_narrow(op.operands[0], rewriter), **op.attributes).result
    return rewriter.emit(ops.Cast, source=value, dtype=i32).result

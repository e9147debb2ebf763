"""Has narrow floats computed with in f32, and rounded only where they are stored.

    %s = map(mul, %x: f16, %c: f16)           %s = cast(map(mul, cast(%x, f32), cast(%c, f32)), f16)
    %y = map(exp, %s)                  =>     %y = cast(map(exp, map(mul, ...)), f16)

The first step changes nothing: one op on narrow floats rounds its exact result. The second one leaves out roundings
between ops, as a person would who writes both in one kernel; so results are nearer to the exact ones, not the same to
the last bit. A rounded value that others read too stays: what goes through memory is narrow. So does what a product
comes to, where folds read it, or it meets another product, and it may become a kernel apart from them:

    %p = cast(contract(%x, %w), f16)          stored in 2 bytes, not in 4; within one kernel `drop-roundings` takes
    %m = reduce(cast(%p, f32)) {fn = max}     the two casts out later
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Function, Module, Value
from tiledsl.ir.dtypes import DType, bool_, f32
from tiledsl.ir.rewrite import Rewriter, Rules
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.verifier import Form, is_tile_function
from tiledsl.passes.graph.analysis.outline import is_soft
from tiledsl.passes.graph.rewrites.canonicalise_graph import drop_unread, tidy
from tiledsl.passes.manager import PassContext

NEAR = 64
"""Values above a rounding, and below one, that are looked at."""

WIDEN = Rules()
ALONE = Rules()
KEPT = Rules()
ALWAYS = Rules()


@dataclass(frozen=True)
class WidenFloats:
    """Of the entry."""

    name: ClassVar[str] = "widen-floats"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH

    def run(self, module: Module, context: PassContext) -> Module:
        WIDEN.apply(module.entry)
        tidy(module.entry)
        ALONE.apply(module.entry)
        tidy(module.entry)
        return module


@dataclass(frozen=True)
class ReshapeNarrow:
    """Of the entry: what is rounded, widened and reshaped is reshaped in between. A view of it is read in memory."""

    name: ClassVar[str] = "reshape-narrow"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH

    def run(self, module: Module, context: PassContext) -> Module:
        KEPT.apply(module.entry)
        drop_unread(module.entry.body)  # what `repeat-maps` has made twice stays so
        return module


@dataclass(frozen=True)
class DropRoundings:
    """Within each group: a value that is rounded and widened again is used as it was."""

    name: ClassVar[str] = "drop-roundings"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH

    def run(self, module: Module, context: PassContext) -> Module:
        groups = {op.callee for op in module.entry.body.ops if isinstance(op, ops.Call)}
        for function in module.functions[1:]:
            if function.name in groups and not is_tile_function(function):
                _drop(function)
        return module


def _drop(function: Function) -> None:
    while ALWAYS.apply(function):
        tidy(function)


def is_narrow(dtype: DType) -> bool:
    """Whether a float has fewer than 32 bits."""
    return dtype.is_float and dtype.bits < 32


def _dtype(value: Value) -> DType:
    return tensor_type(value).dtype


def _wide(value: Value, rewriter: Rewriter) -> Value:
    if not is_narrow(_dtype(value)):
        return value
    if isinstance(value.op, ops.Constant):
        return rewriter.emit(ops.Constant, value=value.op.value, dtype=f32).result
    return rewriter.emit(ops.Cast, source=value, dtype=f32).result


@WIDEN.on(ops.Map)
def map_in_f32(op: ops.Map, rewriter: Rewriter) -> bool:
    # fn(a: f16, b: f16) => cast(fn(cast(a, f32), cast(b, f32)), f16)
    if not any(is_narrow(_dtype(value)) for value in op.inputs):
        return False
    result = rewriter.emit(ops.Map, fn=op.fn, inputs=[_wide(value, rewriter) for value in op.inputs]).result
    if _dtype(op.result) != bool_:
        result = rewriter.emit(ops.Cast, source=result, dtype=_dtype(op.result)).result
    rewriter.replace(op, result)
    return True


@WIDEN.on(ops.Reduce, ops.Scan)
def fold_in_f32(op: ops.Reduce | ops.Scan, rewriter: Rewriter) -> bool:
    # fold(a: f16) => cast(fold(cast(a, f32)), f16)
    if not is_narrow(_dtype(op.source)):
        return False
    fields: dict[str, Any] = op.attributes
    result = rewriter.emit(type(op), source=_wide(op.source, rewriter), **fields).result
    if _dtype(op.result) != _dtype(result):
        result = rewriter.emit(ops.Cast, source=result, dtype=_dtype(op.result)).result
    rewriter.replace(op, result)
    return True


def rounded(value: Value) -> Value | None:
    """What a narrow value was in f32, before it was rounded; None for other values."""
    op = value.op
    if not isinstance(op, ops.Cast) or _dtype(op.source) != f32 or not is_narrow(op.dtype):
        return None
    return op.source


@ALONE.on(ops.Cast)
def rounded_for_one(op: ops.Cast, rewriter: Rewriter) -> bool:
    # cast(cast(x: f32, f16), f32) => x, where nothing else reads the rounded value
    if op.dtype != f32 or len(op.source.users) != 1 or _is_apart(op):
        return False
    return rounded_and_widened(op, rewriter)


def _is_apart(op: ops.Cast) -> bool:
    """Whether what is widened is computed of a product element by element, and may be stored before it is read: it is
    folded, or meets another product. Not what feeds another product, which may be one kernel with the first."""
    return is_rounded_product(op.source) and (_ends_in_folds(op.result) or _meets_product(op.result))


def _meets_product(value: Value) -> bool:
    """Whether a value meets what is computed of another product element by element, before it is rounded again."""
    pending, seen = [value], {value}
    while pending and len(seen) < NEAR:
        made = pending.pop()
        for user in made.users:
            if not isinstance(user, (ops.Map, ops.Cast)) and not is_soft(user):
                continue
            if any(other not in seen and _is_of_product(other) for other in user.operands):
                return True
            new = [result for result in user.results if result not in seen and not is_narrow(_dtype(result))]
            seen.update(new)
            pending += new
    return False


def is_rounded_product(value: Value) -> bool:
    """Whether a narrow value was computed of a product in f32, element by element, and rounded."""
    before = rounded(value)
    return before is not None and _is_of_product(before)


def _is_of_product(value: Value) -> bool:
    """Whether a value is a product, or computed of one element by element."""
    pending, seen = [value], set[Value]()
    while pending and len(seen) < NEAR:
        op = pending.pop().op
        if isinstance(op, ops.Contract):
            return True
        if isinstance(op, (ops.Map, ops.Cast)) or (op is not None and is_soft(op)):
            new = [operand for operand in op.operands if operand not in seen]
            seen.update(new)
            pending += new
    return False


def _ends_in_folds(value: Value) -> bool:
    """Whether folds read a value, or what is computed of it before it is rounded again, and no product does."""
    pending, seen, as_it_is, folds = [value], set[Value](), {value}, False
    while pending and len(seen) < NEAR:
        made = pending.pop()
        for user in made.users:
            if isinstance(user, (ops.Contract, ops.Call)):
                return False
            folds = folds or (made in as_it_is and isinstance(user, (ops.Reduce, ops.Scan)))
            new = [result for result in user.results if result not in seen]
            as_it_is.update(result for result in new if made in as_it_is and not is_narrow(_dtype(result)))
            seen.update(new)
            pending += new
    return folds


@ALWAYS.on(ops.Cast)
def rounded_and_widened(op: ops.Cast, rewriter: Rewriter) -> bool:
    # cast(cast(x: f32, f16), f32) => x
    before = rounded(op.source) if op.dtype == f32 else None
    if before is None:
        return False
    rewriter.replace(op, before)
    return True


@ALONE.on(ops.Cast)
@ALWAYS.on(ops.Cast)
def widened_after_reindexing(op: ops.Cast, rewriter: Rewriter) -> bool:
    # cast(transpose(cast(x: f32, f16)), f32) => transpose(cast(cast(x, f16), f32)), and so for what is like it
    inner = op.source.op
    if op.dtype != f32 or inner is None or not is_soft(inner) or rounded(inner.operands[0]) is None:
        return False
    if len(op.source.users) != 1:
        return False
    wide = rewriter.emit(ops.Cast, source=inner.operands[0], dtype=f32).result
    rewriter.replace(op, rewriter.emit(type(inner), source=wide, **inner.attributes).result)
    return True


@KEPT.on(ops.Reshape)
def reshaped_while_narrow(op: ops.Reshape, rewriter: Rewriter) -> bool:
    # reshape(cast(cast(x: f32, f16), f32)) => cast(reshape(cast(x, f16)), f32): what is handed on is narrow
    wide = op.source.op
    if not isinstance(wide, ops.Cast) or len(op.source.users) != 1 or _dtype(op.source) != f32:
        return False
    if rounded(wide.source) is None:
        return False
    narrow = rewriter.emit(ops.Reshape, source=wide.source, **op.attributes).result
    rewriter.replace(op, rewriter.emit(ops.Cast, source=narrow, dtype=f32).result)
    return True

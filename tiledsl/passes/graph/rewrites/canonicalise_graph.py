"""Writes a graph in its simplest form: nothing twice, nothing that nobody reads, no reindexing that could be left out.

%t = transpose(%x) {[1, 0]}
%u = transpose(%t) {[1, 0]}            =>      graph.return([%x])
graph.return([%u])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Block, Function, Module, Op, Value
from tiledsl.ir.rewrite import Rewriter, Rules
from tiledsl.ir.tile_ops import tensor_type
from tiledsl.ir.verifier import Form, is_tile_function
from tiledsl.passes.manager import PassContext

RULES = Rules()


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
        called = {op.callee for f in module.functions for op in f.walk() if isinstance(op, ops.Call)}
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
        if op.effect == "terminator" or isinstance(op, (ops.Call, ops.Iota)):
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
    op = value.op
    if isinstance(op, ops.Broadcast) and not tensor_type(op.source).shape:
        return op.source
    return value

"""Writes formulas so that they stream: what is the same for a whole row comes after the sum over it.

    %p = div(%e, broadcast(%l))                          %o = contract(cast(%e), %v)
    %o = contract(cast(%p), %v)                   =>     mul(%o, broadcast(div(1, %l)))          softmax(s) @ v

    max(mul(%s, c)) where c > 0                   =>     mul(max(%s), c)
    where(%mask, mul(%s, c), -inf)                =>     mul(where(%mask, %s, -inf), c)
    exp(sub(mul(%s, c), mul(%m, c)))              =>     exp2(sub(mul(%s, c / ln 2), mul(%m, c / ln 2)))
    exp(sub(mul(%s, c), maximum(%m, %sink)))      =>     exp2(sub(mul(%s, c / ln 2), mul(maximum(%m, %sink), 1 / ln 2)))

So a product of probabilities depends on the maximum of its row alone, which `online_rules` knows to follow; and each
score costs one multiply-add and one exponential.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Op, Value
from tiledsl.ir.dtypes import f32, f64
from tiledsl.ir.fold_identities import MOST_SCALE
from tiledsl.ir.rewrite import Rewriter, Rules
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.types import Shape
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.online_rules import is_constant
from tiledsl.passes.graph.analysis.outline import is_soft
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.manager import PassContext

RULES = Rules()
LOG2_E = 1 / math.log(2)


@dataclass(frozen=True)
class DeriveOnline:
    """Of the entry."""

    name: ClassVar[str] = "derive-online"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH

    def run(self, module: Module, context: PassContext) -> Module:
        while RULES.apply(module.entry):
            tidy(module.entry)
        return module


def _map(rewriter: Rewriter, fn: str, *inputs: Value) -> Value:
    return rewriter.emit(ops.Map, fn=fn, inputs=inputs).result


def _scale(value: Value) -> tuple[Value, float] | None:
    """x and c where a value is x * c for a positive number c."""
    op = value.op
    if not isinstance(op, ops.Map) or op.fn != "mul":
        return None
    for x, number in (op.inputs, op.inputs[::-1]):
        if isinstance(number.op, ops.Constant) and 0 < number.op.value < math.inf:
            return x, float(number.op.value)
    return None


def _times(rewriter: Rewriter, value: Value, number: float) -> Value:
    dtype = tensor_type(value).dtype
    return _map(rewriter, "mul", value, rewriter.emit(ops.Constant, value=number, dtype=dtype).result)


@RULES.on(ops.Map)
def scaled_after_the_mask(op: ops.Map, rewriter: Rewriter) -> bool:
    # where(mask, x * c, -inf) => where(mask, x, -inf) * c, c > 0; the same where it is the other way round
    places = [place for place in (1, 2) if op.fn == "where" and is_constant(op.inputs[3 - place], -math.inf)]
    if len(places) != 1 or len(op.inputs[places[0]].users) != 1:
        return False
    scaled = _scale(op.inputs[places[0]])
    if scaled is None or not tensor_type(scaled[0]).shape:
        return False
    x, number = scaled
    chosen = [x if place == places[0] else v for place, v in enumerate(op.inputs)]
    rewriter.replace(op, _times(rewriter, _map(rewriter, "where", *chosen), number))
    return True


@RULES.on(ops.Reduce)
def scaled_after_the_maximum(op: ops.Reduce, rewriter: Rewriter) -> bool:
    # max(x * c) => max(x) * c, c > 0; c / ln 2 times what a maximum starts from has to be finite
    scaled = _scale(op.source) if op.fn in ("max", "min") else None
    if scaled is None or not tensor_type(op.source).dtype.is_float or scaled[1] * LOG2_E > MOST_SCALE:
        return False
    x, number = scaled
    fields: dict[str, Any] = {"axes": op.axes, "fn": op.fn, "keepdims": op.keepdims}
    rewriter.replace(op, _times(rewriter, rewriter.emit(ops.Reduce, source=x, **fields).result, number))
    return True


@RULES.on(ops.Map)
def exponential_of_base_two(op: ops.Map, rewriter: Rewriter) -> bool:
    # exp(x * c - m * c) => exp2(x * (c / ln 2) - m * (c / ln 2)), where m is a maximum of a row, or more than that
    difference = op.inputs[0].op
    if op.fn != "exp" or not isinstance(difference, ops.Map) or difference.fn != "sub":
        return False
    left, right = difference.inputs
    chain, base = _reindexed(right)
    if tensor_type(left).dtype not in (f32, f64) or not _is_maximum(base):
        return False
    ours, theirs = _scale(left), _scale(base)
    number = factor = LOG2_E
    if ours is not None and theirs is not None and ours[1] == theirs[1]:
        left, base, number = ours[0], theirs[0], ours[1] * LOG2_E
        factor = number
    elif ours is not None and _is_map(base, "maximum") and ours[1] * LOG2_E <= MOST_SCALE:
        left, factor = ours[0], ours[1] * LOG2_E  # a maximum of scaled rows and others
    right = _again(rewriter, chain, _times(rewriter, base, number))
    rewriter.replace(op, _map(rewriter, "exp2", _map(rewriter, "sub", _times(rewriter, left, factor), right)))
    return True


def _is_maximum(value: Value) -> bool:
    scaled = _scale(value)
    op = _reindexed(value if scaled is None else scaled[0])[1].op
    if isinstance(op, ops.Map) and _is_map(op.result, "maximum"):
        return any(_is_maximum(_reindexed(side)[1]) for side in op.inputs)
    return isinstance(op, ops.Reduce) and op.fn == "max"


def _is_map(value: Value, fn: str) -> bool:
    return isinstance(value.op, ops.Map) and value.op.fn == fn


def _reindexed(value: Value) -> tuple[list[Op], Value]:
    """The reindexing, from the inside out, that makes a value of another one, and that one."""
    chain: list[Op] = []
    while value.op is not None and is_soft(value.op):
        chain.insert(0, value.op)
        value = value.op.operands[0]
    return chain, value


def _again(rewriter: Rewriter, chain: list[Op], value: Value) -> Value:
    """The same reindexing of another value."""
    for op in chain:
        value = rewriter.emit(type(op), source=value, **op.attributes).result
    return value


@RULES.on(ops.Contract)
def divided_after_the_sum(op: ops.Contract, rewriter: Rewriter) -> bool:
    # contract(cast(exp(..) / broadcast(l)), v) => contract(cast(exp(..)), v) * broadcast(1 / l), l the same in each sum
    quotient = op.a.op
    cast = quotient if isinstance(quotient, ops.Cast) else None
    quotient = cast.source.op if cast is not None else quotient
    if not isinstance(quotient, ops.Map) or quotient.fn != "div":
        return False
    e, divisor = quotient.inputs
    if not isinstance(divisor.op, ops.Broadcast) or not isinstance(e.op, ops.Map) or e.op.fn not in ("exp", "exp2"):
        return False
    row = divisor.op.source
    if not _is_along_result(op, row):
        return False
    one = rewriter.emit(ops.Constant, value=1.0, dtype=tensor_type(row).dtype).result
    spread = _along_result(op, _map(rewriter, "div", one, row), rewriter)
    a = e if cast is None else rewriter.emit(ops.Cast, source=e, dtype=cast.dtype).result
    fields: dict[str, Any] = {"axes": op.axes, "dtype": op.dtype, "precision": op.precision}
    product = rewriter.emit(ops.Contract, a=a, b=op.b, **fields).result
    rewriter.replace(op, _map(rewriter, "mul", product, spread))
    return True


def _is_along_result(op: ops.Contract, row: Value) -> bool:
    """Whether `row`, which is broadcast to the first operand, is the same along all that is summed."""
    a_names, _, names = op.axis_names()
    shape = tensor_type(row).shape
    if len(shape) != len(a_names) or tensor_type(row).dtype.bits > op.dtype.bits:
        return False
    return all(name in names or size == 1 for name, size in zip(a_names, shape))


def _along_result(op: ops.Contract, row: Value, rewriter: Rewriter) -> Value:
    """`row` as a tensor of the result's shape."""
    a_names, _, names = op.axis_names()
    shape, wanted = tensor_type(row).shape, tensor_type(op.result).shape
    kept = sorted((i for i, name in enumerate(a_names) if name in names), key=lambda i: names.index(a_names[i]))
    order = (*kept, *(i for i in range(len(a_names)) if i not in kept))
    transposed = rewriter.emit(ops.Transpose, source=row, permutation=order).result
    places: Shape = tuple(shape[a_names.index(name)] if name in a_names else 1 for name in names)
    placed = rewriter.emit(ops.Reshape, source=transposed, shape=places).result
    spread = rewriter.emit(ops.Broadcast, source=placed, shape=wanted).result
    return (
        spread if tensor_type(row).dtype == op.dtype else rewriter.emit(ops.Cast, source=spread, dtype=op.dtype).result
    )

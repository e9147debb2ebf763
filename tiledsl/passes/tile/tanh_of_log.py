"""tanh(softplus(x)), as in mish, by one exponential: tanh(log(1 + e)) is n / (n + 2), with n = e * (e + 2).

    %low = tile.map([%x, %most]) {fn = minimum}
    %e   = tile.map([%low]) {fn = exp}
    %sum = tile.map([%e, %one]) {fn = add}                      %more = tile.map([%e, %two]) {fn = add}
    %log = tile.map([%sum]) {fn = log}                    =>    %n    = tile.map([%e, %more]) {fn = mul}
    %far = tile.map([%x, %most]) {fn = gt}                      %all  = tile.map([%n, %two]) {fn = add}
    %s   = tile.map([%far, %x, %log]) {fn = where}              %y    = tile.map([%n, %all]) {fn = div}
    %y   = tile.map([%s]) {fn = tanh}

The quotient is within 4 units in the last place of f32, also where e is small and its sum with 1 has hardly a digit of
it. Up to `MOST` its square is finite. From `LEAST` on 2 is nothing beside n, and the quotient is 1, as tanh is there:
so nothing has to be selected.
"""

from __future__ import annotations

from typing import NamedTuple

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import f32
from tiledsl.ir.rewrite import Rewriter, Rules
from tiledsl.passes.analysis.splats import number_of

TANH_RULES = Rules()
"""For `tile.map`."""
LEAST, MOST = 10.0, 40.0
"""What x may be bounded by."""


class _Exponential(NamedTuple):
    """exp(minimum(x, most))."""

    value: Value
    x: Value
    most: float


@TANH_RULES.on(ops.Map)
def tanh_of_log(op: ops.Map, rewriter: Rewriter) -> bool:
    # tanh(log(1 + e)) => n / (n + 2), n = e * (e + 2)
    if op.fn != "tanh" or op.result.dtype != f32:
        return False
    found = _softplus(op.inputs[0])
    if found is None:
        return False
    e = found.value
    two = rewriter.broadcast(rewriter.constant(2.0, f32), e.shape)
    n = rewriter.map("mul", e, rewriter.map("add", e, two))
    rewriter.replace(op, rewriter.map("div", n, rewriter.map("add", n, two)))
    return True


def _softplus(value: Value) -> _Exponential | None:
    """The exponential e of log(1 + e), or of that with x itself in its place where x is large."""
    op = value.op
    if not isinstance(op, ops.Map) or op.fn != "where":
        return _logarithm(value)
    is_far, x, near = op.inputs
    found, far = _logarithm(near), is_far.op
    if found is None or found.x is not x or not isinstance(far, ops.Map):
        return None
    left, right = far.inputs if far.fn == "gt" else far.inputs[::-1]
    same = far.fn in ("gt", "lt") and left is x and number_of(right) == found.most
    return found if same and found.most >= LEAST else None


def _logarithm(value: Value) -> _Exponential | None:
    log = value.op
    total = log.inputs[0].op if isinstance(log, ops.Map) and log.fn == "log" else None
    if not isinstance(total, ops.Map) or total.fn != "add":
        return None
    left, right = total.inputs
    e = left if number_of(right) == 1 else right if number_of(left) == 1 else None
    exponential = e.op if e is not None else None
    if e is None or not isinstance(exponential, ops.Map) or exponential.fn != "exp":
        return None
    least = exponential.inputs[0].op
    if not isinstance(least, ops.Map) or least.fn != "minimum":
        return None
    for x, bound in (least.inputs, least.inputs[::-1]):
        most = number_of(bound)
        if most is not None and most <= MOST:
            return _Exponential(e, x, float(most))
    return None

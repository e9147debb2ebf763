"""Sums 1 + tanh(x) and 1 + erf(x), as in gelu, where they may be coarse: one function, and no sum.

As a sum they are next to nothing where x is far below 0, with the error of 1. As 2 / (1 + exp(-y)) they have a small
relative error everywhere: y is 2 * x for tanh; for erf it is x times a polynomial in x * x, fitted to
log(erfc(-x) / erfc(x)) with the weights that results of gelu have in f16: a relative error of 2**-14 where these are
normal numbers, and less than a quarter of a unit in the last place of those that are not.

And log(1 + y), as in softplus: where y is small, the sum has hardly a digit of it. A few terms of the series, or `lg2`
of the sum, have a relative error of 2**-17.
"""

from __future__ import annotations

from tiledsl.backend_cuda.functions.preamble import define
from tiledsl.ir.core import Op, Value
from tiledsl.ir.tile_ops import Broadcast, Constant, Map

FUNCTIONS = {"tanh": "one_plus_tanh", "erf": "one_plus_erf"}
ERRORS = {"tanh": 1, "erf": 8}
"""Largest relative errors in units of 2**-17 (`coarse_values.UNIT`)."""

_OF_ERF = (
    -3.2555606, -0.29739264, 0.0013807822, 0.00145855, -0.00019169475, 1.1239217e-05, -2.5919863e-07,
)  # fmt: skip
"""From the constant on; a factor of log2(e) is in it, and the sign of exp(-y)."""
_FITTED = 19.0
"""Up to this square of x; beyond it y goes on as a straight line."""


def one_plus(op: Op) -> Map | None:
    """The tanh or erf to which an op adds 1; None for other ops."""
    if not isinstance(op, Map) or op.fn != "add":
        return None
    for value, other in (op.inputs, op.inputs[::-1]):
        function = value.op
        if isinstance(function, Map) and function.fn in FUNCTIONS and _is_one(other):
            return function
    return None


def log_of_one_plus(op: Op) -> Value | None:
    """What 1 is added to in the operand of a logarithm; None for other ops, and for sums that have a function."""
    if not isinstance(op, Map) or op.fn != "log":
        return None
    added = op.inputs[0].op
    if not isinstance(added, Map) or added.fn != "add" or one_plus(added) is not None:
        return None
    left, right = added.inputs
    return left if _is_one(right) else right if _is_one(left) else None


def _is_one(value: Value) -> bool:
    op = value.op
    if isinstance(op, Broadcast):
        op = op.source.op
    return isinstance(op, Constant) and op.value == 1


define(
    "one_plus_tanh",
    "1 + tanh(x), for results of 16 bits",
    """float one_plus_tanh(float x) {
    return 2.0f * reciprocal_approx(1.0f + exp2_approx(x * -2.8853901f));
}""",
)


define(
    "log_one_plus",
    "log(1 + y), for results of 16 bits",
    """float log_one_plus(float y) {
    float few = y * fmaf(fmaf(fmaf(y, -0.25f, 0.33333333f), y, -0.5f), y, 1.0f);
    return fabsf(y) < 0.0625f ? few : log2_approx(1.0f + y) * 0.69314718f;
}""",
)


def _polynomial() -> str:
    text = f"{_OF_ERF[-1]!r}f"
    for coefficient in reversed(_OF_ERF[:-1]):
        text = f"fmaf({text}, z, {coefficient!r}f)"
    return text


define(
    "one_plus_erf",
    "1 + erf(x), for results of 16 bits",
    f"""float one_plus_erf(float x) {{
    float z = fminf(x * x, {_FITTED}f);
    return 2.0f * reciprocal_approx(1.0f + exp2_approx(x * {_polynomial()}));
}}""",
)

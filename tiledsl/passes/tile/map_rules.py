"""Algebra of elementwise functions. All of it is exact: for floats that means NaN, infinities, zeros with a sign, and
the rounding of every op. So x * 0 stays, and so does x + 0 (which makes -0 into 0).
"""

from __future__ import annotations

import math

from tiledsl.ir.core import Number, Value
from tiledsl.ir.dtypes import DType, bool_, f8e4m3, i64
from tiledsl.ir.rewrite import Rewriter, Rules
from tiledsl.ir.symbolic import Dim, maximum, minimum
from tiledsl.ir.tile_ops import Broadcast, Cast, Constant, Map, Transpose
from tiledsl.passes.analysis.scalars.fold_constants import fold, fold_cast
from tiledsl.passes.analysis.sizes import SIZES, is_scalar, size_of
from tiledsl.passes.analysis.splats import number_of, splat_of

MAP_RULES = Rules()
"""For `tile.map` and `tile.cast`."""

COMMUTATIVE = frozenset({"add", "mul", "minimum", "maximum", "eq", "ne", "and", "or", "xor"})


def _inner(value: Value, fn: str) -> Map | None:
    """The op that made `value`, if it is that function."""
    return value.op if isinstance(value.op, Map) and value.op.fn == fn else None


def _is_number(value: Value, number: Number) -> bool:
    """Whether `value` is that constant; 0.0 and -0.0 are told apart."""
    found = number_of(value)
    return found is not None and found == number and math.copysign(1, found) == math.copysign(1, number)


def _become(op: Map, rewriter: Rewriter, value: Value) -> bool:
    """Replaces the op by a value of its dtype, made a tile if it is a scalar."""
    rewriter.replace(op, rewriter.broadcast(value, op.result.shape))
    return True


def _become_constant(op: Map, rewriter: Rewriter, number: Number) -> bool:
    return _become(op, rewriter, rewriter.constant(number, op.result.dtype))


# Constants and sizes


@MAP_RULES.on(Map)
def constants(op: Map, rewriter: Rewriter) -> bool:
    # f(1, 2) => 3
    operands = [(v.op.value, v.dtype) for v in op.inputs if isinstance(v.op, Constant)]
    number = fold(op.fn, operands) if len(operands) == len(op.inputs) else None
    return number is not None and _become_constant(op, rewriter, number)


@MAP_RULES.on(Map)
def sizes(op: Map, rewriter: Rewriter) -> bool:
    # size(M) * 2 => size(2 * M)
    dims = [size_of(v) for v in op.inputs]
    if len(dims) != 2 or op.inputs[0].dtype != i64 or not all(map(is_scalar, op.inputs)):
        return False
    left, right = dims
    if left is None or right is None:
        return False
    if op.result.dtype == bool_:
        answer = _compare_sizes(op.fn, left, right)
        return answer is not None and _become_constant(op, rewriter, answer)
    size = _combine_sizes(op.fn, left, right)
    return size is not None and _become(op, rewriter, rewriter.size(size))


def _combine_sizes(fn: str, left: Dim, right: Dim) -> Dim | None:
    match fn:
        case "add":
            return left + right
        case "sub":
            return left - right
        case "mul":
            return left * right
        case "minimum":
            return minimum(left, right)
        case "maximum":
            return maximum(left, right)
        case "floordiv" | "mod" if (
            SIZES.bounds(right)[0] or 0
        ) > 0:  # M // M is 1 for sizes, but 0 at run time if M is 0
            return left // right if fn == "floordiv" else left % right
        case _:
            return None


def _compare_sizes(fn: str, left: Dim, right: Dim) -> bool | None:
    """Whether the comparison holds for all sizes, or for none."""
    if fn in ("gt", "ge"):
        return _compare_sizes("lt" if fn == "gt" else "le", right, left)
    if fn == "le":
        opposite = _compare_sizes("lt", right, left)
        return None if opposite is None else not opposite
    if fn == "lt":
        return True if SIZES.less_equal(left + 1, right) else False if SIZES.less_equal(right, left) else None
    if fn in ("eq", "ne") and SIZES.equal(left, right):
        return fn == "eq"
    return None


@MAP_RULES.on(Map)
def constant_on_the_right(op: Map, rewriter: Rewriter) -> bool:
    # 2 + x => x + 2
    if op.fn not in COMMUTATIVE or number_of(op.inputs[0]) is None or number_of(op.inputs[1]) is not None:
        return False
    if op.fn in ("minimum", "maximum") and op.result.dtype.is_float and number_of(op.inputs[0]) == 0:
        return False  # which of 0 and -0 comes out may depend on the order
    op.set_field("inputs", op.inputs[::-1])
    return True


@MAP_RULES.on(Map)
def constants_together(op: Map, rewriter: Rewriter) -> bool:
    # (x + 1) + 2 => x + 3, for integers
    inner = _inner(op.inputs[0], op.fn)
    if op.fn not in ("add", "mul") or inner is None or not op.result.dtype.is_integer:
        return False
    first, second = number_of(inner.inputs[1]), number_of(op.inputs[1])
    if first is None or second is None:
        return False
    dtype = op.result.dtype
    number = fold(op.fn, [(first, dtype), (second, dtype)])
    if number is None:
        return False
    return _become(op, rewriter, rewriter.map(op.fn, inner.inputs[0], _like(op.inputs[1], rewriter, number)))


def _like(value: Value, rewriter: Rewriter, number: Number) -> Value:
    """A constant of the dtype and shape of `value`."""
    return rewriter.broadcast(rewriter.constant(number, value.dtype), value.shape)


# Identities


@MAP_RULES.on(Map)
def neutral_constant(op: Map, rewriter: Rewriter) -> bool:
    # x * 1 => x
    if len(op.inputs) != 2 or number_of(op.inputs[1]) is None:
        return False
    neutral = any(_is_number(op.inputs[1], number) for number in _neutral(op.fn, op.inputs[0].dtype))
    return neutral and _become(op, rewriter, op.inputs[0])


def _neutral(fn: str, dtype: DType) -> tuple[Number, ...]:
    """The c for which `f(x, c)` is `x` for every x."""
    smallest, largest = _limits(dtype)
    match fn:
        case "add":
            return (-0.0,) if dtype.is_float else (0,)
        case "sub" | "shl" | "shr":
            return (0,)
        case "mul" | "div" | "pow":
            return (1,)
        case "floordiv":
            return () if dtype.is_float else (1,)
        case "minimum" | "maximum" if dtype == f8e4m3:
            return ()  # it has no infinity
        case "minimum":
            return (largest,)
        case "maximum":
            return (smallest,)
        case "or" | "xor":
            return (0,)
        case "and":
            return (1,) if dtype == bool_ else (-1,) if dtype.is_signed else (largest,)
        case _:
            return ()


def _limits(dtype: DType) -> tuple[Number, Number]:
    """The smallest and the largest value; infinities of floats."""
    match dtype.kind:
        case "float":
            return (-math.inf, math.inf)
        case "int":
            return (-(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1)
        case "uint":
            return (0, (1 << dtype.bits) - 1)
        case "bool":
            return (False, True)


@MAP_RULES.on(Map)
def absorbing_constant(op: Map, rewriter: Rewriter) -> bool:
    # x * 0 => 0, for integers and bool
    if len(op.inputs) != 2 or op.inputs[0].dtype.is_float:
        return False
    if op.fn == "mod" and _is_number(op.inputs[1], 1):
        return _become_constant(op, rewriter, 0)
    number = _absorbing(op.fn, op.inputs[0].dtype)
    return number is not None and _is_number(op.inputs[1], number) and _become_constant(op, rewriter, number)


def _absorbing(fn: str, dtype: DType) -> Number | None:
    """The c for which `f(x, c)` is `c` for every x."""
    smallest, largest = _limits(dtype)
    match fn:
        case "mul" | "and":
            return 0
        case "or":
            return -1 if dtype.kind == "int" else largest
        case "minimum":
            return smallest
        case "maximum":
            return largest
        case _:
            return None


@MAP_RULES.on(Map)
def equal_operands(op: Map, rewriter: Rewriter) -> bool:
    # max(x, x) => x; x - x => 0 and x == x => true, but for floats: x may be NaN
    if len(op.inputs) != 2 or op.inputs[0] is not op.inputs[1]:
        return False
    if op.fn in ("minimum", "maximum", "and", "or"):
        return _become(op, rewriter, op.inputs[0])
    if op.inputs[0].dtype.is_float:
        return False
    if op.fn in ("sub", "xor", "mod"):
        return _become_constant(op, rewriter, 0)
    return op.result.dtype == bool_ and _become_constant(op, rewriter, op.fn in ("eq", "le", "ge"))


@MAP_RULES.on(Map)
def repeated_extremum(op: Map, rewriter: Rewriter) -> bool:
    # max(max(x, y), y) => max(x, y), but for floats: which of 0 and -0 comes out may depend on the order
    inner = _inner(op.inputs[0], op.fn)
    if op.fn not in ("minimum", "maximum", "and", "or") or inner is None or op.inputs[1] not in inner.inputs:
        return False
    if op.result.dtype.is_float:
        return False
    return _become(op, rewriter, inner.result)


@MAP_RULES.on(Map)
def involution(op: Map, rewriter: Rewriter) -> bool:
    # -(-x) => x, not(not(x)) => x
    inner = _inner(op.inputs[0], op.fn)
    return op.fn in ("neg", "not") and inner is not None and _become(op, rewriter, inner.inputs[0])


@MAP_RULES.on(Map)
def absolute_value(op: Map, rewriter: Rewriter) -> bool:
    # abs(-x) => abs(x), abs(abs(x)) => abs(x)
    inner = _inner(op.inputs[0], "abs")
    if op.result.dtype.is_signed:  # unsigned, -1 is the largest number
        inner = inner or _inner(op.inputs[0], "neg")
    return op.fn == "abs" and inner is not None and _become(op, rewriter, rewriter.map("abs", inner.inputs[0]))


@MAP_RULES.on(Map)
def sum_with_a_negative(op: Map, rewriter: Rewriter) -> bool:
    # x + (-y) => x - y, x - (-y) => x + y
    if op.fn not in ("add", "sub"):
        return False
    left, right = op.inputs
    negative = _inner(right, "neg")
    if negative is None and op.fn == "add":  # (-y) + x => x - y
        left, right = right, left
        negative = _inner(right, "neg")
    if negative is None:
        return False
    rewriter.replace(op, rewriter.map("sub" if op.fn == "add" else "add", left, negative.inputs[0]))
    return True


@MAP_RULES.on(Map)
def division_by_a_power_of_two(op: Map, rewriter: Rewriter) -> bool:
    # x / 4 => x * 0.25, which is the same number and cheaper
    divisor = number_of(op.inputs[1]) if op.fn == "div" else None
    if divisor is None or not math.isfinite(divisor):
        return False
    mantissa, exponent = math.frexp(divisor)
    most = 14 if op.result.dtype.bits <= 16 else 100
    if abs(mantissa) != 0.5 or abs(exponent) > most or op.result.dtype.bits < 16:
        return False
    rewriter.replace(op, rewriter.map("mul", op.inputs[0], _like(op.inputs[1], rewriter, 1 / divisor)))
    return True


@MAP_RULES.on(Map)
def square(op: Map, rewriter: Rewriter) -> bool:
    # x ** 2 => x * x
    if op.fn != "pow" or not _is_number(op.inputs[1], 2):
        return False
    return _become(op, rewriter, rewriter.map("mul", op.inputs[0], op.inputs[0]))


_OPPOSITES = {"eq": "ne", "ne": "eq"}
_OPPOSITES_IN_ORDER = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


@MAP_RULES.on(Map)
def negated_comparison(op: Map, rewriter: Rewriter) -> bool:
    # not(x == y) => x != y; not(x < y) => x >= y but for floats: with NaN both are false
    inner = op.inputs[0].op
    if op.fn != "not" or not isinstance(inner, Map) or op.result.dtype != bool_:
        return False
    opposites = _OPPOSITES if inner.inputs[0].dtype.is_float else _OPPOSITES | _OPPOSITES_IN_ORDER
    if inner.fn not in opposites:
        return False
    rewriter.replace(op, rewriter.map(opposites[inner.fn], *inner.inputs))
    return True


@MAP_RULES.on(Map)
def choice(op: Map, rewriter: Rewriter) -> bool:
    # where(true, x, y) => x, where(c, x, x) => x, where(not c, x, y) => where(c, y, x)
    if op.fn != "where":
        return False
    condition, yes, no = op.inputs
    known = number_of(condition)
    if known is not None or yes is no:
        return _become(op, rewriter, yes if known is None or known else no)
    negated = _inner(condition, "not")
    if negated is None:
        return False
    chosen = rewriter.map("where", negated.inputs[0], no, yes)
    return _become(op, rewriter, chosen)


@MAP_RULES.on(Map)
def number_chosen_last(op: Map, rewriter: Rewriter) -> bool:
    # where(x > y, 5, z) => where(x <= y, z, 5) of integers, (a | b) likewise: masks say where what is computed is seen
    if op.fn != "where" or number_of(op.inputs[1]) is None or number_of(op.inputs[2]) is not None:
        return False
    condition, number, computed = op.inputs
    if not _is_ordered(condition):
        return False
    return _become(op, rewriter, rewriter.map("where", _opposite(condition, rewriter), computed, number))


def _is_ordered(condition: Value) -> bool:
    """Whether a condition is a comparison of integers by their order, or that one of several such holds."""
    op = condition.op
    if not isinstance(op, Map) or not condition.shape:
        return False
    if op.fn == "or":
        return all(map(_is_ordered, op.inputs))
    return op.fn in _OPPOSITES_IN_ORDER and all(value.dtype.is_integer for value in op.inputs)


def _opposite(condition: Value, rewriter: Rewriter) -> Value:
    op = condition.op
    assert isinstance(op, Map)
    if op.fn == "or":
        return rewriter.map("and", *(_opposite(value, rewriter) for value in op.inputs))
    return rewriter.map(_OPPOSITES_IN_ORDER[op.fn], *op.inputs)


# Where the work is done


@MAP_RULES.on(Map)
def scalars_stay_scalars(op: Map, rewriter: Rewriter) -> bool:
    # x + broadcast(s) => x + s: a scalar goes with any shape
    splats = [None if is_scalar(v) else splat_of(v) for v in op.inputs]
    if not any(splats):
        return False
    inputs = [v if scalar is None else scalar for v, scalar in zip(op.inputs, splats)]
    if all(map(is_scalar, inputs)):  # exp(broadcast(s)) => broadcast(exp(s))
        return _become(op, rewriter, rewriter.map(op.fn, *inputs))
    op.set_field("inputs", tuple(inputs))
    return True


@MAP_RULES.on(Map)
def before_the_broadcast(op: Map, rewriter: Rewriter) -> bool:
    # exp(broadcast(x)) => broadcast(exp(x))
    tiles = [v for v in op.inputs if not is_scalar(v)]
    sources = [v.op.source if isinstance(v.op, Broadcast) else None for v in tiles]
    shapes = {None if source is None else source.shape for source in sources}
    if not tiles or len(shapes) != 1 or None in shapes:
        return False
    inputs = [v.op.source if isinstance(v.op, Broadcast) and not is_scalar(v) else v for v in op.inputs]
    return _become(op, rewriter, rewriter.map(op.fn, *inputs))


# Casts


@MAP_RULES.on(Cast)
def cast_to_itself(op: Cast, rewriter: Rewriter) -> bool:
    # cast(x: t, t) => x
    if op.source.dtype != op.dtype:
        return False
    rewriter.replace(op, op.source)
    return True


@MAP_RULES.on(Cast)
def cast_of_constant(op: Cast, rewriter: Rewriter) -> bool:
    # cast(1, f32) => 1.0
    source = op.source.op
    number = fold_cast(source.value, source.dtype, op.dtype) if isinstance(source, Constant) else None
    if number is None:
        return False
    rewriter.replace(op, rewriter.constant(number, op.dtype))
    return True


@MAP_RULES.on(Cast)
def cast_of_cast(op: Cast, rewriter: Rewriter) -> bool:
    # cast(cast(x: f16, f32), f64) => cast(x, f64), where the first is exact
    # cast(transpose(cast(x: i8, f16)), f32) => transpose(cast(x, f32))
    turned = op.source.op
    inner = turned.source.op if isinstance(turned, Transpose) else turned
    if not isinstance(inner, Cast) or not is_exact(inner.source.dtype, inner.dtype):
        return False
    made = rewriter.cast(inner.source, op.dtype)
    if isinstance(turned, Transpose):
        made = rewriter.emit(Transpose, source=made, permutation=turned.permutation).result
    rewriter.replace(op, made)
    return True


@MAP_RULES.on(Cast)
def cast_before_the_broadcast(op: Cast, rewriter: Rewriter) -> bool:
    # cast(broadcast(x), t) => broadcast(cast(x, t))
    source = op.source.op
    if not isinstance(source, Broadcast):
        return False
    rewriter.replace(op, rewriter.broadcast(rewriter.cast(source.source, op.dtype), op.result.shape))
    return True


_PRECISION = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8, "f8e4m3": 4, "f8e5m2": 3}
"""Bits of the significand: integers of so many bits are held exactly."""
_WIDER_FLOATS = {
    "f8e4m3": ("f16", "bf16", "f32", "f64"),
    "f8e5m2": ("f16", "bf16", "f32", "f64"),
    "f16": ("f32", "f64"),
    "bf16": ("f32", "f64"),
    "f32": ("f64",),
    "f64": (),
}


def is_exact(source: DType, target: DType) -> bool:
    """Whether every value of `source` has the same value as a `target`."""
    if source in (target, bool_):
        return True
    if source.is_float:
        return target.name in _WIDER_FLOATS[source.name]
    digits = source.bits - 1 if source.is_signed else source.bits
    if target.is_float:
        # f16 ends at 65504, which no integer of 11 bits reaches
        return digits <= _PRECISION[target.name]
    if target == bool_ or (source.is_signed and not target.is_signed):
        return False
    return digits <= (target.bits - 1 if target.is_signed else target.bits)

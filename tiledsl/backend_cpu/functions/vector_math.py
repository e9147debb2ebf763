"""The scalar functions of the IR as LLVM instructions on vectors: one table, and `emit_map`, which applies it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from tiledsl.backend_cpu.functions import exponentials, integer_math, trigonometry
from tiledsl.backend_cpu.functions.convert import convert
from tiledsl.backend_cpu.functions.lane_calls import call_library
from tiledsl.backend_cpu.functions.lanes import Lanes
from tiledsl.backend_cpu.llvm.writer import FunctionWriter, VectorType
from tiledsl.ir.dtypes import bf16, bool_, f32, is_narrow_float
from tiledsl.ir.scalar_functions import SCALAR_FUNCTIONS

Emitter: TypeAlias = Callable[..., str]
"""Takes `Lanes` of f64, f32, an integer or bool, and an operand text per operand."""


def emit_map(writer: FunctionWriter, fn: str, type_: VectorType, operands: list[str]) -> str:
    """Applies the function of row `fn` of SCALAR_FUNCTIONS to operands of `type_` (after the condition, for `where`).

    Narrow floats are computed in f32 and rounded once. Comparisons give i1. The functions `sin`, `cos` and the
    `pow` of integers begin new basic blocks.
    """
    if (fn, is_narrow_float(type_.dtype)) in writer.module.called:
        return _call_map(writer, fn, type_, operands)
    return _write_map(writer, fn, type_, operands)


def _call_map(writer: FunctionWriter, fn: str, type_: VectorType, operands: list[str]) -> str:
    """By a function of the module, written at its first use."""
    module, name = writer.module, f"map_{fn}_{type_.dtype}_{type_.lanes}"
    result = type_.of(SCALAR_FUNCTIONS[fn].result(type_.dtype))
    if name not in module.names:
        module.names.add(name)
        parameters = [f"%a{number}" for number in range(len(operands))]
        signature = f"internal {result} @{name}({', '.join(f'{type_} {p}' for p in parameters)})"
        body = FunctionWriter(module, signature, "noinline nounwind")
        body.line(f"ret {result} {_write_map(body, fn, type_, parameters)}")
        body.finish()
    return writer.emit(f"call {result} @{name}({', '.join(f'{type_} {v}' for v in operands)})")


def _write_map(writer: FunctionWriter, fn: str, type_: VectorType, operands: list[str]) -> str:
    lanes = Lanes(writer, type_)
    if fn == "where":
        return lanes.select(*operands)
    if not is_narrow_float(type_.dtype):
        return EMITTERS[fn](lanes, *operands)
    if fn in ("neg", "abs"):
        return _change_sign_bit(lanes, fn, *operands)
    single = lanes.of(f32)
    result = EMITTERS[fn](single, *(convert(writer, value, type_, single.type) for value in operands))
    return result if SCALAR_FUNCTIONS[fn].gives_bool else convert(writer, result, single.type, type_)


def _change_sign_bit(lanes: Lanes, fn: str, value: str) -> str:
    """The negative or the magnitude of a narrow float, which needs no arithmetic."""
    word, sign = lanes.integers, 1 << lanes.type.dtype.bits - 1
    bits = lanes.bits(value)
    if fn == "neg":
        return lanes.from_bits(word.binary("xor", bits, word.constant(sign)))
    return lanes.from_bits(word.binary("and", bits, word.constant(sign - 1)))


def _float_divmod(lanes: Lanes, a: str, b: str) -> tuple[str, str]:
    """The quotient, nearly an integer, and the remainder with the sign of b; exact where fmod is."""
    zero = lanes.constant(0.0)
    rest = call_library(lanes, "fmod", a, b)
    quotient = lanes.div(lanes.sub(a, rest), b)
    signs = (lanes.compare("olt", b, zero), lanes.compare("olt", rest, zero))
    opposite = lanes.of(bool_).binary("xor", *signs)
    wrong = lanes.both(opposite, lanes.compare("une", rest, zero))
    quotient = lanes.select(wrong, lanes.sub(quotient, lanes.constant(1.0)), quotient)
    signed_zero = lanes.intrinsic("copysign", zero, b)
    moved = lanes.select(wrong, lanes.add(rest, b), rest)
    return quotient, lanes.select(lanes.compare("oeq", rest, zero), signed_zero, moved)


def _floordiv(lanes: Lanes, a: str, b: str) -> str:
    if not lanes.type.dtype.is_float:
        return integer_math.floordiv(lanes, a, b)
    zero = lanes.constant(0.0)
    quotient, _ = _float_divmod(lanes, a, b)
    # `quotient` is an integer but for rounding: take the nearest one
    below = lanes.intrinsic("floor", quotient)
    up = lanes.compare("ogt", lanes.sub(quotient, below), lanes.constant(0.5))
    nearest = lanes.select(up, lanes.add(below, lanes.constant(1.0)), below)
    plain = lanes.div(a, b)
    signed_zero = lanes.intrinsic("copysign", zero, plain)
    result = lanes.select(lanes.compare("oeq", quotient, zero), signed_zero, nearest)
    return lanes.select(lanes.compare("oeq", b, zero), plain, result)


def _mod(lanes: Lanes, a: str, b: str) -> str:
    return _float_divmod(lanes, a, b)[1] if lanes.type.dtype.is_float else integer_math.mod(lanes, a, b)


def _pow(lanes: Lanes, base: str, exponent: str) -> str:
    if lanes.type.dtype.is_float:
        return call_library(lanes, "pow", base, exponent)
    return integer_math.power(lanes, base, exponent)


def _abs(lanes: Lanes, a: str) -> str:
    match lanes.type.dtype.kind:
        case "float":
            return lanes.intrinsic("fabs", a)
        case "int":
            return lanes.select(lanes.compare("slt", a, lanes.constant(0)), lanes.neg(a), a)
        case _:
            return a


def _extremum(larger: bool, lanes: Lanes, a: str, b: str) -> str:
    """The larger or smaller of two; NaN if either is. A fold is fastest with its accumulator as b."""
    if lanes.type.dtype.is_float:
        chosen = lanes.select(lanes.compare("ogt" if larger else "olt", a, b), a, b)
        # a comparison with NaN chooses b, so only a NaN in a is left to see to; the two selects are two instructions
        return lanes.select(lanes.compare("uno", a, a), lanes.constant(math.nan), chosen)
    if lanes.type.dtype == bool_:
        return lanes.either(a, b) if larger else lanes.both(a, b)
    sign = "s" if lanes.type.dtype.is_signed else "u"
    return lanes.intrinsic(f"{sign}{'max' if larger else 'min'}", a, b)


def _compare(predicate: str, lanes: Lanes, a: str, b: str) -> str:
    if lanes.type.dtype.is_float:
        return lanes.compare("une" if predicate == "ne" else f"o{predicate}", a, b)
    if predicate in ("eq", "ne"):
        return lanes.compare(predicate, a, b)
    return lanes.compare(("s" if lanes.type.dtype.is_signed else "u") + predicate, a, b)


def _rsqrt(lanes: Lanes, a: str) -> str:
    return lanes.div(lanes.constant(1.0), lanes.intrinsic("sqrt", a))


def _binary(opcode: str, lanes: Lanes, a: str, b: str) -> str:
    return lanes.binary(opcode, a, b)


def _intrinsic(name: str, lanes: Lanes, a: str) -> str:
    return lanes.intrinsic(name, a)


def _not(lanes: Lanes, a: str) -> str:
    return lanes.binary("xor", a, lanes.constant(True if lanes.type.dtype == bool_ else -1))


def _plane(number: int, lanes: Lanes, a: str) -> str:
    """The first, second or third of the bf16 planes of a * 2**16, as f32."""
    narrow = lanes.type.of(bf16)
    rest = lanes.mul(a, lanes.constant(65536.0))
    plane = rest
    for turn in range(number):
        plane = convert(lanes.writer, convert(lanes.writer, rest, lanes.type, narrow), narrow, lanes.type)
        rest = lanes.sub(rest, plane) if turn + 1 < number else rest
    return plane


EMITTERS: dict[str, Emitter] = {
    "add": Lanes.add,
    "sub": Lanes.sub,
    "mul": Lanes.mul,
    "div": Lanes.div,
    "floordiv": _floordiv,
    "mod": _mod,
    "pow": _pow,
    "neg": Lanes.neg,
    "abs": _abs,
    "minimum": partial(_extremum, False),
    "maximum": partial(_extremum, True),
    "fma": Lanes.fma,
    "exp": exponentials.exp,
    "exp2": exponentials.exp2,
    "log": exponentials.log,
    "log2": exponentials.log2,
    "sqrt": partial(_intrinsic, "sqrt"),
    "rsqrt": _rsqrt,
    "tanh": exponentials.tanh,
    "sigmoid": exponentials.sigmoid,
    "sigmoid2": exponentials.sigmoid2,
    "erf": exponentials.erf,
    "sin": trigonometry.sin,
    "cos": trigonometry.cos,
    "floor": partial(_intrinsic, "floor"),
    "ceil": partial(_intrinsic, "ceil"),
    "round": partial(_intrinsic, "roundeven"),
    "eq": partial(_compare, "eq"),
    "ne": partial(_compare, "ne"),
    "lt": partial(_compare, "lt"),
    "le": partial(_compare, "le"),
    "gt": partial(_compare, "gt"),
    "ge": partial(_compare, "ge"),
    "and": partial(_binary, "and"),
    "or": partial(_binary, "or"),
    "xor": partial(_binary, "xor"),
    "not": _not,
    "shl": integer_math.shift_left,
    "shr": integer_math.shift_right,
    "nibble": integer_math.nibble,
    "float_bits": Lanes.bits,
    "where": Lanes.select,
    "plane_1": partial(_plane, 1),
    "plane_2": partial(_plane, 2),
    "plane_3": partial(_plane, 3),
}

"""How values stand in CUDA C: the types of registers and of memory, literals, and integers brought to their width.

| dtype | in a register |
| --- | --- |
| f64, f32 | `double`, `float` |
| f16, bf16, f8e4m3, f8e5m2 | a `float` that holds a value of the narrow type |
| i64, i32, u64, u32 | the C type of that width |
| i16, i8, i4 and u16, u8, u4 | an `int` and an `unsigned` that hold a value of the narrow type |
| bool | `bool` |
"""

from __future__ import annotations

import math
import re

import numpy as np

from tiledsl.ir.dtypes import DType, bool_, f32, f64, i32, i64, u32, u64

_REGISTER = {"f64": "double", "i64": "long long", "u64": "unsigned long long", "bool": "bool"}
_MEMORY = {
    "f16": "unsigned short", "bf16": "unsigned short", "f8e4m3": "unsigned char", "f8e5m2": "unsigned char",
    "i16": "short", "i8": "signed char", "u16": "unsigned short", "u8": "unsigned char", "bool": "unsigned char",
}  # fmt: skip


def c_type(dtype: DType) -> str:
    """The C type of a register value (see the module)."""
    return _REGISTER.get(dtype.name, {"float": "float", "int": "int", "uint": "unsigned"}.get(dtype.kind, "bool"))


def memory_type(dtype: DType) -> str:
    """The C type of an element in memory: of as many bytes, and an integer for narrow floats and bool."""
    return _MEMORY.get(dtype.name, c_type(dtype))


def register_dtype(dtype: DType) -> DType:
    """The dtype that arithmetic is written for: f32, i32 and u32 for what is narrower."""
    if dtype.bits >= 32 or dtype == bool_:
        return dtype
    return {"float": f32, "int": i32}.get(dtype.kind, u32)


def enclosed(expression: str) -> str:
    """The expression as an operand of any operator: in parentheses, if it is more than a name, a number or a call."""
    if re.fullmatch(r"[\w.]+(e-\d+f?|\[[^\[\]]+\])?", expression) or _is_one_call(expression):
        return expression
    return f"({expression})"


def bare(expression: str) -> str:
    """The expression without the parentheses around it, for where it stands alone."""
    return expression[1:-1] if expression.startswith("(") and _is_one_call(expression) else expression


def _is_one_call(expression: str) -> bool:
    """Whether it is `name(...)` or `(...)` as a whole."""
    start = re.match(r"\w*\(", expression)
    if start is None:
        return False
    depth = 0
    for position, character in enumerate(expression):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0 and position >= start.end() - 1:
            # `(int)(x)` ends later than its first parenthesis does
            return position == len(expression) - 1
    return False


def wrapped(expression: str, dtype: DType) -> str:
    """An integer expression of any type, cut to the width of an integer dtype and given its register type."""
    operand = enclosed(expression)
    match dtype.name:
        case "i16" | "i8":
            return f"(int)({memory_type(dtype)}){operand}"
        case "i4":
            return f"((int)((unsigned){operand} << 28) >> 28)"
        case "u16" | "u8" | "u4":
            return f"((unsigned){operand} & {(1 << dtype.bits) - 1:#x}u)"
        case _:
            return f"({c_type(dtype)}){operand}"


# Literals


def constant(value: float, dtype: DType) -> str:
    """A C literal of the register type, exact to the last bit: floats are rounded to the dtype once, integers wrap."""
    if dtype == bool_:
        return "true" if value else "false"
    if dtype.is_float:
        return _float_literal(rounded(float(value), dtype), dtype)
    return _integer_literal(int(value), dtype)


def _integer_literal(value: int, dtype: DType) -> str:
    value &= (1 << dtype.bits) - 1
    if not dtype.is_signed:
        return f"{value}{'ull' if dtype == u64 else 'u'}"
    ending = "ll" if dtype == i64 else ""
    if value >= 1 << dtype.bits - 1:
        value -= 1 << dtype.bits
    if value == -(1 << max(dtype.bits, 32) - 1):
        return f"({value + 1}{ending} - 1)"  # C has no negative literals, and the positive one is too large
    return f"{value}{ending}"


def _float_literal(value: float, dtype: DType) -> str:
    wide = dtype == f64
    if math.isfinite(value):
        # the shortest digits that read back as the same number
        return str(value) if wide else f"{np.float32(value)!s}f"
    name = "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if wide:
        word = {"nan": 0x7FF8 << 48, "inf": 0x7FF0 << 48, "-inf": 0xFFF0 << 48}[name]
        return f"__longlong_as_double({word:#x}ull /* {name} */)"
    word = {"nan": 0x7FC0_0000, "inf": 0x7F80_0000, "-inf": 0xFF80_0000}[name]
    return f"__uint_as_float({word:#x}u /* {name} */)"


_MANTISSA_LEAST_LARGEST = {
    "f64": (52, -1022, math.inf), "f32": (23, -126, (2 - 2.0**-23) * 2.0**127), "f16": (10, -14, 65504.0),
    "bf16": (7, -126, (2 - 2.0**-7) * 2.0**127), "f8e4m3": (3, -6, 448.0), "f8e5m2": (2, -14, 57344.0),
}  # fmt: skip
"""Bits of mantissa, the least exponent of a normal number, the largest number."""


def rounded(value: float, dtype: DType) -> float:
    """A float rounded to the nearest of a float dtype, ties to even; what is too large is inf, or NaN in f8e4m3."""
    if dtype == f64 or value == 0 or not math.isfinite(value):
        return math.nan if dtype.name == "f8e4m3" and math.isinf(value) else value
    mantissa, least, largest = _MANTISSA_LEAST_LARGEST[dtype.name]
    unit = math.ldexp(1.0, max(math.frexp(value)[1] - 1, least) - mantissa)
    result = math.copysign(round(abs(value) / unit) * unit, value)  # Python's round takes ties to even
    if abs(result) > largest:
        return math.nan if dtype.name == "f8e4m3" else math.copysign(math.inf, value)
    return result


def is_subset(dtype: DType, other: DType) -> bool:
    """Whether every value of the float dtype is one of the other, too.

    >>> from tiledsl.ir.dtypes import bf16, f8e5m2, f16
    >>> is_subset(f8e5m2, bf16), is_subset(bf16, f16)
    (True, False)
    """
    mine, others = _MANTISSA_LEAST_LARGEST[dtype.name], _MANTISSA_LEAST_LARGEST[other.name]
    fits = mine[0] <= others[0] and mine[1] - mine[0] >= others[1] - others[0] and mine[2] <= others[2]
    return fits and (other.name != "f8e4m3" or dtype == other)

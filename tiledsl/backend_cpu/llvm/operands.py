"""Operand texts: literals of every dtype, and index arithmetic that folds constants as it writes."""

from __future__ import annotations

import math
import struct

from tiledsl.backend_cpu.llvm.writer import FunctionWriter
from tiledsl.ir import dtypes
from tiledsl.ir.core import Number
from tiledsl.ir.dtypes import DType


def literal(value: Number, dtype: DType) -> str:
    """A scalar constant as LLVM text; floats are written by their bits, so that nothing is lost."""
    if dtype == dtypes.bool_:
        return "true" if value else "false"
    if dtype.is_integer:
        return str(_wrap(int(value), dtype))
    if dtype in (dtypes.bf16, dtypes.f8e4m3, dtypes.f8e5m2):
        scalar = dtypes.to_numpy(dtype).type(value)
        return str(int.from_bytes(scalar.tobytes(), "little"))
    if dtype == dtypes.f16:
        return f"0xH{struct.unpack('<H', dtypes.to_numpy(dtype).type(value).tobytes())[0]:04X}"
    number = float(value)
    if dtype == dtypes.f32 and math.isfinite(number):
        number = float(dtypes.to_numpy(dtype).type(number))
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


def _wrap(value: int, dtype: DType) -> int:
    """`value` as the two's complement number of that width."""
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind == "int" and value >> (dtype.bits - 1) else value


def is_literal(operand: str) -> bool:
    """Whether an i64 operand is a number known now."""
    return operand.lstrip("-").isdigit()


def add(writer: FunctionWriter, left: str, right: str) -> str:
    """left + right, in i64."""
    if is_literal(left) and is_literal(right):
        return str(int(left) + int(right))
    if left == "0" or right == "0":
        return right if left == "0" else left
    return writer.emit(f"add nsw i64 {left}, {right}")


def subtract(writer: FunctionWriter, left: str, right: str) -> str:
    """left - right, in i64."""
    if is_literal(left) and is_literal(right):
        return str(int(left) - int(right))
    return left if right == "0" else writer.emit(f"sub nsw i64 {left}, {right}")


def multiply(writer: FunctionWriter, left: str, right: str) -> str:
    """left * right, in i64."""
    if is_literal(left) and is_literal(right):
        return str(int(left) * int(right))
    if left == "0" or right == "0":
        return "0"
    if left == "1" or right == "1":
        return right if left == "1" else left
    return writer.emit(f"mul nsw i64 {left}, {right}")


def divide(writer: FunctionWriter, left: str, right: str) -> str:
    """left // right for non-negative left and positive right, in i64."""
    if is_literal(left) and is_literal(right):
        return str(int(left) // int(right))
    return left if right == "1" else writer.emit(f"udiv i64 {left}, {right}")


def remainder(writer: FunctionWriter, left: str, right: str) -> str:
    """left % right for non-negative left and positive right, in i64."""
    if is_literal(left) and is_literal(right):
        return str(int(left) % int(right))
    return "0" if right == "1" else writer.emit(f"urem i64 {left}, {right}")


def smaller(writer: FunctionWriter, left: str, right: str) -> str:
    """min(left, right), signed i64."""
    if is_literal(left) and is_literal(right):
        return str(min(int(left), int(right)))
    return left if left == right else writer.call("llvm.smin.i64", "i64", [("i64", left), ("i64", right)])


def larger(writer: FunctionWriter, left: str, right: str) -> str:
    """max(left, right), signed i64."""
    if is_literal(left) and is_literal(right):
        return str(max(int(left), int(right)))
    return left if left == right else writer.call("llvm.smax.i64", "i64", [("i64", left), ("i64", right)])


def round_up(writer: FunctionWriter, value: str, unit: int) -> str:
    """The least multiple of `unit`, a power of two, that is not below `value`."""
    if is_literal(value):
        return str(-(-int(value) // unit) * unit)
    return writer.emit(f"and i64 {add(writer, value, str(unit - 1))}, {-unit}")


def ceil_divide(writer: FunctionWriter, value: str, unit: str) -> str:
    """How many blocks of `unit` cover `value`; none where value <= 0."""
    lifted = larger(writer, value, "0")
    return divide(writer, add(writer, lifted, subtract(writer, unit, "1")), unit)


def element_pointer(writer: FunctionWriter, base: str, offset: str, dtype: DType) -> str:
    """The address of element `offset` (in elements) from `base`."""
    if offset == "0":
        return base
    return writer.emit(f"getelementptr inbounds i{dtype.bytes * 8}, ptr {base}, i64 {offset}")

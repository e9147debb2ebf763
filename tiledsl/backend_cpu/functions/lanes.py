"""Arithmetic on the lanes of one vector type, a method per instruction, so that formulas read like formulas."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tiledsl.backend_cpu.llvm.operands import literal
from tiledsl.backend_cpu.llvm.writer import FunctionWriter, VectorType
from tiledsl.ir import dtypes
from tiledsl.ir.core import Number
from tiledsl.ir.dtypes import DType


@lru_cache(maxsize=1024)
def vector_literal(value: Number, type_: VectorType) -> str:
    """A constant with the same value in every lane."""
    text = literal(value, type_.dtype)
    if type_.lanes == 1:
        return text
    return f"<{', '.join([f'{type_.element} {text}'] * type_.lanes)}>"


@dataclass(frozen=True)
class Lanes:
    """Writes instructions on values of `type`. Operands and results are LLVM operand texts."""

    writer: FunctionWriter
    type: VectorType

    def of(self, dtype: DType) -> Lanes:
        """As many lanes of another dtype."""
        return Lanes(self.writer, self.type.of(dtype))

    @property
    def integers(self) -> Lanes:
        """Signed integers as wide as the elements."""
        width = {64: dtypes.i64, 32: dtypes.i32, 16: dtypes.i16, 8: dtypes.i8}
        return self.of(width[self.type.dtype.bits])

    @property
    def condition_type(self) -> str:
        """The LLVM type of a condition per lane."""
        return str(self.type.of(dtypes.bool_))

    def constant(self, value: Number) -> str:
        return vector_literal(value, self.type)

    def binary(self, opcode: str, a: str, b: str) -> str:
        """An LLVM instruction of two operands: `fadd`, `ashr`, ..."""
        return self.writer.emit(f"{opcode} {self.type} {a}, {b}")

    def intrinsic(self, name: str, *operands: str) -> str:
        """An intrinsic whose operands and result all have this type: `sqrt`, `umin`, ..."""
        return self.writer.call(
            f"llvm.{name}.{self.type.suffix}", str(self.type), [(str(self.type), v) for v in operands]
        )

    def add(self, a: str, b: str) -> str:
        return self.binary("fadd" if self.type.dtype.is_float else "add", a, b)

    def sub(self, a: str, b: str) -> str:
        return self.binary("fsub" if self.type.dtype.is_float else "sub", a, b)

    def mul(self, a: str, b: str) -> str:
        return self.binary("fmul" if self.type.dtype.is_float else "mul", a, b)

    def div(self, a: str, b: str) -> str:
        """The quotient of floats."""
        return self.binary("fdiv", a, b)

    def neg(self, a: str) -> str:
        if self.type.dtype.is_float:
            return self.writer.emit(f"fneg {self.type} {a}")
        return self.sub(self.constant(0), a)

    def fma(self, a: str, b: str, c: str) -> str:
        """a * b + c, rounded once."""
        return self.intrinsic("fma", a, b, c)

    def polynomial(self, x: str, coefficients: tuple[float, ...]) -> str:
        """The polynomial by Horner's rule; coefficients from the highest power down."""
        total = self.constant(coefficients[0])
        for coefficient in coefficients[1:]:
            total = self.fma(total, x, self.constant(coefficient))
        return total

    def compare(self, predicate: str, a: str, b: str) -> str:
        """A condition per lane; `predicate` is that of fcmp (`olt`) for floats, of icmp (`slt`) otherwise."""
        return self.writer.emit(f"{'fcmp' if self.type.dtype.is_float else 'icmp'} {predicate} {self.type} {a}, {b}")

    def select(self, condition: str, yes: str, no: str) -> str:
        """`yes` in the lanes where the condition holds."""
        return self.writer.emit(f"select {self.condition_type} {condition}, {self.type} {yes}, {self.type} {no}")

    def both(self, a: str, b: str) -> str:
        """The conjunction of two conditions."""
        return self.writer.emit(f"and {self.condition_type} {a}, {b}")

    def either(self, a: str, b: str) -> str:
        """The disjunction of two conditions."""
        return self.writer.emit(f"or {self.condition_type} {a}, {b}")

    def change(self, opcode: str, value: str, target: Lanes) -> str:
        """An LLVM conversion of `value` to the type of `target`: `zext`, `fptrunc`, `bitcast`, ..."""
        return self.writer.emit(f"{opcode} {self.type} {value} to {target.type}")

    def bits(self, value: str) -> str:
        """The bits of floats, as `self.integers`."""
        return self.change("bitcast", value, self.integers)

    def from_bits(self, value: str) -> str:
        """Floats of bits given as `self.integers`."""
        return self.integers.change("bitcast", value, self)

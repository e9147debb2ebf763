"""Which matrix instruction computes a dot, and how warps share it.

>>> choose_instruction(f32, f32, f32, "tf32", 90).instruction
'm16n8k8_tf32_f32'
>>> choose_instruction(f8e4m3, f8e4m3, f32, "ieee", 80).cast
tile.f16

An operand may be cast on the way only to a type that has all its values. Products of 8-bit integers have an instruction
on every architecture that code is made for, so the older dp4a, which multiplies them four at a time, is never the best;
products of wider integers have none, and dp4a does not take them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.ir.dtypes import DType, bf16, f8e4m3, f8e5m2, f16, f32, f64, i4, i8, promote, u4, u8
from tiledsl.ir.gpu.matrix_instructions import FMA, INSTRUCTIONS, MatrixInstruction, fits

_EXACT: dict[DType, tuple[DType, ...]] = {
    f8e4m3: (f16, bf16, f32, f64),
    f8e5m2: (f16, bf16, f32, f64),
    f16: (f32, f64),
    bf16: (f32, f64),
    f32: (f64,),
    i4: (i8,),
    u4: (u8, i8),
    u8: (),
    i8: (),
}
"""What else holds all values of a type, the narrowest first."""


@dataclass(frozen=True)
class Choice:
    """How a dot is computed: the instruction's name, the dtype that both operands are cast to before (None: as they
    are), and why, in words for `explain()`."""

    instruction: str
    cast: DType | None
    reason: str


def choose_instruction(a: DType, b: DType, accumulator: DType, precision: str, capability: int) -> Choice:
    """The instruction for a dot of these dtypes; `fma` where none fits. `capability` is 90 for sm_90.

    `precision` matters for f32 operands only: `ieee` keeps all their digits, which no matrix instruction does; `tf32`
    rounds them to 11 significant bits.
    """
    if precision == "split":
        name = choose_instruction(bf16, bf16, accumulator, "ieee", capability).instruction
        return Choice(name, bf16, f"{name} multiplies planes of bf16, of which three have all digits of {a}")
    single = [row for row in INSTRUCTIONS.values() if not row.is_fma and row.parts == 1]
    known = [row for row in single if row.capability <= capability <= row.until]
    usable = [row for row in known if _keeps_digits(row, a, b, precision)]
    for operand in _candidates(a, b):
        for row in usable:
            if row.takes(operand, operand, accumulator):
                cast = None if a == b == operand else operand
                return Choice(row.name, cast, _reason(row, a, b, cast))
    return Choice(FMA.name, _cast_for_fma(a, b, accumulator), _why_none(a, b, accumulator, precision, capability))


def _keeps_digits(row: MatrixInstruction, a: DType, b: DType, precision: str) -> bool:
    """Whether nothing is lost that the program did not allow: tf32 has 11 significant bits, as many as f16."""
    return row.a != f32 or precision == "tf32" or (a != f32 and b != f32)


def _candidates(a: DType, b: DType) -> list[DType]:
    """Types that hold all values of both, the nearest first."""
    first, second = (a, *_EXACT.get(a, ())), (b, *_EXACT.get(b, ()))
    return [dtype for dtype in first if dtype in second]


def _cast_for_fma(a: DType, b: DType, accumulator: DType) -> DType | None:
    """`fma` takes any operands of one dtype: their own, or the one in which they both can be."""
    if a == b:
        return None
    shared = _candidates(a, b)
    return shared[0] if shared else promote(promote(a, b), accumulator)


def _reason(row: MatrixInstruction, a: DType, b: DType, cast: DType | None) -> str:
    operands = f"{a}" if a == b else f"{a} and {b}"
    if cast is None:
        return f"{row.name} multiplies {operands} into {row.accumulator}"
    return f"{row.name}: {operands} as {cast}, which has all their values"


def _why_none(a: DType, b: DType, accumulator: DType, precision: str, capability: int) -> str:
    if f32 in (a, b) and accumulator == f32 and precision == "ieee":
        return 'f32 products with all digits are done one by one; `precision="tf32"` would use a matrix instruction'
    operands = f"{a}" if a == b else f"{a} and {b}"
    return f"sm_{capability} has no matrix instruction that multiplies {operands} into {accumulator}: one by one"


def choose_warps(instruction: MatrixInstruction, m: int, n: int, warps: int) -> tuple[int, int]:
    """How many warps share the rows and the columns of an M x N tile, whole instructions each.

    As many as fit, in the split for which a warp reads least: parts that are as square as can be. Where the product of
    the two is less than `warps`, a divisor of it, the other warps do the same again (`tiled_layouts`).
    """
    if instruction.is_fma:
        return (warps, 1)
    splits = [
        (wm, wn)
        for wm in range(1, warps + 1)
        for wn in range(1, warps // wm + 1)
        if warps % (wm * wn) == 0 and fits(instruction, (wm, wn), (m, n, instruction.k))
    ]
    assert splits, f"{m} x {n} is not padded to {instruction}"
    return min(splits, key=lambda split: (-split[0] * split[1], m // split[0] + n // split[1], split[1]))

"""In which dtypes products add up."""

from __future__ import annotations

from tiledsl.ir.dtypes import DType, bf16, f8e4m3, f8e5m2, f16, f32, f64, i8, i32, promote, u8

ACCUMULATORS: dict[DType, tuple[DType, ...]] = {
    f64: (f64,), f32: (f32, f64), f16: (f32, f16), bf16: (f32,), f8e4m3: (f32, f16), f8e5m2: (f32, f16), i8: (i32,),
    u8: (i32,),
}  # fmt: skip
"""The accumulator dtypes of each operand dtype, the usual one first."""


def operands_of_product(a: str, left: DType, b: str, right: DType) -> dict[str, str]:
    """What a message says of operands that accumulate in another dtype: both, and the one to convert if they differ."""
    if left == right:
        return {"operands": f"`{a}` and `{b}` of {left}", "way_out": ""}
    wide, narrow = (a, right) if promote(left, right) == left else (b, left)
    operands = f"`{a}` of {left} and `{b}` of {right}"
    return {"operands": operands, "way_out": f", or convert: `{wide}.to(tile.{narrow})`"}

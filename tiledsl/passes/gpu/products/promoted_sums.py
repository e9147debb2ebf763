"""Sums for which matrix instructions keep fewer digits than f32 has: of f8 products, and of planes of f32 operands.

    acc + a @ b    =>    acc + (a[:, 0:128] @ b[0:128, :]) + (a[:, 128:256] @ b[128:256, :]) + ...

`mma.sync` of sm_89 and `wgmma` of sm_90 keep about 14 bits of a sum and lose what is smaller, which is much over
thousands of elements of K. So they sum the products of a few steps alone, from nothing; those sums are added in f32.
Of 16-bit operands they keep 25 bits or so, but cut off what is below, which adds up over thousands of steps; for f32
products of planes a turn of the loop is a part, and its smallest products come first.
"""

from __future__ import annotations

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.dtypes import f8e4m3, f8e5m2, f32

PROMOTED_DEPTH = 128
"""Elements of K whose products are summed before they are added in f32."""
CONVERTING = (90, 100, 103)
"""Capabilities whose `mma.sync` of f8 is made of those of f16, which keep the digits of f32 sums."""


def is_promoted(dot: ops.Dot) -> bool:
    """Whether a product is to have a true f32 sum, where instructions that take its operands do not make one."""
    narrow = dot.a.dtype in (f8e4m3, f8e5m2) and dot.dtype == f32 and dot.precision != "fast"
    return narrow or ops.is_by_planes(dot)

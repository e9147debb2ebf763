"""The matrix instructions of `gpu.wgmma`: dtypes, shapes, and which thread of a warpgroup holds what.

A warpgroup is four warps that work together, its number of threads a multiple of 128. Each instruction multiplies 64
rows of `a` by `b`, which is read from shared memory. The slots of a fragment stand in the order of the instruction's
registers, as those of `matrix_instructions` do: pairs of an accumulator, made narrow, are the `a` of a next product.

>>> instruction = warpgroup_instruction("m64n128k16_bf16_f32")
>>> print(instruction.ptx)
wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
>>> print(instruction.accumulator_fragment)
local(1, 16) * spatial(4, 1) * local(2, 1) * spatial(8, 4) * local(1, 2)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from tiledsl.ir.dtypes import DType, bf16, f8e4m3, f8e5m2, f16, f32, i8, i32, u8
from tiledsl.ir.layouts.layout import WARP, RegisterLayout, local, replicate, spatial

WARPGROUP = 4 * WARP
"""Threads of a warpgroup."""
ROWS = 64
"""Rows of `a` and of the accumulator that one instruction works on."""
DEPTH_BYTES = 32
"""How much of K one instruction takes of each row and column."""
_NAME = re.compile(r"m64n([1-9]\d{0,2})k([1-9]\d?)_([a-z0-9]+)_([a-z0-9]+)")
_OPERANDS: dict[str, tuple[DType, str, tuple[DType, ...]]] = {
    "f16": (f16, "f16", (f32, f16)),
    "bf16": (bf16, "bf16", (f32,)),
    "tf32": (f32, "tf32", (f32,)),
    "f8e4m3": (f8e4m3, "e4m3", (f32, f16)),
    "f8e5m2": (f8e5m2, "e5m2", (f32, f16)),
    "i8": (i8, "s8", (i32,)),
    "u8": (u8, "u8", (i32,)),
}
"""By name: the dtype in memory, the name in PTX, and what it is accumulated in."""
_IN_PTX = {f32: "f32", f16: "f16", i32: "s32"}


@dataclass(frozen=True)
class WarpgroupInstruction:
    """accumulator[m, n] += a[m, k] @ b[k, n], by one warpgroup at once. The dtypes are those of the tiles."""

    name: str
    m: int
    n: int
    k: int
    a: DType
    b: DType
    accumulator: DType
    ptx: str
    """The mnemonic."""
    a_fragment: RegisterLayout
    """Of `a` where it is in registers."""
    accumulator_fragment: RegisterLayout

    def takes(self, a: DType, b: DType, accumulator: DType) -> bool:
        """Whether operands of these dtypes fit, as they are."""
        return (self.a, self.b, self.accumulator) == (a, b, accumulator)

    def __str__(self) -> str:
        return self.name


@lru_cache(maxsize=256)
def warpgroup_instruction(name: str) -> WarpgroupInstruction | None:
    """The instruction of a name such as m64n128k16_bf16_f32 or m64n64k32_i8_i32; None if there is no such one."""
    match = _NAME.fullmatch(name)
    if match is None or match[3] not in _OPERANDS:
        return None
    n, k = int(match[1]), int(match[2])
    dtype, operand, accumulators = _OPERANDS[match[3]]
    accumulator = next((one for one in accumulators if str(one) == match[4]), None)
    if accumulator is None or n not in columns_of(dtype) or k * dtype.bytes != DEPTH_BYTES:
        return None
    # lanes hold one word (4 bytes) of a row of A, then another one half of k further on, with rows from 8 on between
    word = 4 // dtype.bytes
    halves = k // (4 * word)
    return WarpgroupInstruction(
        name=f"m{ROWS}n{n}k{k}_{match[3]}_{accumulator}",
        m=ROWS,
        n=n,
        k=k,
        a=dtype,
        b=dtype,
        accumulator=accumulator,
        ptx=f"wgmma.mma_async.sync.aligned.m{ROWS}n{n}k{k}.{_IN_PTX[accumulator]}.{operand}.{operand}",
        a_fragment=spatial(4, 1) * local(1, halves) * local(2, 1) * spatial(8, 4) * local(1, word),
        accumulator_fragment=spatial(4, 1) * local(1, n // 8) * local(2, 1) * spatial(8, 4) * local(1, 2),
    )


def columns_of(dtype: DType) -> tuple[int, ...]:
    """How many columns an instruction on operands of `dtype` can have."""
    if dtype in (i8, u8):
        return (8, 16, 24, *range(32, 257, 16))
    return tuple(range(8, 257, 8))


def warpgroup_layouts(
    instruction: WarpgroupInstruction, warpgroups: tuple[int, int], shape: tuple[int, int, int]
) -> tuple[RegisterLayout, RegisterLayout]:
    """The layouts of `a` [M, K] in registers and of the accumulator [M, N]. The shape must be of whole instructions.

    Warpgroup `row * warpgroups[1] + column` works on one contiguous part of the rows and of the columns: instructions
    one after the other, the last axis fastest. Where blocks of a cluster have parts of M or N of their own, these are
    outermost: `spatial(1, 2) * layout` for two blocks side by side.
    """
    (wm, wn), (m, n, k) = warpgroups, shape
    fits = m % (instruction.m * wm) == 0 and n % (instruction.n * wn) == 0 and k % instruction.k == 0
    assert fits, f"{instruction} on {shape} does not fit {warpgroups} warpgroups"
    rows, columns, steps = m // (instruction.m * wm), n // (instruction.n * wn), k // instruction.k
    a = spatial(wm, 1) * replicate(wn, 2) * local(rows, steps) * instruction.a_fragment
    return a, spatial(wm, wn) * local(rows, columns) * instruction.accumulator_fragment

"""The matrix instructions of `gpu.mma`: dtypes, shapes, and which lane holds what.

A fragment is what one warp gives to one instruction, as a register layout of 32 threads. The slots of a fragment stand
in the order of the instruction's registers (neighbours packed into one register, the first lowest), so generated code
passes words as they lie:

>>> print(INSTRUCTIONS["m16n8k16_f16_f32"].a_fragment)
local(1, 2) * local(2, 1) * spatial(8, 4) * local(1, 2)

`tiled_layouts` repeats fragments over the tiles of a `gpu.mma` and over warps.

A product does not care in which order it sums, if both operands have the same one. So several instructions, one after
the other, multiply fragments in which each lane has a run of neighbours along K, as it reads and computes them: of
`m16n8k16x4_f16_f32` 16 of 64, where one instruction after the other would want 2 here and 2 there. What is computed is
`a` then, whose registers may come from anywhere; words of `b` are taken in pairs, as they are read. Where it is the
right operand that is computed, the same instructions multiply the transposed ones: `m8n16k16x4_f16_f32`.

>>> left, right = (in_runs(INSTRUCTIONS["m16n8k16_f16_f32"], 16, is_left=is_left) for is_left in (True, False))
>>> print(left.a_fragment, "and", right.b_fragment)
local(2, 1) * spatial(8, 4) * local(1, 16) and local(1, 2) * spatial(1, 8) * spatial(4, 1) * local(16, 1)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import gcd

from tiledsl.ir.dtypes import DType, bf16, f8e4m3, f8e5m2, f16, f32, f64, i8, i32, u8
from tiledsl.ir.layouts.layout import WARP, RegisterLayout, local, replicate, spatial


@dataclass(frozen=True)
class MatrixInstruction:
    """accumulator[m, n] += a[m, k] @ b[k, n], by one warp at once.

    The dtypes are those of the tiles in registers, None where any will do (`fma`).
    """

    name: str
    m: int
    n: int
    k: int
    a: DType | None
    b: DType | None
    accumulator: DType | None
    capability: int
    """The least that has it: 80 for sm_80."""
    until: int
    """The last that has it; assemblers for newer ones make several smaller ones of it."""
    ptx: str
    """The mnemonic; empty for `fma`, which is plain arithmetic."""
    a_fragment: RegisterLayout
    b_fragment: RegisterLayout
    accumulator_fragment: RegisterLayout
    parts: int = 1
    """Instructions that follow each other, of fragments in which lanes have runs along K."""
    turned: bool = False
    """Whether they multiply the transposed operands: `b` is their first one."""

    @property
    def is_fma(self) -> bool:
        """Whether each thread multiplies and adds elements by itself."""
        return not self.ptx

    @property
    def b_bits(self) -> int:
        """Of an element of an operand; 0 for `fma`."""
        return 0 if self.b is None else self.b.bits

    def takes(self, a: DType, b: DType, accumulator: DType) -> bool:
        """Whether operands of these dtypes fit, as they are."""
        return self.is_fma or (self.a, self.b, self.accumulator) == (a, b, accumulator)

    def __str__(self) -> str:
        return self.name


def _table() -> dict[str, MatrixInstruction]:
    rows = [
        _mma(16, 8, 16, "f16", f16, f32),
        _mma(16, 8, 16, "f16", f16, f16),
        _mma(16, 8, 16, "bf16", bf16, f32),
        _mma(16, 8, 8, "tf32", f32, f32),
        _mma(16, 8, 32, "s8", i8, i32),
        _mma(16, 8, 32, "u8", u8, i32),
        _mma(16, 8, 32, "e4m3", f8e4m3, f32, capability=89),
        _mma(16, 8, 32, "e5m2", f8e5m2, f32, capability=89),
        _mma(16, 8, 8, "f64", f64, f64, capability=90, until=90),  # twice as fast there as m8n8k4
        _mma(8, 8, 4, "f64", f64, f64),
        _fma(),
    ]
    runs = [row for row in rows if row.b_bits < 64 and row.k * row.b_bits == RUN_BITS]
    rows += [_of_runs(row, parts, turned=turned) for turned in (False, True) for row in runs for parts in PARTS]
    return {row.name: row for row in rows}


RUN_BITS = 256
"""Of a row of K, that an instruction takes whose lanes may have runs: two words of each of four lanes."""
PARTS = (2, 4, 8)
"""Instructions that multiply a fragment of runs: 4 words of each lane, which are read at once, and more."""


NEWEST = 999
"""Above all capabilities."""


def _mma(
    m: int, n: int, k: int, operand: str, dtype: DType, accumulator: DType, capability: int = 80, until: int = NEWEST
) -> MatrixInstruction:
    """An instruction of the mma.sync family; `operand` is the PTX name of the type of `a` and `b`."""
    into = {f32: "f32", f16: "f16", i32: "s32", f64: "f64"}[accumulator]
    # A group of four lanes holds a row of A, a column of B: each lane one word (or one f64) of it, then, if k is that
    # long, another one half of k further on. Rows from 8 on stand between the two.
    word = max(1, 32 // dtype.bits)
    halves = k // (4 * word)
    rows = m // 8
    return MatrixInstruction(
        name=f"m{m}n{n}k{k}_{'tf32' if operand == 'tf32' else dtype}_{accumulator}",
        m=m,
        n=n,
        k=k,
        a=dtype,
        b=dtype,
        accumulator=accumulator,
        capability=capability,
        until=until,
        ptx=f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{into}.{operand}.{operand}.{into}",
        a_fragment=local(1, halves) * local(rows, 1) * spatial(8, 4) * local(1, word),
        b_fragment=local(halves, 1) * spatial(1, 8) * spatial(4, 1) * local(word, 1),
        accumulator_fragment=local(rows, 1) * spatial(8, 4) * local(1, 2),
    )


def _of_runs(row: MatrixInstruction, parts: int, *, turned: bool) -> MatrixInstruction:
    """So many instructions, of which each lane has a run of K."""
    run = row.k * parts // 4
    first, second = local(row.m // 8, 1) * spatial(8, 4) * local(1, run), spatial(1, 8) * spatial(4, 1) * local(run, 1)
    m, n, accumulator = row.m, row.n, row.accumulator_fragment
    if turned:
        m, n = n, m
        first, second, accumulator = (fragment.permuted([1, 0]) for fragment in (second, first, accumulator))
    name = f"m{m}n{n}k{row.k}x{parts}_{row.name.partition('_')[2]}"
    return replace(
        row, name=name, m=m, n=n, k=row.k * parts, a_fragment=first, b_fragment=second,
        accumulator_fragment=accumulator, parts=parts, turned=turned,
    )  # fmt: skip


def in_runs(instruction: MatrixInstruction, run: int, *, is_left: bool) -> MatrixInstruction:
    """Instructions of that kind for a left operand, or a right one, of which each lane computes so many neighbours
    along K, or as many of them as there are instructions for; the instruction itself where there are none."""
    fitting = (
        row
        for row in INSTRUCTIONS.values()
        if row.ptx == instruction.ptx and row.parts > 1 and row.turned != is_left and row.k // 4 <= run
    )
    return max(fitting, key=lambda row: row.parts, default=instruction)


def single_of(instruction: MatrixInstruction) -> MatrixInstruction:
    """The instruction that several are of."""
    return next(row for row in INSTRUCTIONS.values() if row.ptx == instruction.ptx)


def _fma() -> MatrixInstruction:
    one = local(1, 1)
    return MatrixInstruction("fma", 1, 1, 1, None, None, None, 0, NEWEST, "", one, one, one)


INSTRUCTIONS: dict[str, MatrixInstruction] = _table()
"""By name: shape, operand, accumulator, as in `m16n8k16_bf16_f32`; several of one for runs, as `m16n8k16x4_bf16_f32`;
and `fma`."""
FMA = INSTRUCTIONS["fma"]


def fits(instruction: MatrixInstruction, warps: tuple[int, int], shape: tuple[int, int, int], groups: int = 1) -> bool:
    """Whether tiles of M x N x K split evenly over the warps, and groups of them along K, and into whole instructions.
    `fma` fits always, in one group."""
    if instruction.is_fma:
        return groups == 1
    (wm, wn), (m, n, k) = warps, shape
    return m % (instruction.m * wm) == 0 and n % (instruction.n * wn) == 0 and k % (instruction.k * groups) == 0


def tiled_layouts(
    instruction: MatrixInstruction,
    warps: tuple[int, int],
    shape: tuple[int, int, int],
    threads: int = 0,
    groups: int = 1,
) -> tuple[RegisterLayout, RegisterLayout, RegisterLayout]:
    """The layouts of `a` [M, K], `b` [K, N] and the accumulator [M, N] of a `gpu.mma`. The shape must fit.

    Warp `row * warps[1] + column` works on one contiguous part of the rows and of the columns: instructions one after
    the other, the last axis fastest. If there are more `threads` than those of the warps, the others do the same again
    (0: there are not). For `fma` the warps only say how many threads there are.

    With `groups` there are so many times these warps, and each group takes one instruction's part of K in turn, as each
    other: instructions for runs of K go on group by group. The accumulator is [groups * M, N] then, group by group.
    """
    wm, wn = warps
    m, n, k = shape
    threads = threads or wm * wn * WARP
    if instruction.is_fma:
        return fma_layouts(threads, shape)
    assert fits(instruction, warps, shape, groups), f"{instruction} on {shape} does not fit {warps} warps"
    rows, columns, steps = m // (instruction.m * wm), n // (instruction.n * wn), k // (instruction.k * groups)
    if groups > 1:
        a = local(1, steps) * spatial(1, groups) * spatial(wm, 1) * replicate(wn, 2) * local(rows, 1)
        b = local(steps, 1) * spatial(groups, 1) * replicate(wm, 2) * spatial(1, wn) * local(1, columns)
        sums = spatial(groups, 1) * spatial(wm, wn) * local(rows, columns)
        return a * instruction.a_fragment, b * instruction.b_fragment, sums * instruction.accumulator_fragment
    copies = replicate(threads // (wm * wn * WARP), 2)
    a = copies * spatial(wm, 1) * replicate(wn, 2) * local(rows, steps) * instruction.a_fragment
    b = copies * replicate(wm, 2) * spatial(1, wn) * local(steps, columns) * instruction.b_fragment
    accumulator = copies * spatial(wm, wn) * local(rows, columns) * instruction.accumulator_fragment
    return a, b, accumulator


VECTOR = 4
"""Neighbouring rows, and columns, that a thread of an `fma` product works on: what one access can read."""


def fma_layouts(threads: int, shape: tuple[int, int, int]) -> tuple[RegisterLayout, RegisterLayout, RegisterLayout]:
    """Layouts for products without matrix instructions: each thread has rows of `a`, columns of `b`, and all of K.

    A thread's part of the accumulator is spread in pieces of up to 4 x 4, so that the threads of a warp together read
    runs of shared memory. Where the tile is too small or too odd for all threads, some do the same again.
    """
    m, n, k = shape
    tm, tn = fma_threads(threads, m, n)
    vm, vn = gcd(VECTOR, m // tm), gcd(VECTOR, n // tn)
    copies = replicate(threads // (tm * tn), 2)
    rows, columns = m // (tm * vm), n // (tn * vn)
    a = copies * local(rows, 1) * spatial(tm, 1) * replicate(tn, 2) * local(vm, k)
    b = copies * local(k, columns) * replicate(tm, 2) * spatial(1, tn) * local(1, vn)
    accumulator = copies * local(rows, columns) * spatial(tm, tn) * local(vm, vn)
    return a, b, accumulator


def fma_threads(threads: int, m: int, n: int) -> tuple[int, int]:
    """How many threads along rows and columns: as many as can be, then with the least to read for each product."""
    splits = [
        (tm, tn)
        for tm, tn in product(_divisors(gcd(threads, m)), _divisors(gcd(threads, n)))
        if threads % (tm * tn) == 0
    ]
    return max(splits, key=lambda split: (split[0] * split[1], -(m // split[0] + n // split[1]), split[1]))


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]

"""Fragments against the formulas of the PTX manual, and tiles made of them, element by element."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiledsl.ir.gpu.matrix_instructions import (
    FMA,
    INSTRUCTIONS,
    MatrixInstruction,
    fits,
    fma_layouts,
    in_runs,
    single_of,
    tiled_layouts,
)
from tiledsl.ir.layouts.layout import RegisterLayout

Formula = Callable[[int, int, int], tuple[int, int]]
"""(group of four lanes, lane in the group, number i of the element) -> its coordinates, as the PTX manual says."""

ACCUMULATOR_16: Formula = lambda g, t, i: (g if i < 2 else g + 8, t * 2 + (i & 1))  # noqa: E731
BYTES: tuple[Formula, Formula, Formula] = (
    lambda g, t, i: (g if i < 4 or 8 <= i < 12 else g + 8, t * 4 + (i & 3) + (0 if i < 8 else 16)),
    lambda g, t, i: (t * 4 + (i & 3) + (0 if i < 4 else 16), g),
    ACCUMULATOR_16,
)
HALVES: tuple[Formula, Formula, Formula] = (
    lambda g, t, i: (g if i < 2 or 4 <= i < 6 else g + 8, t * 2 + (i & 1) + (0 if i < 4 else 8)),
    lambda g, t, i: (t * 2 + (i & 1) + (0 if i < 2 else 8), g),
    ACCUMULATOR_16,
)
TF32: tuple[Formula, Formula, Formula] = (
    lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4),
    lambda g, t, i: (t if i == 0 else t + 4, g),
    ACCUMULATOR_16,
)
F64: tuple[Formula, Formula, Formula] = (
    lambda g, t, i: (g, t),
    lambda g, t, i: (t, g),
    lambda g, t, i: (g, t * 2 + (i & 1)),
)
MANUAL = {
    "m16n8k16_f16_f32": (HALVES, (8, 4, 4)),
    "m16n8k16_f16_f16": (HALVES, (8, 4, 4)),
    "m16n8k16_bf16_f32": (HALVES, (8, 4, 4)),
    "m16n8k8_tf32_f32": (TF32, (4, 2, 4)),
    "m16n8k32_i8_i32": (BYTES, (16, 8, 4)),
    "m16n8k32_u8_i32": (BYTES, (16, 8, 4)),
    "m16n8k32_f8e4m3_f32": (BYTES, (16, 8, 4)),
    "m16n8k32_f8e5m2_f32": (BYTES, (16, 8, 4)),
    "m16n8k8_f64_f64": (TF32, (4, 2, 4)),
    "m8n8k4_f64_f64": (F64, (1, 1, 2)),
}


def fragments(instruction: MatrixInstruction) -> tuple[RegisterLayout, RegisterLayout, RegisterLayout]:
    return instruction.a_fragment, instruction.b_fragment, instruction.accumulator_fragment


SINGLE = {name for name, row in INSTRUCTIONS.items() if row.parts == 1}
RUNS = sorted(set(INSTRUCTIONS) - SINGLE)


def test_the_table_is_complete() -> None:
    assert set(MANUAL) | {"fma"} == SINGLE
    assert all(name == instruction.name for name, instruction in INSTRUCTIONS.items())


@pytest.mark.parametrize("name", MANUAL)
def test_fragments_are_those_of_the_manual(name: str) -> None:
    instruction = INSTRUCTIONS[name]
    formulas, counts = MANUAL[name]
    m, n, k = instruction.m, instruction.n, instruction.k
    for layout, formula, count, shape in zip(fragments(instruction), formulas, counts, ((m, k), (k, n), (m, n))):
        assert layout.shape == shape
        assert layout.threads == 32
        assert layout.slots == count
        for lane in range(32):
            for i in range(count):
                assert layout.coordinates(lane, i) == formula(lane >> 2, lane % 4, i)


@pytest.mark.parametrize("name", RUNS)
def test_instructions_of_runs(name: str) -> None:
    """Each instruction takes the next words of each row and of each column, and lanes have the same of K in both."""
    instruction = INSTRUCTIONS[name]
    single = single_of(instruction)
    first, second, result = fragments(instruction)
    if instruction.turned:
        first, second, result = (layout.permuted([1, 0]) for layout in (second, first, result))
    assert result == single.accumulator_fragment
    per = second.slots // instruction.parts
    for lane in range(32):
        for part in range(instruction.parts):
            taken = [row * first.slots // 2 + part * per + i for row in range(2) for i in range(per)]
            left = [first.coordinates(lane, slot) for slot in taken]
            right = [second.coordinates(lane, part * per + i) for i in range(per)]
            assert [k for _, k in left] == 2 * [k for k, _ in right]
            assert [row for row, _ in left] == [lane // 4 + 8 * row for row in range(2) for _ in range(per)]
            assert {column for _, column in right} == {lane // 4}
    every = {second.coordinates(lane, slot)[0] for lane in range(4) for slot in range(second.slots)}
    assert every == set(range(instruction.k))


def test_the_longest_runs_that_fit() -> None:
    halves = INSTRUCTIONS["m16n8k16_f16_f32"]
    assert in_runs(halves, 16, is_left=True).name == "m16n8k16x4_f16_f32"
    assert in_runs(halves, 31, is_left=False).name == "m8n16k16x4_f16_f32"
    assert in_runs(halves, 64, is_left=False).name == "m8n16k16x8_f16_f32"
    assert in_runs(halves, 4, is_left=False) is halves
    assert in_runs(INSTRUCTIONS["m8n8k4_f64_f64"], 64, is_left=True) is INSTRUCTIONS["m8n8k4_f64_f64"]


def test_mnemonics() -> None:
    assert INSTRUCTIONS["m16n8k16_bf16_f32"].ptx == "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
    assert INSTRUCTIONS["m16n8k16_f16_f16"].ptx == "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"
    assert INSTRUCTIONS["m16n8k8_tf32_f32"].ptx == "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
    assert INSTRUCTIONS["m16n8k32_u8_i32"].ptx == "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32"
    assert INSTRUCTIONS["m16n8k32_f8e4m3_f32"].ptx == "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"
    assert INSTRUCTIONS["m8n8k4_f64_f64"].ptx == "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"


def multiplied(
    layouts: tuple[RegisterLayout, RegisterLayout, RegisterLayout],
    instruction: MatrixInstruction,
    warps: tuple[int, int],
    a: np.ndarray,
    b: np.ndarray,
) -> np.ndarray:
    """a @ b as a warp-level emitter computes it: whole fragments, cut out of the slots of each warp's lanes."""
    layout_a, layout_b, layout_c = layouts
    (m, k), n = a.shape, b.shape[1]
    wm, wn = warps
    rows, columns, steps = m // (instruction.m * wm), n // (instruction.n * wn), k // instruction.k
    held_a, held_b = a[layout_a.table], b[layout_b.table]
    fragment_a, fragment_b, fragment_c = fragments(instruction)
    result = np.full((m, n), -1, a.dtype)
    for warp in range(layout_c.threads // 32):
        lanes = slice(warp * 32, warp * 32 + 32)
        for i in range(rows):
            for j in range(columns):
                total = np.zeros((instruction.m, instruction.n), a.dtype)
                for s in range(steps):
                    left = np.zeros((instruction.m, instruction.k), a.dtype)
                    right = np.zeros((instruction.k, instruction.n), a.dtype)
                    first = (i * steps + s) * fragment_a.slots
                    left[fragment_a.table] = held_a[lanes, first : first + fragment_a.slots]
                    first = (s * columns + j) * fragment_b.slots
                    right[fragment_b.table] = held_b[lanes, first : first + fragment_b.slots]
                    total += left @ right
                first = (i * columns + j) * fragment_c.slots
                where = tuple(axis[lanes, first : first + fragment_c.slots] for axis in layout_c.table)
                result[where] = total[fragment_c.table]
    return result


@pytest.mark.parametrize("name", [*MANUAL, *RUNS[::5]])
@pytest.mark.parametrize("warps", [(1, 1), (2, 2), (1, 3), (4, 1)])
@pytest.mark.parametrize("copies", [1, 2])
def test_warps_compute_whole_products(name: str, warps: tuple[int, int], copies: int) -> None:
    instruction = INSTRUCTIONS[name]
    wm, wn = warps
    shape = (instruction.m * wm * 2, instruction.n * wn * 3, instruction.k * 2)
    threads = wm * wn * 32 * copies
    layouts = tiled_layouts(instruction, warps, shape, threads)
    assert [layout.threads for layout in layouts] == [threads] * 3
    assert [layout.shape for layout in layouts] == [(shape[0], shape[2]), (shape[2], shape[1]), shape[:2]]
    generator = np.random.default_rng(3)
    a = generator.integers(0, 9, (shape[0], shape[2]))
    b = generator.integers(0, 9, (shape[2], shape[1]))
    np.testing.assert_array_equal(multiplied(layouts, instruction, warps, a, b), a @ b)


@pytest.mark.parametrize("name", [*MANUAL, *RUNS[::5]])
@pytest.mark.parametrize("warps", [(1, 1), (1, 2), (2, 1)])
@pytest.mark.parametrize("groups", [2, 4])
def test_groups_of_warps_have_parts_of_the_sum(name: str, warps: tuple[int, int], groups: int) -> None:
    """Each as if it were alone with its instructions' parts of K, which lie by turns."""
    instruction = INSTRUCTIONS[name]
    (wm, wn), steps = warps, 2
    m, n, k = instruction.m * wm * 2, instruction.n * wn * 3, instruction.k * steps * groups
    layouts = tiled_layouts(instruction, warps, (m, n, k), groups=groups)
    alone = tiled_layouts(instruction, warps, (m, n, k // groups))
    each = wm * wn * 32
    assert [layout.threads for layout in layouts] == [each * groups] * 3
    assert [layout.shape for layout in layouts] == [(m, k), (k, n), (groups * m, n)]
    assert fits(instruction, warps, (m, n, k), groups)
    assert not fits(instruction, warps, (m, n, k - instruction.k), groups)
    generator = np.random.default_rng(3)
    a, b = generator.integers(0, 9, (m, k)), generator.integers(0, 9, (k, n))
    sums = [layouts[2].table[axis] for axis in range(2)]
    for group in range(groups):
        steps_of_group = [group + groups * step for step in range(steps)]
        mine = np.concatenate([np.arange(s * instruction.k, (s + 1) * instruction.k) for s in steps_of_group])
        threads = slice(group * each, (group + 1) * each)
        # the same elements as a group alone has of its own columns and rows, in slots of the same fragments
        of_a, of_b = (np.sort(m_[t.table][threads], axis=1) for m_, t in ((a, layouts[0]), (b, layouts[1])))
        assert (of_a == np.sort(a[:, mine][alone[0].table], axis=1)).all()
        assert (of_b == np.sort(b[mine][alone[1].table], axis=1)).all()
        assert (sums[0][threads] == alone[2].table[0] + group * m).all()
        assert (sums[1][threads] == alone[2].table[1]).all()


def test_fits() -> None:
    instruction = INSTRUCTIONS["m16n8k16_f16_f32"]
    assert fits(instruction, (2, 2), (64, 48, 32))
    assert not fits(instruction, (4, 2), (32, 48, 32))
    assert not fits(instruction, (2, 4), (64, 48, 32))
    assert not fits(instruction, (2, 2), (64, 48, 24))
    assert fits(FMA, (4, 4), (1, 1, 1))
    assert not fits(FMA, (4, 4), (1, 1, 2), 2)


@given(
    threads=st.sampled_from([32, 64, 96, 128, 256]),
    shape=st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 9)),
)
def test_threads_of_fma_hold_what_they_need(threads: int, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b, c = fma_layouts(threads, shape)
    assert (a.shape, b.shape, c.shape) == ((m, k), (k, n), (m, n))
    assert a.threads == b.threads == c.threads == threads
    covered = np.zeros((m, n), int)
    for thread in range(threads):
        left, right, result = (set(zip(*(axis[thread] for axis in layout.table))) for layout in (a, b, c))
        rows, columns = {i for i, _ in result}, {j for _, j in result}
        assert left == {(i, p) for i in rows for p in range(k)}
        assert right == {(p, j) for j in columns for p in range(k)}
        assert result == {(i, j) for i in rows for j in columns}
        covered[tuple(zip(*result))] += 1
    assert (covered == c.replicas).all()


def test_fma_uses_all_threads_where_it_can() -> None:
    _, _, c = fma_layouts(256, (128, 128, 8))
    assert c.slots == 64
    assert c.replicas == 1
    assert str(c) == "local(2, 2) * spatial(16, 16) * local(4, 4)"

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiledsl.frontend.language.product_dtypes import ACCUMULATORS
from tiledsl.ir.dtypes import DType, bf16, f8e4m3, f8e5m2, f16, f32, f64, i4, i8, i32, i64, to_numpy, u4, u8
from tiledsl.ir.gpu.matrix_instructions import INSTRUCTIONS, MatrixInstruction, fits, tiled_layouts
from tiledsl.passes.gpu.layouts.select_mma import choose_instruction, choose_warps

MATRIX = [row for row in INSTRUCTIONS.values() if not row.is_fma]


@pytest.mark.parametrize(
    ("operand", "accumulator", "precision", "capability", "expected", "cast"),
    [
        (f16, f32, "ieee", 80, "m16n8k16_f16_f32", None),
        (f16, f16, "ieee", 80, "m16n8k16_f16_f16", None),
        (bf16, f32, "ieee", 90, "m16n8k16_bf16_f32", None),
        (bf16, bf16, "ieee", 90, "fma", None),
        (f32, f32, "ieee", 90, "fma", None),
        (f32, f32, "tf32", 80, "m16n8k8_tf32_f32", None),
        (f32, f64, "ieee", 80, "m8n8k4_f64_f64", f64),
        (f64, f64, "ieee", 80, "m8n8k4_f64_f64", None),
        (f64, f64, "ieee", 90, "m16n8k8_f64_f64", None),
        (f64, f64, "ieee", 100, "m8n8k4_f64_f64", None),
        (i8, i32, "ieee", 80, "m16n8k32_i8_i32", None),
        (u8, i32, "ieee", 100, "m16n8k32_u8_i32", None),
        (i4, i32, "ieee", 80, "m16n8k32_i8_i32", i8),
        (u4, i32, "ieee", 80, "m16n8k32_u8_i32", u8),
        (i8, i64, "ieee", 90, "fma", None),
        (i32, i32, "ieee", 90, "fma", None),
        (f8e4m3, f32, "ieee", 89, "m16n8k32_f8e4m3_f32", None),
        (f8e5m2, f32, "ieee", 120, "m16n8k32_f8e5m2_f32", None),
        (f8e4m3, f32, "ieee", 80, "m16n8k16_f16_f32", f16),
        (f8e5m2, f32, "ieee", 86, "m16n8k16_f16_f32", f16),
        (f8e4m3, f16, "ieee", 90, "m16n8k16_f16_f16", f16),
    ],
)
def test_operands_of_one_dtype(
    operand: DType, accumulator: DType, precision: str, capability: int, expected: str, cast: DType | None
) -> None:
    choice = choose_instruction(operand, operand, accumulator, precision, capability)
    assert (choice.instruction, choice.cast) == (expected, cast)


def test_operands_of_two_dtypes() -> None:
    assert choose_instruction(f8e4m3, f8e5m2, f32, "ieee", 90).cast == f16
    # f16 and bf16 have no more digits than tf32 keeps, so nothing is lost
    mixed = choose_instruction(f16, bf16, f32, "ieee", 90)
    assert (mixed.instruction, mixed.cast) == ("m16n8k8_tf32_f32", f32)
    assert choose_instruction(f16, f32, f32, "ieee", 90).instruction == "fma"
    assert choose_instruction(i8, u8, i32, "ieee", 90).instruction == "fma"


def test_reasons() -> None:
    assert "tf32" in choose_instruction(f32, f32, f32, "ieee", 90).reason
    assert choose_instruction(bf16, bf16, bf16, "ieee", 90).reason == (
        "sm_90 has no matrix instruction that multiplies bf16 into bf16: one by one"
    )
    assert choose_instruction(f8e4m3, f8e4m3, f32, "ieee", 80).reason == (
        "m16n8k16_f16_f32: f8e4m3 as f16, which has all their values"
    )


@pytest.mark.parametrize("operand", ACCUMULATORS)
@pytest.mark.parametrize("precision", ["ieee", "tf32"])
def test_every_dot_of_the_language(operand: DType, precision: str) -> None:
    for accumulator in ACCUMULATORS[operand]:
        for capability in (80, 89, 90, 100, 120):
            choice = choose_instruction(operand, operand, accumulator, precision, capability)
            row = INSTRUCTIONS[choice.instruction]
            given_dtype = choice.cast or operand
            assert row.takes(given_dtype, given_dtype, accumulator)
            assert row.capability <= capability
            assert row.is_fma == (operand == f32 and accumulator == f32 and precision == "ieee")


@pytest.mark.parametrize("operand", [f8e4m3, f8e5m2])
def test_casts_of_bytes_are_exact(operand: DType) -> None:
    values = np.frombuffer(bytes(range(256)), to_numpy(operand))
    as_f16 = values.astype(np.float16)
    np.testing.assert_array_equal(as_f16.astype(np.float64), values.astype(np.float64))


@given(
    row=st.sampled_from(MATRIX),
    shape=st.tuples(st.integers(1, 20), st.integers(1, 40), st.integers(1, 10)),
    warps=st.integers(1, 16),
)
def test_whole_instructions_can_be_computed(row: MatrixInstruction, shape: tuple[int, int, int], warps: int) -> None:
    m, n, k = (size * step for size, step in zip(shape, (row.m, row.n, row.k)))
    padded = (m, n, k)
    split = choose_warps(row, m, n, warps)
    assert fits(row, split, padded)
    for layout in tiled_layouts(row, split, padded, warps * 32):
        assert layout.threads == warps * 32


def test_warps() -> None:
    row = INSTRUCTIONS["m16n8k16_bf16_f32"]
    assert choose_warps(row, 128, 128, 4) == (2, 2)
    assert choose_warps(row, 128, 256, 8) == (2, 4)
    assert choose_warps(row, 16, 256, 4) == (1, 4)
    assert choose_warps(row, 256, 8, 4) == (4, 1)
    # 16 x 16 has room for two warps, the other two do the same again
    assert choose_warps(row, 16, 16, 4) == (1, 2)
    # 96 columns do not split into 8 parts of whole instructions
    assert choose_warps(row, 16, 96, 8) == (1, 4)
    assert choose_warps(INSTRUCTIONS["fma"], 16, 96, 8) == (8, 1)

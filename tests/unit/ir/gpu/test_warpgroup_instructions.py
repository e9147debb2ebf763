"""Fragments of warpgroups against the formulas of the PTX manual, and tiles made of them."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

from tiledsl.ir.dtypes import bf16, f8e4m3, f16, f32, i8, i32
from tiledsl.ir.gpu import warpgroup_instructions
from tiledsl.ir.gpu.warpgroup_instructions import (
    WarpgroupInstruction,
    columns_of,
    warpgroup_instruction,
    warpgroup_layouts,
)
from tiledsl.ir.layouts.conversions import convert_plan
from tiledsl.ir.layouts.layout import local, replicate, spatial


def instruction_of(name: str) -> WarpgroupInstruction:
    found = warpgroup_instruction(name)
    assert found is not None
    assert found.name == name
    return found


@pytest.mark.parametrize(
    ("name", "ptx"),
    [
        ("m64n128k16_bf16_f32", "m64n128k16.f32.bf16.bf16"),
        ("m64n96k16_f16_f32", "m64n96k16.f32.f16.f16"),
        ("m64n64k16_f16_f16", "m64n64k16.f16.f16.f16"),
        ("m64n8k8_tf32_f32", "m64n8k8.f32.tf32.tf32"),
        ("m64n256k32_f8e4m3_f32", "m64n256k32.f32.e4m3.e4m3"),
        ("m64n24k32_f8e5m2_f16", "m64n24k32.f16.e5m2.e5m2"),
        ("m64n24k32_i8_i32", "m64n24k32.s32.s8.s8"),
        ("m64n48k32_u8_i32", "m64n48k32.s32.u8.u8"),
    ],
)
def test_mnemonics(name: str, ptx: str) -> None:
    instruction = instruction_of(name)
    assert instruction.ptx == f"wgmma.mma_async.sync.aligned.{ptx}"
    assert str(instruction) == name
    assert warpgroup_instruction(name) is instruction


@pytest.mark.parametrize(
    "name",
    [
        "m16n8k16_bf16_f32", "m64n12k16_bf16_f32", "m64n0k16_bf16_f32", "m64n264k16_f16_f32", "m64n128k32_bf16_f32",
        "m64n128k16_bf16_f16", "m64n128k16_bf16_bf16", "m64n128k8_f32_f32", "m64n40k32_i8_i32", "m64n64k32_i8_f32",
        "m64n64k4_f64_f64", "m64n064k16_bf16_f32", "fma", "",
    ],
)  # fmt: skip
def test_what_there_is_not(name: str) -> None:
    assert warpgroup_instruction(name) is None


def test_columns() -> None:
    assert columns_of(bf16) == columns_of(f32) == columns_of(f8e4m3) == tuple(8 * i for i in range(1, 33))
    assert columns_of(i8)[:6] == (8, 16, 24, 32, 48, 64)
    assert columns_of(i8)[-1] == 256


def test_takes() -> None:
    tf32 = instruction_of("m64n64k8_tf32_f32")
    assert tf32.takes(f32, f32, f32)
    assert not tf32.takes(f16, f16, f32)
    assert instruction_of("m64n64k32_i8_i32").takes(i8, i8, i32)


@pytest.mark.parametrize("n", [8, 24, 128, 256])
def test_accumulators_are_those_of_the_manual(n: int) -> None:
    fragment = instruction_of(f"m64n{n}k16_bf16_f32").accumulator_fragment
    assert (fragment.shape, fragment.threads, fragment.slots) == ((64, n), 128, n // 2)
    for thread in range(128):
        warp, lane = divmod(thread, 32)
        for j in range(n // 2):
            row = 16 * warp + lane // 4 + 8 * ((j // 2) % 2)
            assert fragment.coordinates(thread, j) == (row, 8 * (j // 4) + 2 * (lane % 4) + j % 2)


@pytest.mark.parametrize(("name", "word"), [("k16_bf16_f32", 2), ("k32_i8_i32", 4), ("k8_tf32_f32", 1)])
def test_operands_in_registers_are_those_of_the_manual(name: str, word: int) -> None:
    instruction = instruction_of(f"m64n64{name}")
    fragment = instruction.a_fragment
    assert (fragment.shape, fragment.threads, fragment.slots) == ((64, instruction.k), 128, 4 * word)
    for thread in range(128):
        warp, lane = divmod(thread, 32)
        for i in range(4 * word):
            register, part = divmod(i, word)
            row = 16 * warp + lane // 4 + 8 * (register % 2)
            assert fragment.coordinates(thread, i) == (row, register // 2 * 4 * word + lane % 4 * word + part)


def test_an_accumulator_is_the_left_operand_of_the_next_product() -> None:
    first, second = instruction_of("m64n64k16_f16_f32"), instruction_of("m64n128k16_f16_f32")
    _, scores = warpgroup_layouts(first, (2, 1), (128, 64, 32))
    a, _ = warpgroup_layouts(second, (2, 1), (128, 128, 64))
    assert scores == a
    assert convert_plan(scores, a).kind == "registers"


@pytest.mark.parametrize("warpgroups", [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_tiles_of_warpgroups(warpgroups: tuple[int, int]) -> None:
    instruction = instruction_of("m64n32k16_bf16_f32")
    a, accumulator = warpgroup_layouts(instruction, warpgroups, (128, 64, 32))
    assert a.shape == (128, 32)
    assert accumulator.shape == (128, 64)
    assert a.threads == accumulator.threads == 128 * warpgroups[0] * warpgroups[1]
    assert a.replicas == warpgroups[1]
    assert accumulator.replicas == 1
    rows, columns = accumulator.table
    for number in range(warpgroups[0] * warpgroups[1]):
        mine = slice(128 * number, 128 * number + 128)
        row, column = divmod(number, warpgroups[1])
        high, wide = 128 // warpgroups[0], 64 // warpgroups[1]
        assert set(np.unique(rows[mine])) == set(range(row * high, row * high + high))
        assert set(np.unique(columns[mine])) == set(range(column * wide, column * wide + wide))
        assert set(np.unique(a.table[0][mine])) == set(np.unique(rows[mine]))


def test_tiles_are_whole_fragments() -> None:
    instruction = instruction_of("m64n96k32_f8e4m3_f32")
    a, accumulator = warpgroup_layouts(instruction, (1, 2), (128, 192, 64))
    assert a.divided(instruction.a_fragment) == replicate(2, 2) * local(2, 2)
    assert accumulator.divided(instruction.accumulator_fragment) == spatial(1, 2) * local(2, 1)
    with pytest.raises(AssertionError, match="does not fit"):
        warpgroup_layouts(instruction, (1, 1), (96, 96, 32))


def test_the_example_of_the_docstring() -> None:
    assert doctest.testmod(warpgroup_instructions).failed == 0

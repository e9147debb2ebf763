"""Descriptors: their bits, and that what tensor cores read through them are the elements of the buffer."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tiledsl.ir.gpu.matrix_descriptors import (
    SPANS,
    MatrixDescriptor,
    element_addresses,
    shared_operand,
    span_of,
    swizzle_of,
)
from tiledsl.ir.gpu.warpgroup_instructions import WarpgroupInstruction, columns_of, warpgroup_instruction
from tiledsl.ir.layouts.buffer_layout import SharedLayout, Swizzle
from tiledsl.ir.layouts.text import parse_layout
from tiledsl.ir.types import TileType

KINDS = ("k16_bf16_f32", "k16_f16_f16", "k8_tf32_f32", "k32_f8e4m3_f32", "k32_u8_i32")


def instruction_of(name: str) -> WarpgroupInstruction:
    found = warpgroup_instruction(name)
    assert found is not None
    return found


def test_the_bits_of_a_descriptor() -> None:
    bits = MatrixDescriptor(address=0x12340, leading=16, stride=1024, swizzle=128).encode()
    assert bits == 0x1234 | 1 << 16 | 64 << 32 | 1 << 62
    assert MatrixDescriptor(0, 0, 256, 32).encode() == 16 << 32 | 3 << 62
    assert MatrixDescriptor(0, 0, 512, 64).encode() == 32 << 32 | 2 << 62
    assert MatrixDescriptor(16, 2048, 128, 0).encode() == 1 | 128 << 16 | 8 << 32
    with pytest.raises(AssertionError, match="is too far"):
        MatrixDescriptor(1 << 18, 0, 0, 0).encode()
    with pytest.raises(AssertionError, match="is too far"):
        MatrixDescriptor(8, 0, 0, 0).encode()


numbers = st.integers(0, (1 << 14) - 1).map(lambda number: 16 * number)


@given(st.builds(MatrixDescriptor, numbers, numbers, numbers, st.sampled_from((0, *SPANS))))
def test_what_is_encoded_is_decoded(descriptor: MatrixDescriptor) -> None:
    assert 0 <= descriptor.encode() < 1 << 64
    assert MatrixDescriptor.decode(descriptor.encode()) == descriptor


def test_spans() -> None:
    assert [swizzle_of(span) for span in (0, *SPANS)] == [None, *(Swizzle(bits, 4, 3) for bits in (1, 2, 3))]
    assert [span_of(swizzle_of(span)) for span in (0, *SPANS)] == [0, *SPANS]
    assert span_of(Swizzle(3, 3, 3)) is None
    assert span_of(Swizzle(3, 4, 6)) is None
    assert span_of(Swizzle(4, 4, 3)) is None


Which = Literal["a", "b"]
Case = tuple[TileType, int, int, WarpgroupInstruction, Which]


@st.composite
def operands(draw: st.DrawFn, kind: str, which: Which, k_major: bool, span: int) -> Case:
    """A buffer that an instruction can read, its axes of M or N and of K, the instruction and which operand it is."""
    dtype = instruction_of(f"m64n64{kind}").a
    run = (span or 16) // dtype.bytes
    columns = [n for n in columns_of(dtype) if k_major or n % run == 0 or run < 2 * n]
    instruction = instruction_of(f"m64n{draw(st.sampled_from(columns))}{kind}")
    rows = instruction.m if which == "a" else instruction.n
    if k_major:
        outer = rows * draw(st.integers(1, 2)) + 8 * draw(st.integers(0, 3))
        k = max(run, instruction.k) * draw(st.integers(1, 3))
    else:
        outer = rows * draw(st.integers(1, 2)) if rows % run == 0 else rows + -rows % run
        k = instruction.k * draw(st.integers(1, 3))
    rank = draw(st.integers(2, 3))
    order = tuple(draw(st.permutations(range(rank))))
    sizes = [2] * rank
    fast, slow = order[-1], order[-2]
    k_axis, outer_axis = (fast, slow) if k_major else (slow, fast)
    sizes[k_axis], sizes[outer_axis] = k, outer
    panel = run if sizes[fast] != run or draw(st.booleans()) else 0
    layout = SharedLayout(order, 0, swizzle_of(span), panel)
    return TileType(dtype, tuple(sizes), "shared", layout), outer_axis, k_axis, instruction, which


@pytest.mark.parametrize("which", ["a", "b"])
@pytest.mark.parametrize(
    ("kind", "k_major", "span"),
    [
        *((kind, True, span) for kind in KINDS for span in (0, *SPANS)),
        *((kind, False, span) for kind in KINDS[:2] for span in SPANS),
    ],
)
def test_tensor_cores_read_the_elements_of_the_buffer(which: Which, kind: str, k_major: bool, span: int) -> None:
    @settings(max_examples=30)
    @given(operands(kind, which, k_major, span), st.integers(0, 7), st.data())
    def check(case: Case, blocks: int, data: st.DataObject) -> None:
        buffer, outer_axis, k_axis, instruction, _ = case
        layout = buffer.layout
        assert isinstance(layout, SharedLayout)
        shape = [size for size in buffer.shape if isinstance(size, int)]
        operand = shared_operand(*case)
        assert (operand.k_major, operand.swizzle) == (k_major, span)
        rows = instruction.m if which == "a" else instruction.n
        outer = rows * data.draw(st.integers(0, shape[outer_axis] // rows - 1))
        k = instruction.k * data.draw(st.integers(0, shape[k_axis] // instruction.k - 1))
        stage = [data.draw(st.integers(0, size - 1)) if axis not in (outer_axis, k_axis) else 0
                 for axis, size in enumerate(shape)]  # fmt: skip
        base = layout.alignment * blocks
        start = base + layout.linear(shape, stage) * operand.width + operand.step(outer, k)
        assume(start < 1 << 18)  # a larger buffer fits into no shared memory
        descriptor = MatrixDescriptor.decode(operand.descriptor(start).encode())
        found = element_addresses(descriptor, k_major, rows, instruction.k, operand.width)
        coordinates = [np.full((rows, instruction.k), number) for number in stage]
        coordinates[outer_axis], coordinates[k_axis] = np.mgrid[outer : outer + rows, k : k + instruction.k]
        assert (found == base + layout.offset(shape, buffer.dtype, coordinates)).all()

    check()


@pytest.mark.parametrize(
    ("shape", "layout", "expected"),
    [
        ((128, 64), "rows(0, 1, swizzle=(3, 4, 3))", (True, 128, 16384, 1024)),
        ((128, 256), "rows(0, 1, swizzle=(3, 4, 3), panel=64)", (True, 128, 16384, 1024)),
        ((128, 64), "rows(0, 1, panel=8)", (True, 0, 2048, 128)),
        ((128, 64), "rows(1, 0, swizzle=(3, 4, 3), panel=64)", (False, 128, 8192, 1024)),
        ((128, 64), "rows(1, 0, swizzle=(1, 4, 3), panel=16)", (False, 32, 2048, 256)),
    ],
)
def test_operands(shape: tuple[int, int], layout: str, expected: tuple[bool, int, int, int]) -> None:
    instruction = instruction_of("m64n128k16_bf16_f32")
    operand = shared_operand(TileType(instruction.a, shape, "shared", parse_layout(layout)), 0, 1, instruction, "a")
    assert (operand.k_major, operand.swizzle, operand.leading, operand.stride) == expected


def test_steps() -> None:
    instruction = instruction_of("m64n128k16_bf16_f32")
    wide = parse_layout("rows(0, 1, swizzle=(3, 4, 3), panel=64)")
    across = shared_operand(TileType(instruction.a, (128, 128), "shared", wide), 0, 1, instruction, "a")
    assert [across.step(0, k) for k in (0, 16, 48, 64, 80)] == [0, 32, 96, 128 * 128, 128 * 128 + 32]
    assert across.step(64, 0) == 64 * 128
    down = shared_operand(TileType(instruction.b, (64, 256), "shared", wide), 1, 0, instruction, "b")
    assert [down.step(0, k) for k in (0, 16, 32)] == [0, 16 * 128, 32 * 128]
    assert down.step(128, 0) == 2 * 64 * 128


@pytest.mark.parametrize(
    ("name", "shape", "layout", "axes", "problem"),
    [
        ("k16_bf16_f32", (64, 64), "rows(0, 1, padding=8)", (0, 1), "is padded"),
        ("k16_bf16_f32", (64, 64), "rows(0, 1, swizzle=(3, 4, 6))", (0, 1), "the swizzle (3, 4, 6), which tensor"),
        ("k16_bf16_f32", (64, 64), "rows(0, 1)", (0, 1), "has rows of 64 elements in rows(0, 1), but no swizzle needs"),
        ("k16_bf16_f32", (64, 128), "rows(0, 1, swizzle=(3, 4, 3))", (0, 1), "a swizzle over 128 bytes needs panels"),
        ("k16_bf16_f32", (64, 32), "rows(0, 1, swizzle=(3, 4, 3))", (0, 1), "has rows of 32 elements in rows(0, 1,"),
        ("k16_bf16_f32", (64, 2, 64), "rows(0, 1, 2, swizzle=(3, 4, 3))", (0, 2), "does not have the axes 0 and 2 as"),
        ("k16_bf16_f32", (32, 64), "rows(0, 1, swizzle=(3, 4, 3))", (0, 1), "has 32 along N and 64 along K: no whole"),
        ("k16_bf16_f32", (68, 64), "rows(0, 1, swizzle=(3, 4, 3))", (0, 1), "has 68 rows, which are no whole groups"),
        ("k16_bf16_f32", (64, 8), "rows(1, 0, swizzle=(3, 4, 3))", (0, 1), "has 64 along N and 8 along K: no whole n6"),
        ("k16_bf16_f32", (64, 64), "rows(1, 0, panel=8)", (0, 1), "has neither K as its fastest axis nor a swizzle"),
        ("k32_i8_i32", (64, 64), "rows(1, 0, swizzle=(2, 4, 3))", (0, 1), "as elements of 1 bytes must"),
    ],
)
def test_what_cannot_be_read(
    name: str, shape: tuple[int, ...], layout: str, axes: tuple[int, int], problem: str
) -> None:
    instruction = instruction_of(f"m64n64{name}")
    buffer = TileType(instruction.b, shape, "shared", parse_layout(layout))
    with pytest.raises(ValueError) as caught:
        shared_operand(buffer, *axes, instruction, "b")
    assert problem in str(caught.value)


def test_what_else_cannot_be_read() -> None:
    instruction = instruction_of("m64n96k16_bf16_f32")
    wide = parse_layout("rows(0, 1, swizzle=(3, 4, 3), panel=64)")
    with pytest.raises(ValueError, match="over 128 bytes, of which 96 columns of m64n96k16_bf16_f32 are no multiple"):
        shared_operand(TileType(instruction.b, (16, 192), "shared", wide), 1, 0, instruction, "b")
    shared_operand(TileType(instruction.b, (16, 128), "shared", wide), 1, 0, instruction, "b")
    other = instruction_of("m64n64k8_tf32_f32")
    with pytest.raises(ValueError, match="is of bf16, but m64n64k8_tf32_f32 takes f32"):
        shared_operand(TileType(instruction.b, (64, 64), "shared", wide), 0, 1, other, "a")
    with pytest.raises(ValueError, match="is not in shared memory"):
        shared_operand(TileType(instruction.b, (64, 64), "register"), 0, 1, instruction, "a")

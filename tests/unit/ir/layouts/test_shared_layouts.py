"""The shared layouts that are chosen for what GPU programs do: no bank conflicts, counted from addresses."""

from __future__ import annotations

import pytest

from tiledsl.ir.dtypes import DType, bf16, f32, f64, i8
from tiledsl.ir.gpu.matrix_instructions import INSTRUCTIONS, tiled_layouts
from tiledsl.ir.layouts.buffer_layout import SharedLayout, Swizzle
from tiledsl.ir.layouts.layout import RegisterLayout, local, replicate, spatial
from tiledsl.ir.layouts.shared_layouts import (
    Access,
    access_turns,
    access_wavefronts,
    choose_shared_layout,
    fits_matrix,
    is_conflict_free,
    vector_elements,
)

BF16 = INSTRUCTIONS["m16n8k16_bf16_f32"]


def rows_of_16_bytes(rows: int, columns: int, dtype: DType, threads: int = 128) -> RegisterLayout:
    """How threads copy a matrix row by row, 16 bytes at a time."""
    vector = 16 // dtype.bytes
    across = columns // vector
    down = min(threads // across, rows)
    return local(rows // down, 1) * replicate(threads // (across * down), 2) * spatial(down, across) * local(1, vector)


@pytest.mark.parametrize("depth", [16, 32, 64, 128, 48, 96])
@pytest.mark.parametrize("instruction", ["m16n8k16_bf16_f32", "m16n8k32_i8_i32", "m16n8k8_tf32_f32"])
def test_operands_of_matrix_instructions(instruction: str, depth: int) -> None:
    kind = INSTRUCTIONS[instruction]
    dtype = kind.a
    assert dtype is not None
    if depth % kind.k or 128 * 16 // dtype.bytes % depth:
        pytest.skip("not a whole number of instructions or of rows")
    a, b, _ = tiled_layouts(kind, (2, 2), (128, 128, depth))
    copy = Access(rows_of_16_bytes(128, depth, dtype), (1, 2), "copy")
    for read in (Access(a, (1, 2), "matrix"), Access(b, (2, 1), "matrix")):  # both with rows of K
        shape = (3, 128, depth)
        layout = choose_shared_layout(shape, dtype, [copy, read])
        assert layout.order == (0, 1, 2)
        assert is_conflict_free(copy, layout, shape, dtype)
        assert is_conflict_free(read, layout, shape, dtype)
        assert vector_elements(copy.layout, layout, shape, dtype, (1, 2)) == 16 // dtype.bytes


@pytest.mark.parametrize("columns", [32, 64, 128, 256])
def test_an_operand_with_rows_of_n_is_read_transposed(columns: int) -> None:
    _, b, _ = tiled_layouts(BF16, (2, 2), (128, columns, 32))
    shape = (32, columns)
    accesses = [Access(rows_of_16_bytes(32, columns, bf16), (0, 1), "copy"), Access(b, (0, 1), "matrix-transposed")]
    layout = choose_shared_layout(shape, bf16, accesses)
    assert all(is_conflict_free(access, layout, shape, bf16) for access in accesses)


@pytest.mark.parametrize("dtype", [bf16, f32])
def test_an_accumulator_goes_out_by_rows(dtype: DType) -> None:
    shape = (64, 64)
    _, _, accumulator = tiled_layouts(BF16, (2, 2), (64, 64, 16))
    method = "matrix" if dtype is bf16 else "plain"
    accesses = [Access(accumulator, (0, 1), method), Access(rows_of_16_bytes(64, 64, dtype), (0, 1))]
    layout = choose_shared_layout(shape, dtype, accesses)
    assert all(is_conflict_free(access, layout, shape, dtype) for access in accesses)
    assert vector_elements(accesses[1].layout, layout, shape, dtype, (0, 1)) == 16 // dtype.bytes


@pytest.mark.parametrize(("dtype", "size"), [(bf16, 64), (f32, 32), (f64, 16)])
def test_transposing_through_memory(dtype: DType, size: int) -> None:
    shape = (size, size)
    layout = rows_of_16_bytes(size, size, dtype)
    accesses = [Access(layout, (0, 1)), Access(layout, (1, 0))]
    chosen = choose_shared_layout(shape, dtype, accesses)
    assert all(is_conflict_free(access, chosen, shape, dtype) for access in accesses)
    plain = SharedLayout((0, 1))
    assert access_wavefronts(accesses[1], plain, shape, dtype) > access_wavefronts(accesses[1], chosen, shape, dtype)


def test_a_plain_layout_is_kept_where_it_will_do() -> None:
    layout = rows_of_16_bytes(32, 64, bf16)
    assert choose_shared_layout((32, 64), bf16, [Access(layout, (0, 1))]) == SharedLayout((0, 1))
    assert choose_shared_layout((32, 64), bf16, []) == SharedLayout((0, 1))


def test_the_axis_of_the_accesses_counts_fastest_unless_the_order_is_given() -> None:
    layout = rows_of_16_bytes(32, 64, bf16)
    down = [Access(layout, (1, 0))]
    assert choose_shared_layout((64, 32), bf16, down) == SharedLayout((1, 0))
    assert choose_shared_layout((64, 32), bf16, down, order=(0, 1)).order == (0, 1)


def test_an_access_that_cannot_be_made_is_left_out() -> None:
    single = [Access(spatial(32, 1) * local(1, 8), (0, 1), "matrix"), Access(spatial(32, 1) * local(1, 8), (0, 1))]
    assert choose_shared_layout((32, 8), bf16, single) == choose_shared_layout((32, 8), bf16, single[1:])
    bytes_ = Access(spatial(32) * local(1), (0,), "copy")
    assert access_turns(bytes_, SharedLayout((0,)), (32,), i8) is None
    assert not is_conflict_free(bytes_, SharedLayout((0,)), (32,), i8)


def test_conflicts_are_counted() -> None:
    column = Access(spatial(32, 1), (0, 1))
    assert access_wavefronts(column, SharedLayout((0, 1)), (32, 32), f32) == 32
    assert access_wavefronts(column, SharedLayout((0, 1), padding=1), (32, 32), f32) == 1
    assert access_wavefronts(column, SharedLayout((0, 1), 0, Swizzle(5, 2, 5)), (32, 32), f32) == 1
    rows = Access(tiled_layouts(BF16, (1, 1), (16, 8, 16))[0], (0, 1), "matrix")
    assert access_wavefronts(rows, SharedLayout((0, 1)), (16, 64), bf16) == 4 * 8
    assert access_wavefronts(rows, SharedLayout((0, 1), 0, Swizzle(3, 4, 3)), (16, 64), bf16) == 4
    assert access_turns(rows, SharedLayout((0, 1)), (16, 64), bf16) is not None


@pytest.mark.parametrize(
    ("shared", "shape", "vector"),
    [
        (SharedLayout((0, 1)), (16, 64), 8),
        (SharedLayout((1, 0)), (16, 64), 1),
        (SharedLayout((0, 1), padding=8), (16, 64), 8),
        (SharedLayout((0, 1), padding=2), (16, 64), 2),
        (SharedLayout((0, 1), padding=1), (16, 64), 1),
        (SharedLayout((0, 1), 0, Swizzle(3, 4, 3)), (16, 64), 8),
        (SharedLayout((0, 1), 0, Swizzle(4, 3, 4)), (16, 64), 4),
        (SharedLayout((0, 1)), (16, 68), 4),
        (SharedLayout((0, 1)), (1, 67), 8),
        (SharedLayout((0, 1), panel=16), (16, 64), 8),
        (SharedLayout((0, 1), panel=4), (16, 64), 4),
        (SharedLayout((0, 1), panel=12), (16, 60), 4),
    ],
)
def test_vectors_keep_their_alignment(shared: SharedLayout, shape: tuple[int, int], vector: int) -> None:
    layout = spatial(4, 8) * local(1, 8)
    assert vector_elements(layout, shared, shape, bf16, (0, 1)) == vector


def test_vectors_of_odd_runs() -> None:
    plain = SharedLayout((0, 1))
    assert vector_elements(spatial(32, 1) * local(1, 6), plain, (32, 6), bf16, (0, 1)) == 2
    assert vector_elements(spatial(32, 1) * local(1, 12), plain, (32, 12), f32, (0, 1)) == 4
    assert vector_elements(spatial(32, 1) * local(1, 12), plain, (32, 24), bf16, (0, 1)) == 4
    assert vector_elements(spatial(8, 4), plain, (8, 4), bf16, (0, 1)) == 1


def test_matrices_are_rows_of_16_bytes() -> None:
    a, b, accumulator = tiled_layouts(BF16, (1, 1), (16, 8, 16))
    plain, turned = SharedLayout((0, 1)), SharedLayout((1, 0))
    assert fits_matrix(Access(a, (0, 1), "matrix"), plain, (16, 16), bf16)
    assert not fits_matrix(Access(a, (0, 1), "matrix"), turned, (16, 16), bf16)
    assert fits_matrix(Access(a, (0, 1), "matrix-transposed"), turned, (16, 16), bf16)
    assert not fits_matrix(Access(a, (0, 1), "matrix"), SharedLayout((0, 1), padding=4), (16, 16), bf16)
    assert not fits_matrix(Access(a, (0, 1), "matrix"), SharedLayout((0, 1), 0, Swizzle(2, 3, 4)), (16, 16), bf16)
    assert fits_matrix(Access(b, (0, 1), "matrix-transposed"), plain, (16, 8), bf16)
    assert fits_matrix(Access(b, (1, 0), "matrix"), plain, (8, 16), bf16)
    assert fits_matrix(Access(accumulator, (0, 1), "matrix"), plain, (16, 8), bf16)
    assert not fits_matrix(Access(accumulator, (0, 1), "matrix"), plain, (16, 8), f32)
    assert not fits_matrix(Access(accumulator, (0, 1), "matrix-transposed"), turned, (16, 8), f64)

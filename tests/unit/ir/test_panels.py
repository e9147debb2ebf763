"""Shared layouts whose fastest axis is cut into panels: every element has bytes of its own, and where they are."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiledsl.ir.dtypes import DType, bf16, f32, i8
from tiledsl.ir.layouts.buffer_layout import SharedLayout, Swizzle
from tiledsl.ir.layouts.layout import local, spatial
from tiledsl.ir.layouts.shared_layouts import Access, fits_matrix


@st.composite
def buffers(draw: st.DrawFn) -> tuple[SharedLayout, tuple[int, ...]]:
    """A layout with panels, and the shape of a buffer."""
    rank = draw(st.integers(2, 4))
    order = tuple(draw(st.permutations(range(rank))))
    shape = [draw(st.integers(1, 5)) for _ in range(rank)]
    panel = draw(st.sampled_from((1, 3, 4, 16, 64)))
    shape[order[-1]] = panel * draw(st.integers(1, 3))
    bits = draw(st.integers(0, 3))
    return SharedLayout(order, 0, Swizzle(bits, 4, 3) if bits else None, panel), tuple(shape)


@given(buffers(), st.sampled_from((bf16, f32, i8)))
def test_every_element_has_its_own_bytes(buffer: tuple[SharedLayout, tuple[int, ...]], dtype: DType) -> None:
    layout, shape = buffer
    offsets = np.sort(layout.offset(shape, dtype, list(np.indices(shape))).ravel())
    assert (np.diff(offsets) > 0).all()
    assert (offsets % dtype.bytes == 0).all()
    assert offsets[0] >= 0
    assert offsets[-1] + dtype.bytes <= layout.bytes(shape, dtype)
    size = prod(shape) * dtype.bytes
    assert size <= layout.bytes(shape, dtype) < size + 128
    if layout.swizzle is None or size % 128 == 0:  # then no byte is left over
        assert (offsets == np.arange(prod(shape)) * dtype.bytes).all()


@given(buffers())
def test_panels_lie_one_after_the_other(buffer: tuple[SharedLayout, tuple[int, ...]]) -> None:
    layout, shape = buffer
    fast, slow, panel = layout.order[-1], layout.order[-2], layout.panel
    coordinates = list(np.indices(shape))
    expected = coordinates[fast] % panel + coordinates[slow] * panel
    expected += coordinates[fast] // panel * (panel * shape[slow])
    step = shape[fast] * shape[slow]
    for axis in reversed(layout.order[:-2]):
        expected += coordinates[axis] * step
        step *= shape[axis]
    assert (layout.linear(shape, coordinates) == expected).all()
    strides, wide = layout.strides(shape), layout.panel_stride(shape)
    within = sum(c * s for axis, (c, s) in enumerate(zip(coordinates, strides)) if axis != fast)
    assert (expected == within + coordinates[fast] % panel + coordinates[fast] // panel * wide).all()


def test_one_panel_is_no_panel() -> None:
    shape = (4, 8, 64)
    swizzle = Swizzle(3, 4, 3)
    indices = list(np.indices(shape))
    whole, cut = SharedLayout((0, 1, 2), 0, swizzle), SharedLayout((0, 1, 2), 0, swizzle, 64)
    assert (whole.offset(shape, bf16, indices) == cut.offset(shape, bf16, indices)).all()
    assert whole.alignment == cut.alignment == 1024


def test_a_picture_of_panels() -> None:
    assert SharedLayout((0, 1), panel=2).show([2, 4], i8).splitlines() == [
        "byte offset of i8 [2, 4] in rows(0, 1, panel=2)",
        "   0  1  2  3",
        "0  0  1  4  5",
        "1  2  3  6  7",
    ]


def test_matrices_are_read_out_of_panels() -> None:
    rows = Access(local(1, 2) * local(2, 1) * spatial(8, 4) * local(1, 2), (0, 1), "matrix")
    assert fits_matrix(rows, SharedLayout((0, 1), 0, Swizzle(3, 4, 3), 64), (64, 128), bf16)
    assert fits_matrix(rows, SharedLayout((0, 1), panel=8), (64, 128), bf16)
    assert not fits_matrix(rows, SharedLayout((0, 1), panel=4), (64, 128), bf16)


def test_panels_are_not_padded() -> None:
    with pytest.raises(AssertionError, match="panels are of two axes"):
        SharedLayout((0, 1), 8, None, 8)
    with pytest.raises(AssertionError, match="panels are of two axes"):
        SharedLayout((0,), panel=8)

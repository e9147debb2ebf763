"""Every store writes its own elements and no others: guard bytes lie around them, for every dtype and extent."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.kernels.lowered_kernels import kernel_from_text
from tiledsl import tile
from tiledsl.ir import dtypes
from tiledsl.ir.dtypes import DType, to_numpy

Array = npt.NDArray[Any]
EXTENTS = tuple(range(1, 131))
FEW = tuple(e for e in EXTENTS if e < 20 or e % 32 in (0, 1, 2, 31) or e % 16 == 1)
"""Those next to whole vectors, of 4 to 32 elements."""
GAP = 64
"""Bytes between two stores: as many as a vector has."""
GUARD = 0xA5
STORED = tuple(d for d in dtypes.ALL if d.name not in ("i4", "u4"))  # those have no arrays


def known(extents: Sequence[int]) -> Any:
    """A kernel with an output for each extent, known when compiling, which gets the first elements of `x`."""
    lines = ["def known(x, D: tile.constexpr):"]
    lines += [f"    y{e} = tile.empty({e}, D)" for e in extents]
    lines += ["    for _ in tile.grid(1):"]
    lines += [f"        y{e}[:] = x[0:{e}]" for e in extents]
    lines += [f"    return {', '.join(f'y{e}' for e in extents)}"]
    return tile.kernel(kernel_from_text("\n".join(lines)))


@tile.kernel
def open_(x: tile.Tensor, y: tile.Tensor) -> None:
    """y = x in blocks of 16 or 128 elements, or as a whole, for any size."""
    N = y.shape[1]
    for _ in tile.grid(1):
        y[0, :] = x[0, :]
    for n in tile.grid(N, block=16):
        y[1, n] = x[1, n]
    for n in tile.grid(N, block=128):
        y[2, n] = x[2, n]


def source_of(dtype: DType) -> DType:
    """A dtype whose conversion to another takes the longest way there: narrowed, wherever that can be."""
    if dtype.is_float:
        return dtypes.f32 if dtype.bits != 32 else dtypes.f64
    return dtypes.i64 if dtype.bits != 64 else dtypes.i32


def numbers(dtype: DType, *shape: int) -> Array:
    """Numbers that every dtype can hold exactly (bool: as true and false)."""
    counted: Array = np.arange(math.prod(shape)) % 13
    return np.reshape(counted.astype(to_numpy(dtype)), shape)


class Guarded:
    """Memory with guard bytes all around what a kernel may write."""

    def __init__(self, dtype: DType, count: int) -> None:
        """Room for `count` elements."""
        self.dtype = to_numpy(dtype)
        self.raw: Array = np.full(count * dtype.bytes + 4 * GAP, GUARD, np.uint8)
        self.expected: Array = np.array(self.raw)

    def view(self, at: int, shape: tuple[int, ...], row: int) -> tuple[Array, Array]:
        """The elements from `at` on, with rows that lie `row` elements apart; and where their values are expected."""
        strides = (row * self.dtype.itemsize, self.dtype.itemsize)[-len(shape) :]
        start = 2 * GAP + at * self.dtype.itemsize
        actual, expected = (np.ndarray(shape, self.dtype, m, start, strides) for m in (self.raw, self.expected))
        return actual, expected

    @property
    def wrong(self) -> list[int]:
        """The bytes, counted from the first element, that are not what is expected."""
        places: list[int] = [int(i) - 2 * GAP for i in np.flatnonzero(self.raw != self.expected)]
        return places


@pytest.mark.parametrize("dtype", STORED, ids=str)
@pytest.mark.parametrize("extents", [FEW, pytest.param(EXTENTS, marks=pytest.mark.slow)], ids=["few", "all"])
def test_extents_that_are_known_when_compiling(dtype: DType, extents: tuple[int, ...]) -> None:
    gap = GAP // dtype.bytes
    starts = list(itertools.accumulate((extent + gap for extent in extents), initial=0))
    memory, x = Guarded(dtype, starts[-1]), numbers(source_of(dtype), 130)
    outputs: list[Array] = []
    for at, extent in zip(starts, extents):
        output, expected = memory.view(at, (extent,), 0)
        expected[...] = x[:extent]
        outputs.append(output)
    known(extents)(x, dtype, out=tuple(outputs))
    assert not memory.wrong, f"bytes {memory.wrong}, where stores of {dtype} begin at {starts}"


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_extents_that_are_known_at_the_call(dtype: DType) -> None:
    for extent in EXTENTS:
        row = extent + GAP // dtype.bytes
        memory, x = Guarded(dtype, 3 * row), numbers(source_of(dtype), 3, extent)
        rows, expected = memory.view(0, (3, extent), row)
        expected[...] = x
        open_(x, rows)
        assert not memory.wrong, f"{dtype}, {extent} elements"

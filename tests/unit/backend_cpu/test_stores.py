"""Every store writes its own elements and no others: guard bytes lie around them, for every dtype and extent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.kernels import kernel_from_text
from tiledsl import tile
from tiledsl.ir import dtypes
from tiledsl.ir.dtypes import DType, to_numpy

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


def numbers(dtype: DType, *shape: int) -> npt.NDArray[Any]:
    """Numbers that every dtype can hold exactly (bool: as true and false)."""
    return (np.arange(np.prod(shape)).reshape(shape) % 13).astype(to_numpy(dtype))


def guarded(dtype: DType, count: int) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
    """An array between guard bytes, with the memory that it lies in."""
    bytes_ = count * dtype.bytes
    raw = np.full(bytes_ + 4 * GAP, GUARD, np.uint8)
    return raw[2 * GAP : 2 * GAP + bytes_].view(to_numpy(dtype)), raw


@pytest.mark.parametrize("dtype", STORED, ids=str)
@pytest.mark.parametrize("extents", [FEW, pytest.param(EXTENTS, marks=pytest.mark.slow)], ids=["few", "all"])
def test_extents_that_are_known_when_compiling(dtype: DType, extents: tuple[int, ...]) -> None:
    gap = GAP // dtype.bytes
    starts: list[int] = np.cumsum([0, *(extent + gap for extent in extents)]).tolist()
    x = numbers(source_of(dtype), 130)
    y, raw = guarded(dtype, starts[-1])
    expected = raw.copy()
    view = expected[2 * GAP : -2 * GAP].view(y.dtype)
    for at, extent in zip(starts, extents):
        view[at : at + extent] = x[:extent].astype(y.dtype)
    known(extents)(x, dtype, out=tuple(y[at : at + extent] for at, extent in zip(starts, extents)))
    wrong = np.flatnonzero(raw != expected)
    assert wrong.size == 0, f"bytes {wrong - 2 * GAP}, where stores of {dtype} begin at {starts}"


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_extents_that_are_known_at_the_call(dtype: DType) -> None:
    for extent in EXTENTS:
        x = numbers(source_of(dtype), 3, extent)
        y, raw = guarded(dtype, 3 * (extent + GAP))
        rows = y.reshape(3, extent + GAP)[:, :extent]
        before = raw.copy()
        open_(x, rows)
        before[2 * GAP : -2 * GAP].view(to_numpy(dtype)).reshape(3, extent + GAP)[:, :extent] = x.astype(rows.dtype)
        assert (raw == before).all(), f"{dtype}, {extent} elements"

"""Tensors in which two axes have a stride of one element: only along one of them may code access vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gemm import gemm
from tests.support.compare import assert_close
from tests.support.op_checks import normal
from tiledsl import tile

SIZES = (3, 8, 33)


@tile.kernel
def columns(x: Any) -> Any:
    """Windows that overlap, as columns: strides cannot tell that, so it is a copy."""
    length = x.shape[1]
    windows = tile.window(tile.pad(x, ((0, 0), (1, 1))), (3,), (1,), (1,), (1,))
    return windows.transpose(0, 2, 1).reshape(x.shape[0] * 3, length)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_windows_that_overlap(size: int, arch: str) -> None:
    x = normal(4, size, dtype=np.float16)
    padded = np.pad(x, ((0, 0), (1, 1)))
    wanted = np.array([row[i : i + size] for row in padded for i in range(3)])
    found: Any = columns.emulate(x, arch=arch)
    assert_close(found, wanted)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.filterwarnings("ignore::tiledsl.TilePerformanceWarning")
def test_products_of_one_column(size: int, arch: str) -> None:
    a, b = normal(size, 1, dtype=np.float16), normal(1, 2 * size, dtype=np.float16)
    assert a.strides == (2, 2)
    found: Any = gemm.emulate(a, b, arch=arch)
    assert_close(found, a @ b)

"""Shifted accesses that leave a tensor on either side, as CUDA C that runs on the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.gpu_code.cuda_on_host import aligned, host_compiler, run_on_host
from tests.support.gpu_code.gpu_lowering import variants
from tests.support.kernels.lowered_kernels import lower, tensor
from tiledsl import tile
from tiledsl.backend_cuda.emit.emit_program import emit_program


def windows(x: tile.Tensor) -> tile.Tensor:
    """Of each shift what is there; and the same stored to where it came from."""
    M, N = x.shape
    y = tile.empty((7, M, N), x.dtype)
    for m, n in tile.grid(M, N):
        y[0, m, n] = tile.load(x[m, n - 40], other=7)
        y[1, m, n] = tile.load(x[m - 1, n - 3], other=7)
        y[2, m, n] = tile.load(x[m + 1, n], other=7)
        y[3, m, n] = tile.load(x[m, n + 2], other=7)
        y[4, m, n] = tile.load(x[m, n + 40], other=7)
        y[5, m, n - 1] = x[m, n]
        y[6, m, n + 16] = x[m, n]
    return y


def shifted(x: Any, rows: int, columns: int) -> Any:
    """Element (m, n) is that at (m + rows, n + columns) of x, 7 outside."""
    far = 64
    wide: Any = np.full((x.shape[0] + 2 * far, x.shape[1] + 2 * far), 7, np.float32)
    wide[far:-far, far:-far] = x
    return wide[far + rows :, far + columns :][: x.shape[0], : x.shape[1]]


@pytest.mark.skipif(host_compiler() is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("shape", [(1, 1), (3, 37), (5, 300), (3, 304)])
def test_what_is_outside_is_the_other_value(shape: tuple[int, int], tmp_path: Path) -> None:
    x: Any = aligned(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    module = lower(windows, x=tensor(2))
    _, code = next(variants(module, [x], "sm_90"))
    (y,) = run_on_host(emit_program(code, 90), code.entry, [x], tmp_path)
    expected = [(0, -40), (-1, -3), (1, 0), (0, 2), (0, 40)]
    for number, shift in enumerate(expected):
        np.testing.assert_array_equal(y[number], shifted(x, *shift))
    np.testing.assert_array_equal(y[5][:, :-1], x[:, 1:])
    np.testing.assert_array_equal(y[6][:, 16:], x[:, :-16])

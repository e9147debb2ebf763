"""Folds of columns whose results only go to memory: the first warps fold what all warps have, as CUDA C on the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.gpu_code.cuda_on_host import host_compiler, run_on_host
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.ir.dtypes import DType, f32, i64
from tiledsl.ir.layouts.fold_plans import fold_scratch_bytes
from tiledsl.ir.layouts.layout import RegisterLayout, local, spatial
from tiledsl.ir.text.parser import parse_module

THREADS = 128
LAYOUTS = [
    spatial(16, 8) * local(3, 4),  # lanes and warps down the columns
    local(5, 1) * spatial(4, 32) * local(1, 2),  # warps alone
    local(2, 2) * spatial(32, 4) * local(1, 1),
]
FIRST = "if (thread / 32 % 4 == 0) {"


def program(layout: RegisterLayout, fn: str, apart: bool) -> str:
    """y is the fold of each column of x; these are folded in turn, if not `apart`."""
    rows, columns = layout.shape
    kinds: tuple[DType, ...] = (f32,) if fn == "add" else (i64, f32)
    size = fold_scratch_bytes(layout, (0,), kinds, THREADS, fn)
    again = "" if apart else "%all = gpu.reduce([%s]) {axes = [0], fn = max}"
    dtype = "f32" if fn == "add" else "i64"
    return f"""
func @fold(%x: tensor<f32, [{rows}, {columns}], unit=1>) {{
  %y = tile.empty() {{shape = [{columns}], dtype = {dtype}}}
  %one = tile.constant() {{value = 1, dtype = i64}}
  gpu.launch([%one]) {{blocks = [1], threads = {THREADS}, shared_bytes = {size}}} body(%p: i64) {{
    %zero = tile.constant() {{value = 0, dtype = i64}}
    %scratch = gpu.buffer() {{shape = [{size}], dtype = u8, layout = rows(0), offset = 0}}
    %values = gpu.load(%x, [%zero, %zero], []) {{axes = [0, 1], shape = [{rows}, {columns}], layout = {layout}}}
    %s = gpu.reduce([%values], %scratch) {{axes = [0], fn = {fn}}}
    gpu.store(%y, [%zero], %s, []) {{axes = [0]}}
    {again}
  }}
  tile.return([%y])
}}
"""


@pytest.mark.skipif(host_compiler() is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("fn", ["add", "argmax"])
@pytest.mark.parametrize("apart", [True, False])
def test_folds_of_columns(fn: str, apart: bool, tmp_path: Path) -> None:
    for number, layout in enumerate(LAYOUTS):
        module = parse_module(program(layout, fn, apart))
        x: Any = np.random.default_rng(number).integers(-9, 9, layout.shape).astype(np.float32)
        folder = tmp_path / str(number)
        folder.mkdir()
        code = emit_program(module, 90)
        assert (FIRST in code.text) == apart
        (actual,) = run_on_host(code, module.entry, [x], folder)
        np.testing.assert_array_equal(actual, x.sum(0) if fn == "add" else x.argmax(0))

"""Sorts in every layout in which threads have runs of powers of two: as CUDA C that runs on the host."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.gpu_code.cuda_on_host import host_compiler, run_on_host
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.ir.dtypes import BY_NAME, to_numpy
from tiledsl.ir.layouts.layout import RegisterLayout, local, spatial
from tiledsl.ir.layouts.sort_plans import plan_sort, row_threads, sort_layout
from tiledsl.ir.text.parser import parse_module

THREADS = 128
LAYOUTS = [
    (spatial(1, 128) * local(1, 4), 1),  # a row of all warps
    (spatial(1, 128), 1),  # an element for each thread
    (local(2, 1) * spatial(2, 64) * local(1, 2), 1),  # rows of two warps
    (spatial(4, 32) * local(1, 8), 1),  # a warp for each row
    (local(3, 1) * spatial(16, 8) * local(1, 4), 1),  # rows of eight lanes
    (spatial(128, 1) * local(2, 8), 1),  # a row within a thread
    (spatial(128, 1) * local(3, 1), 1),  # one element
    (spatial(2, 64) * local(2, 2), 1),
]
DTYPES = ("u32", "i64", "u64", "i16", "u8")


def program(layout: RegisterLayout, axis: int, dtype: str) -> str:
    rows, columns = layout.shape
    plan = plan_sort(layout, axis, THREADS)
    assert plan is not None
    size = plan.scratch_bytes(BY_NAME[dtype], THREADS)
    buffer = f"%room = gpu.buffer() {{shape = [{size}], dtype = u8, layout = rows(0), offset = 0}}" if size else ""
    return f"""
func @in_order(%x: tensor<{dtype}, [{rows}, {columns}], unit=1>) {{
  %y = tile.empty() {{shape = [{rows}, {columns}], dtype = {dtype}}}
  %one = tile.constant() {{value = 1, dtype = i64}}
  gpu.launch([%one]) {{blocks = [1], threads = {THREADS}, shared_bytes = {size}}} body(%p: i64) {{
    %zero = tile.constant() {{value = 0, dtype = i64}}
    {buffer}
    %values = gpu.load(%x, [%zero, %zero], []) {{axes = [0, 1], shape = [{rows}, {columns}], layout = {layout}}}
    %found = gpu.sort(%values{", %room" if size else ""}) {{axis = {axis}}}
    gpu.store(%y, [%zero, %zero], %found, []) {{axes = [0, 1]}}
  }}
  tile.return([%y])
}}
"""


@pytest.mark.skipif(host_compiler() is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("dtype", DTYPES)
def test_sorts(dtype: str, tmp_path: Path) -> None:
    kind = to_numpy(BY_NAME[dtype])
    for number, (layout, axis) in enumerate(LAYOUTS):
        module = parse_module(program(layout, axis, dtype))
        most = np.iinfo(kind).max
        x = np.random.default_rng(number).integers(0, min(most, 300), layout.shape).astype(kind)
        x[::2, ::3] = most
        folder = tmp_path / str(number)
        folder.mkdir()
        (actual,) = run_on_host(emit_program(module, 90), module.entry, [x], folder)
        np.testing.assert_array_equal(actual, np.sort(x, axis=axis), err_msg=str(layout))


def test_what_has_no_plan() -> None:
    of_three = spatial(1, 128) * local(1, 3)
    in_chunks = local(1, 2) * spatial(1, 128) * local(1, 2)
    apart = spatial(32, 1) * spatial(1, 4) * local(1, 4)
    assert [plan_sort(layout, 1, THREADS) for layout in (of_three, in_chunks)] == [None, None]
    assert plan_sort(apart, 1, THREADS) is not None  # four lanes side by side, of rows in other lanes
    assert plan_sort(spatial(1, 4) * spatial(32, 1) * local(1, 4), 1, THREADS) is None


def test_long_rows_have_more_threads() -> None:
    assert [row_threads((1, size), 1, 256, 8) for size in (16, 512, 4096)] == [16, 256, 256]  # nobody else is there
    assert [row_threads((64, size), 1, 256, 8) for size in (16, 512, 4096)] == [4, 32, 256]
    for shape in ((64, 16), (3, 512), (1, 4096)):
        assert plan_sort(sort_layout(shape, 1, 256, 1, 8), 1, 256) is not None

"""Scans in every layout in which threads stand along the axis in order: as CUDA C that runs on the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.gpu_code.cuda_on_host import host_compiler, run_on_host
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.ir.dtypes import f32
from tiledsl.ir.layouts.layout import RegisterLayout, local, spatial
from tiledsl.ir.layouts.scan_plans import plan_scan, suits_scan
from tiledsl.ir.text.parser import parse_module

THREADS = 128
LAYOUTS = [
    (spatial(1, 128) * local(1, 4), 1),  # a run for each thread
    (local(1, 3) * spatial(1, 128) * local(1, 2), 1),  # chunks, each of all warps
    (local(2, 3) * spatial(2, 64) * local(1, 2), 1),  # rows of two warps each
    (local(1, 4) * spatial(4, 32) * local(1, 2), 1),  # a warp for each row
    (local(3, 2) * spatial(16, 8) * local(1, 4), 1),  # rows of eight lanes
    (spatial(128, 1) * local(2, 8), 1),  # a row within a thread
    (local(2, 1) * spatial(32, 4) * local(1, 2), 0),  # down columns: lanes, warps, chunks
    (spatial(32, 4) * local(2, 2), 0),
    (local(2, 3) * spatial(1, 128) * local(1, 1), 0),  # a column within a thread
    (local(2, 11) * spatial(1, 128) * local(1, 1), 1),  # lanes go through what warps come to, 32 at a time
    (local(1, 8) * spatial(2, 64) * local(1, 2), 1),
]
COMBINERS = {
    "add": "fn = add",
    "max": "fn = max",
    "custom": "fn = custom",
}
USUAL = [("add", False), ("custom", True)]
OTHERS = [("add", True), ("custom", False), ("max", False), ("max", True)]
TWO_STEPS = """ combiner(%l: f32, %l1: f32, %r: f32, %r1: f32) {
      %d = tile.map([%l, %r]) {fn = mul}
      %e = tile.map([%l1, %r]) {fn = mul}
      %s = tile.map([%e, %r1]) {fn = add}
      tile.yield([%d, %s])
    }"""


def program(layout: RegisterLayout, axis: int, fn: str, reverse: bool) -> str:
    """y is the scan of x; by pairs of x and 1, where a combiner says how."""
    rows, columns = layout.shape
    plan = plan_scan(layout, axis, THREADS)
    assert plan is not None
    size = plan.scratch_bytes([f32, f32] if fn == "custom" else [f32])
    buffer = f"%totals = gpu.buffer() {{shape = [{size}], dtype = u8, layout = rows(0), offset = 0}}" if size else ""
    scratch = ", %totals" if size else ""
    fields = f"{{axis = {axis}, {COMBINERS[fn]}{', reverse = true' if reverse else ''}}}"
    scan = f"%sums = gpu.scan([%values]{scratch}) {fields}"
    if fn == "custom":
        scan = f"%_, %sums = gpu.scan([%values, %values]{scratch}) {fields}{TWO_STEPS}"
    return f"""
func @running(%x: tensor<f32, [{rows}, {columns}], unit=1>) {{
  %y = tile.empty() {{shape = [{rows}, {columns}], dtype = f32}}
  %one = tile.constant() {{value = 1, dtype = i64}}
  gpu.launch([%one]) {{blocks = [1], threads = {THREADS}, shared_bytes = {size}}} body(%p: i64) {{
    %zero = tile.constant() {{value = 0, dtype = i64}}
    {buffer}
    %values = gpu.load(%x, [%zero, %zero], []) {{axes = [0, 1], shape = [{rows}, {columns}], layout = {layout}}}
    {scan}
    gpu.store(%y, [%zero, %zero], %sums, []) {{axes = [0, 1]}}
  }}
  tile.return([%y])
}}
"""


def expected(x: Any, axis: int, fn: str, reverse: bool) -> Any:
    lines = np.moveaxis(x, axis, 0)[:: -1 if reverse else 1].astype(np.float64)
    found = np.empty_like(lines)
    state: Any = None
    for i, line in enumerate(lines):
        if fn == "custom":
            state = line if state is None else state * line + line
        else:
            state = line if state is None else (state + line if fn == "add" else np.maximum(state, line))
        found[i] = state
    return np.moveaxis(found[:: -1 if reverse else 1], 0, axis)


@pytest.mark.skipif(host_compiler() is None, reason="there is no C++ compiler")
@pytest.mark.parametrize(
    ("fn", "reverse"),
    [*USUAL, *(pytest.param(fn, reverse, marks=pytest.mark.slow) for fn, reverse in OTHERS)],
)
def test_scans(fn: str, reverse: bool, tmp_path: Path) -> None:
    for number, (layout, axis) in enumerate(LAYOUTS):
        module = parse_module(program(layout, axis, fn, reverse))
        x = np.random.default_rng(number).uniform(-1, 1, layout.shape).astype(np.float32)
        folder = tmp_path / str(number)
        folder.mkdir()
        (actual,) = run_on_host(emit_program(module, 90), module.entry, [x], folder)
        np.testing.assert_allclose(actual, expected(x, axis, fn, reverse), rtol=1e-4, atol=1e-4, err_msg=str(layout))


def test_threads_out_of_order_have_no_plan() -> None:
    between = spatial(1, 4) * local(1, 3) * spatial(1, 32)
    assert plan_scan(between, 1, THREADS) is None
    assert plan_scan(between, 0, THREADS) is not None
    of_a_cluster = spatial(1, 2) * spatial(1, 128)
    assert plan_scan(of_a_cluster, 1, THREADS) is None


def test_many_chunks_are_better_moved() -> None:
    for chunks, suits in ((4, True), (16, True), (128, True), (256, False)):
        assert suits_scan(local(1, chunks) * spatial(1, 128) * local(1, 2), 1, THREADS) == suits

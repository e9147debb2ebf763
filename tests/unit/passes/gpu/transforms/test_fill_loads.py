"""Pads that loads make needless: which of them go, and that infinities and NaN come out as before."""

from __future__ import annotations

import numpy as np
import pytest

from tiledsl.backend_ref.execute_gpu import execute_gpu
from tiledsl.ir.core import Module
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.gpu.transforms.fill_loads import FillLoads
from tiledsl.passes.machine import MACHINES
from tiledsl.passes.manager import PassContext

TYPE = "tile<f32, [4, 4], register, replicate(2) * spatial(4, 4)>"


def program(body: str, load: str = "") -> Module:
    """Tiles of 4 x 4, of which 3 x 3 are there."""
    fields = "axes = [-1, 0, 1], masked = [0, 1], shape = [4, 4], layout = replicate(2) * spatial(4, 4)"
    text = f"""
func @case(%x: tensor<f32, [M, R, C], unit=2>) {{
  %out = tile.empty() {{shape = [M, R], dtype = f32}}
  %M = tile.size() {{value = M}}
  %R = tile.size() {{value = R}}
  %C = tile.size() {{value = C}}
  %0 = tile.constant() {{value = 0, dtype = i64}}
  %least = tile.constant() {{value = -inf, dtype = f32}}
  %zero = tile.constant() {{value = 0.0, dtype = f32}}
  %half = tile.constant() {{value = 0.5, dtype = f32}}
  %less = tile.constant() {{value = -0.5, dtype = f32}}
  gpu.launch([%M]) {{blocks = [1], threads = 32}} body(%m: i64) {{
    %x_1 = gpu.load(%x, [%m, %0, %0], [%R, %C]{load}) {{{fields}}}
{body}
    gpu.store(%out, [%m, %0], %sum, [%R]) {{axes = [-1, 0], masked = [0]}}
    tile.yield([])
  }}
  tile.return([%out])
}}
"""
    return parse_module(text)


TOP = """
    %all = gpu.pad(%x_1, [%C], %least) {axes = [1]}
    %top = gpu.reduce([%all]) {axes = [1], fn = max, keepdims = true}
"""
SUM = """
    %q = gpu.pad(%p, [%C], %zero) {axes = [1]}
    %sum = gpu.reduce([%q]) {axes = [1], fn = add}
"""
SOFTMAX = f"""{TOP}
    %tops = tile.broadcast(%top) {{shape = [4, 4]}} : {TYPE}
    %far = tile.map([%x_1, %tops]) {{fn = sub}} : {TYPE}
    %p = tile.map([%far]) {{fn = exp2}} : {TYPE}
{SUM}"""
SCALED = f"""{TOP}
    %scaled = tile.map([%x_1, %NUMBER]) {{fn = mul}} : {TYPE}
    %tops = tile.broadcast(%top) {{shape = [4, 4]}} : {TYPE}
    %lower = tile.map([%tops, %NUMBER]) {{fn = mul}} : {TYPE}
    %far = tile.map([%scaled, %lower]) {{fn = sub}} : {TYPE}
    %p = tile.map([%far]) {{fn = exp2}} : {TYPE}
{SUM}"""
ALONE = f"""
    %p = tile.map([%x_1, %half]) {{fn = mul}} : {TYPE}
{SUM}"""
AWAY = f"""{TOP}
    %p = tile.map([%x_1, %half]) {{fn = add}} : {TYPE}
{SUM}"""
CHOSEN = f"""{TOP}
    %tops = tile.broadcast(%top) {{shape = [4, 4]}} : {TYPE}
    %far = tile.map([%x_1, %tops]) {{fn = sub}} : {TYPE}
    %powers = tile.map([%far]) {{fn = exp2}} : {TYPE}
    %zeros = tile.broadcast(%zero) {{shape = [4, 4]}} : {TYPE}
    %is = tile.map([%x_1, %zeros]) {{fn = ge}} : tile<bool, [4, 4], register, replicate(2) * spatial(4, 4)>
    %p = tile.map([%is, %powers, %zeros]) {{fn = where}} : {TYPE}
{SUM}"""
COLUMNS = f"""
    %all = gpu.pad(%x_1, [%R], %least) {{axes = [0]}}
    %top = gpu.reduce([%all]) {{axes = [0], fn = max, keepdims = true}}
    %tops = tile.broadcast(%top) {{shape = [4, 4]}} : {TYPE}
    %far = tile.map([%x_1, %tops]) {{fn = sub}} : {TYPE}
    %p = tile.map([%far]) {{fn = exp2}} : {TYPE}
{SUM}"""
CASES = {
    "softmax": (SOFTMAX, 0),
    "scaled": (SCALED.replace("NUMBER", "half"), 0),
    "scaled by less than 0": (SCALED.replace("NUMBER", "less"), 1),
    "nothing but a sum": (ALONE, 0),
    "what is not known": (AWAY, 1),
    "rows of which a part is chosen": (CHOSEN, 1),
    "the largest of columns": (COLUMNS, 1),
}


def pads(module: Module) -> int:
    return sum(isinstance(op, gpu.Pad) for op in module.walk())


def filled(module: Module) -> Module:
    return FillLoads().run(module, PassContext(MACHINES["avx2"]))


@pytest.mark.parametrize("case", CASES)
def test_pads_that_are_left_and_results(case: str) -> None:
    body, left = CASES[case]
    x = np.random.default_rng(0).standard_normal((5, 3, 3)).astype(np.float32)
    x[1] = -np.inf
    x[2, 1] = -np.inf
    x[3, :, 0], x[4, 1, 1] = np.inf, np.nan
    with np.errstate(all="ignore"):
        (want,) = execute_gpu(program(body).entry, [x])
        module = filled(program(body))
        (got,) = execute_gpu(module.entry, [x])
    assert pads(module) == left
    np.testing.assert_array_equal(got, want)


def test_what_a_program_gives_for_what_is_not_there_stays() -> None:
    assert pads(filled(program(ALONE, load=", %half"))) == 1
    assert pads(filled(program(SOFTMAX, load=", %least"))) == 0

"""Bools of memory are bytes: threads that have several side by side move them as words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.gpu_code.cuda_on_host import host_compiler, run_on_host
from tests.support.gpu_code.sass import disassemble
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.ir.text.parser import parse_module

LAYOUT, TURNED = "spatial(2, 32) * local(1, 16)", "local(2, 2) * spatial(1, 64) * local(1, 4)"
PROGRAM = f"""
func @positive(%x: tensor<f32, [2, 512], unit=1>) {{
  %y = tile.empty() {{shape = [2, 512], dtype = bool}}
  %one = tile.constant() {{value = 1, dtype = i64}}
  gpu.launch([%one]) {{blocks = [1], threads = 64, shared_bytes = 1024}} body(%p: i64) {{
    %zero = tile.constant() {{value = 0, dtype = i64}}
    %none = tile.constant() {{value = 0.0, dtype = f32}}
    %values = gpu.load(%x, [%zero, %zero], []) {{axes = [0, 1], shape = [2, 512], vector = 4, layout = {LAYOUT}}}
    %found = tile.map([%values, %none]) {{fn = gt}} : tile<bool, [2, 512], register, {LAYOUT}>
    %room = gpu.buffer() {{shape = [2, 512], dtype = bool, layout = rows(0, 1), offset = 0}}
    gpu.write(%room, %found, [%zero, %zero]) {{places = [0, 1], vector = 16}}
    gpu.barrier()
    %turned = gpu.read(%room, [%zero, %zero]) {{places = [0, 1], shape = [2, 512], vector = 4, layout = {TURNED}}}
    %not = tile.map([%turned]) {{fn = not}} : tile<bool, [2, 512], register, {TURNED}>
    gpu.store(%y, [%zero, %zero], %not, []) {{axes = [0, 1], vector = 4}}
  }}
  tile.return([%y])
}}
"""


@pytest.mark.skipif(host_compiler() is None, reason="there is no C++ compiler")
def test_they_are_moved_as_words(tmp_path: Path) -> None:
    module = parse_module(PROGRAM)
    x = np.random.default_rng(0).normal(size=(2, 512)).astype(np.float32)
    (y,) = run_on_host(emit_program(module, 90), module.entry, [x], tmp_path)
    np.testing.assert_array_equal(y, x <= 0)


def test_nothing_is_moved_byte_by_byte() -> None:
    source = emit_program(parse_module(PROGRAM), 90)
    (code,) = disassemble(compile_cubin(source.text, "sm_90", "positive")).values()
    assert not [name for name in code.counts if ".U8" in name], code.counts

"""GPU programs as text, for tests of passes: a launch with what most bodies need."""

from __future__ import annotations

from tiledsl.ir.core import Module
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.machine import MACHINES
from tiledsl.passes.manager import Pass, PassContext


def launch_text(body: str, *, cluster: int = 1, threads: int = 64) -> str:
    """A program with the tensors %a and %b of f32, in which `body` stands in a launch of 64 threads.

    There are the numbers %0, %1, %32, %64 and %M, the condition %c, the tiles %x of 64 and %h of 32 elements, and the
    buffers %s of 64 elements, %t of 3 times 64, and %bytes.
    """
    return f"""
func @f(%a: tensor<f32, [M], unit=0>, %b: tensor<f32, [M], unit=0>) {{
  %M = tile.size() {{value = M}}
  gpu.launch([%M]) {{blocks = [64], threads = {threads}, cluster = {cluster}}} body(%m: i64) {{
    %0 = tile.constant() {{value = 0, dtype = i64}}
    %1 = tile.constant() {{value = 1, dtype = i64}}
    %32 = tile.constant() {{value = 32, dtype = i64}}
    %64 = tile.constant() {{value = 64, dtype = i64}}
    %half = tile.constant() {{value = 0.5, dtype = f32}}
    %c = tile.map([%m, %32]) {{fn = lt}}
    %s = gpu.buffer() {{shape = [64], dtype = f32, layout = rows(0)}}
    %t = gpu.buffer() {{shape = [3, 64], dtype = f32, layout = rows(0, 1)}}
    %bytes = gpu.buffer() {{shape = [256], dtype = u8, layout = rows(0)}}
    %x = gpu.load(%a, [%m], []) {{axes = [0], shape = [64], layout = spatial(64)}}
    %h = gpu.load(%a, [%m], []) {{axes = [0], shape = [32], layout = replicate(2) * spatial(32)}}
    {body}
  }}
  tile.return([])
}}
"""


def run_pass(step: Pass | None, text: str) -> Module:
    """The module of `text` after a pass, or as it is."""
    module = parse_module(text)
    return module if step is None else step.run(module, PassContext(MACHINES["avx2"]))

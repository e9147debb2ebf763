"""GPU IR as text, and running it in the GPU executor."""

from __future__ import annotations

import random
from typing import Any

import numpy.typing as npt

from tiledsl.backend_ref.arguments import Argument
from tiledsl.backend_ref.execute_gpu import execute_gpu
from tiledsl.ir.core import Module
from tiledsl.ir.gpu.matrix_instructions import INSTRUCTIONS, tiled_layouts
from tiledsl.ir.text.parser import parse_module

Array = npt.NDArray[Any]


def run_gpu(text: str, *arguments: Argument, seed: int | None = 0, **options: Any) -> tuple[Array, ...]:
    """Runs the first function of `text`; programs go in an order that follows from `seed` (None: row-major)."""
    return run_gpu_module(parse_module(text), *arguments, seed=seed, **options)


def run_gpu_module(module: Module, *arguments: Argument, seed: int | None = 0, **options: Any) -> tuple[Array, ...]:
    """As `run_gpu`, for a module."""
    order = None if seed is None else random.Random(seed)
    return execute_gpu(module.entry, arguments, order=order, **options)


def program(body: str, parameters: str, *, threads: int = 32, cluster: int = 1, shared: int = 0) -> str:
    """A function of one program; `%zero` is 0 in it, and `%f0` and `%f1` are 0 and 1 as f32."""
    launch = f"blocks = [1], threads = {threads}, cluster = {cluster}, shared_bytes = {shared}"
    return f"""
func @f({parameters}) {{
  %one = tile.constant() {{value = 1, dtype = i64}}
  %zero = tile.constant() {{value = 0, dtype = i64}}
  %f0 = tile.constant() {{value = 0.0, dtype = f32}}
  %f1 = tile.constant() {{value = 1.0, dtype = f32}}
  gpu.launch([%one]) {{{launch}}} body(%p: i64) {{
    {body}
  }}
  tile.return([])
}}
"""


# Two tensors of any size: blocks of 32 x 64 on 64 threads, with vectors of 4 along rows whose length is a multiple.
ADD = """
func @add(%x: tensor<f32, [M, N], unit=1>, %y: tensor<f32, [M, N], unit=1>) {
  %z = tile.empty() {shape = [M, N], dtype = f32}
  %M = tile.size() {value = M}
  %N = tile.size() {value = N}
  gpu.launch([%M, %N]) {blocks = [32, 64], threads = 64} body(%m: i64, %n: i64) {
    %rows = tile.map([%M, %m]) {fn = sub}
    %columns = tile.map([%N, %n]) {fn = sub}
    %a = gpu.load(%x, [%m, %n], [%rows, %columns])
      {axes = [0, 1], masked = [0, 1], vector = 4, shape = [32, 64], layout = LAYOUT}
    %b = gpu.load(%y, [%m, %n], [%rows, %columns])
      {axes = [0, 1], masked = [0, 1], vector = 4, shape = [32, 64], layout = LAYOUT}
    %c = tile.map([%a, %b]) {fn = add} : tile<f32, [32, 64], register, LAYOUT>
    gpu.store(%z, [%m, %n], %c, [%rows, %columns]) {axes = [0, 1], masked = [0, 1], vector = 4}
  }
  tile.return([%z])
}
""".replace("LAYOUT", "local(8, 1) * spatial(4, 16) * local(1, 4)")

# Blocks of 64 x 64 on four warps; two stages of 32 of K, each copied while the other one is read.
_A, _B, _ACC = tiled_layouts(INSTRUCTIONS["m16n8k16_bf16_f32"], (2, 2), (64, 64, 32))
GEMM = f"""
func @gemm(%a: tensor<bf16, [M, K], unit=1>, %b: tensor<bf16, [K, N], unit=1>) {{
  %c = tile.empty() {{shape = [M, N], dtype = f32}}
  %M = tile.size() {{value = M}}
  %N = tile.size() {{value = N}}
  %K = tile.size() {{value = K}}
  %zero = tile.constant() {{value = 0, dtype = i64}}
  %one = tile.constant() {{value = 1, dtype = i64}}
  %two = tile.constant() {{value = 2, dtype = i64}}
  %step = tile.constant() {{value = 32, dtype = i64}}
  gpu.launch([%M, %N]) {{blocks = [64, 64], threads = 128, shared_bytes = 16384}} body(%m: i64, %n: i64) {{
    %rows = tile.map([%M, %m]) {{fn = sub}}
    %columns = tile.map([%N, %n]) {{fn = sub}}
    %as = gpu.buffer() {{shape = [2, 64, 32], dtype = bf16, layout = rows(0, 1, 2, swizzle=(2, 4, 3)), offset = 0}}
    %bs = gpu.buffer() {{shape = [2, 32, 64], dtype = bf16, layout = rows(0, 1, 2, swizzle=(3, 4, 3)), offset = 8192}}
    %fill = tile.constant() {{value = 0.0, dtype = f32}}
    %start = tile.broadcast(%fill) {{shape = [64, 64]}} : tile<f32, [64, 64], register, {_ACC}>
    gpu.copy(%a, [%m, %zero], [%rows, %K], %as, [%zero, %zero, %zero])
      {{axes = [0, 1], masked = [0, 1], places = [1, 2], vector = 8, shape = [64, 32], layout = COPY_A}}
    gpu.copy(%b, [%zero, %n], [%K, %columns], %bs, [%zero, %zero, %zero])
      {{axes = [0, 1], masked = [0, 1], places = [1, 2], vector = 8, shape = [32, 64], layout = COPY_B}}
    gpu.commit()
    %total, %last = tile.for(%zero, %K, %step, [%start, %zero])
        body(%k: i64, %acc: tile<f32, [64, 64], register, {_ACC}>, %stage: i64) {{
      %next = tile.map([%k, %step]) {{fn = add}}
      %left = tile.map([%K, %next]) {{fn = sub}}
      %other = tile.map([%one, %stage]) {{fn = sub}}
      gpu.copy(%a, [%m, %next], [%rows, %left], %as, [%other, %zero, %zero])
        {{axes = [0, 1], masked = [0, 1], places = [1, 2], vector = 8, shape = [64, 32], layout = COPY_A}}
      gpu.copy(%b, [%next, %n], [%left, %columns], %bs, [%other, %zero, %zero])
        {{axes = [0, 1], masked = [0, 1], places = [1, 2], vector = 8, shape = [32, 64], layout = COPY_B}}
      gpu.commit()
      gpu.wait() {{groups = 1}}
      gpu.barrier()  # copied
      %x = gpu.read(%as, [%stage, %zero, %zero])
        {{places = [1, 2], method = matrix, vector = 2, shape = [64, 32], layout = {_A}}}
      %y = gpu.read(%bs, [%stage, %zero, %zero])
        {{places = [1, 2], method = matrix-transposed, shape = [32, 64], layout = {_B}}}
      %sum = gpu.mma(%x, %y, %acc) {{instruction = m16n8k16_bf16_f32}}
      gpu.barrier()  # read
      tile.yield([%sum, %other])
    }}
    gpu.store(%c, [%m, %n], %total, [%rows, %columns]) {{axes = [0, 1], masked = [0, 1], vector = 2}}
  }}
  tile.return([%c])
}}
""".replace("COPY_A", "local(2, 1) * spatial(32, 4) * local(1, 8)").replace(
    "COPY_B", "local(2, 1) * spatial(16, 8) * local(1, 8)"
)

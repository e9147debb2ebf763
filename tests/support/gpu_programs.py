"""GPU IR as text, and running it in the GPU executor."""

from __future__ import annotations

import random
from typing import Any

import numpy.typing as npt

from tiledsl.backend_ref.arguments import Argument
from tiledsl.backend_ref.execute_gpu import execute_gpu
from tiledsl.ir.core import Module
from tiledsl.ir.parser import parse_module

Array = npt.NDArray[Any]


def run_gpu(text: str, *arguments: Argument, seed: int | None = 0, **options: Any) -> tuple[Array, ...]:
    """Runs the first function of `text`; programs go in an order that follows from `seed` (None: row-major)."""
    return run_gpu_module(parse_module(text), *arguments, seed=seed, **options)


def run_gpu_module(module: Module, *arguments: Argument, seed: int | None = 0, **options: Any) -> tuple[Array, ...]:
    """As `run_gpu`, for a module."""
    order = None if seed is None else random.Random(seed)
    return execute_gpu(module.entry, arguments, order=order, **options)


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

"""Programs with TMA, roles and warpgroup products, with no GPU: the CUDA C that is made of them runs on the host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.gpu_code.cuda_on_host import aligned, host_compiler, run_on_host
from tests.support.hopper.async_programs import async_programs
from tests.support.hopper.hopper_programs import hopper_programs
from tests.support.hopper.hopper_text import Array, HopperProgram
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.ir.core import Function
from tiledsl.ir.text.parser import parse_module

MOST_ELEMENTS = 200_000
EVERY = 6
"""One of so many programs is run: the host compiler takes seconds for each."""


def small(program: HopperProgram) -> bool:
    arguments = program.arguments(np.random.default_rng(0))
    return sum(np.size(argument) for argument in arguments) <= MOST_ELEMENTS


PROGRAMS = [program for program in (*async_programs(), *hopper_programs()) if small(program)]


def _placed(argument: Any) -> Any:
    """As the memory of a GPU is aligned, unless it is a part of something."""
    array: Any = argument
    return aligned(array) if isinstance(argument, np.ndarray) and array.flags.c_contiguous else array


@pytest.mark.skipif(host_compiler() is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("program", PROGRAMS[::EVERY], ids=str)
def test_it_means_the_same(program: HopperProgram, tmp_path: Path) -> None:
    source = emit_program(program.module, 90)

    def run(function: Function, arguments: list[Any]) -> Sequence[Array]:
        placed: list[Any] = [_placed(argument) for argument in arguments]
        returned = run_on_host(source, function, placed, tmp_path)
        for argument, left in zip(arguments, placed):
            if isinstance(argument, np.ndarray):
                argument[...] = left
        return returned

    program.check(run)


PANELS = """
func @f(%x: tensor<f32, [R, C], unit=1>) {
  %y = tile.empty() {shape = [R, C], dtype = f32}
  %one = tile.constant() {value = 1, dtype = i64}
  %zero = tile.constant() {value = 0, dtype = i64}
  gpu.launch([%one]) {blocks = [1], threads = 64, shared_bytes = BYTES} body(%p: i64) {
    %s = gpu.buffer() {shape = [2, R, C], dtype = f32, layout = LAYOUT, offset = 0}
    %t = gpu.load(%x, [%zero, %zero], []) {axes = [0, 1], shape = [R, C], layout = THERE}
    gpu.write(%s, %t, [%STAGE, %zero, %zero]) {places = [1, 2], vector = FIRST}
    gpu.barrier()
    %u = gpu.read(%s, [%STAGE, %zero, %zero]) {places = [1, 2], vector = SECOND, shape = [R, C], layout = BACK}
    gpu.store(%y, [%zero, %zero], %u, []) {axes = [0, 1]}
  }
  tile.return([%y])
}
"""


@pytest.mark.skipif(host_compiler() is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("swizzle", ["", "swizzle=(3, 4, 3), ", "swizzle=(2, 4, 3), "])
@pytest.mark.parametrize("stage", ["zero", "one", "p"])
@pytest.mark.parametrize(
    ("shape", "panel", "there", "back", "vectors"),
    [
        ((16, 96), 32, "local(8, 3) * spatial(2, 32)", "local(2, 12) * spatial(8, 8)", (1, 1)),
        ((16, 64), 16, "local(4, 1) * spatial(4, 16) * local(1, 4)", "spatial(16, 4) * local(1, 16)", (4, 2)),
        # threads that are side by side in another panel: 24 columns and more at once
        (
            (16, 96),
            32,
            "local(8, 1) * spatial(2, 32) * local(1, 3)",
            "local(16, 1) * replicate(2) * spatial(1, 32) * local(1, 3)",
            (1, 1),
        ),
        (
            (8, 96),
            32,
            "spatial(8, 8) * local(1, 12)",
            "local(4, 1) * spatial(2, 4) * replicate(8) * local(1, 24)",
            (4, 1),
        ),
    ],
)
def test_panels(
    shape: tuple[int, int], panel: int, there: str, back: str, vectors: tuple[int, int], stage: str, swizzle: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    rows, columns = shape
    words = {
        "LAYOUT": f"rows(0, 1, 2, {swizzle}panel={panel})", "THERE": there, "BACK": back, "STAGE": stage,
        "FIRST": str(vectors[0]), "SECOND": str(vectors[1]), "BYTES": str(2 * rows * columns * 4 + 1024),
        "R, C": f"{rows}, {columns}",
    }  # fmt: skip
    text = PANELS
    for word, value in words.items():
        text = text.replace(word, value)
    module = parse_module(text)
    x: Array = np.reshape(np.arange(rows * columns, dtype=np.float32), shape)
    (y,) = run_on_host(emit_program(module, 90), module.entry, [aligned(x)], tmp_path)
    np.testing.assert_array_equal(y, x)

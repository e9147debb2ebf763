"""Matrix products, and folds that use shared memory, in the GPU executor."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.compare import assert_close
from tests.support.gpu_code.gpu_programs import program, run_gpu
from tiledsl.ir.dtypes import DType, f16, f32, f64, i32, to_numpy
from tiledsl.ir.gpu.matrix_instructions import INSTRUCTIONS, tiled_layouts
from tiledsl.support.errors import TileError

Array = npt.NDArray[Any]
SHAPE = (32, 16, 32)
"""M, N, K, where the instruction has room in it."""


def numbers(dtype: DType, *shape: int, seed: int = 0) -> Array:
    generator = np.random.default_rng(seed)
    if dtype.is_integer:
        return generator.integers(0 if dtype.kind == "uint" else -100, 100, shape).astype(to_numpy(dtype))
    return generator.standard_normal(shape).astype(to_numpy(dtype))


def shape_of(name: str) -> tuple[int, int, int]:
    """Of a product: two instructions for each of two warps, at least."""
    instruction = INSTRUCTIONS[name]
    return max(SHAPE[0], 2 * instruction.m), max(SHAPE[1], 2 * instruction.n), max(SHAPE[2], instruction.k)


def product_text(
    name: str, warps: tuple[int, int], operand: DType, accumulator: DType, layouts: list[str] | None = None
) -> str:
    m, n, k = shape_of(name)
    threads = 32 * warps[0] * warps[1]
    a, b, acc = layouts or list(map(str, tiled_layouts(INSTRUCTIONS[name], warps, (m, n, k), threads)))
    body = f"""
    %a = gpu.load(%x, [%zero, %zero], []) {{axes = [0, 1], shape = [{m}, {k}], layout = {a}}}
    %b = gpu.load(%y, [%zero, %zero], []) {{axes = [0, 1], shape = [{k}, {n}], layout = {b}}}
    %c = gpu.load(%z, [%zero, %zero], []) {{axes = [0, 1], shape = [{m}, {n}], layout = {acc}}}
    %d = gpu.mma(%a, %b, %c) {{instruction = {name}}}
    gpu.store(%z, [%zero, %zero], %d, []) {{axes = [0, 1]}}"""
    tensors = [("x", operand), ("y", operand), ("z", accumulator)]
    parameters = ", ".join(f"%{name}: tensor<{dtype}, [A{i}, B{i}]>" for i, (name, dtype) in enumerate(tensors))
    return program(body, parameters, threads=threads)


def product(name: str, warps: tuple[int, int], operand: DType, accumulator: DType, **options: Any) -> tuple[Array, ...]:
    """a, b, c, and what c becomes."""
    m, n, k = shape_of(name)
    a, b, c = numbers(operand, m, k), numbers(operand, k, n, seed=1), numbers(accumulator, m, n, seed=2)
    z = np.array(c)
    run_gpu(product_text(name, warps, operand, accumulator, **options), a, b, z)
    return a, b, c, z


INSTRUCTION_NAMES = [name for name, instruction in INSTRUCTIONS.items() if not instruction.is_fma]


@pytest.mark.parametrize("warps", [(1, 1), (2, 1), (1, 2), (2, 2)])
@pytest.mark.parametrize("name", INSTRUCTION_NAMES)
def test_every_instruction(name: str, warps: tuple[int, int]) -> None:
    instruction = INSTRUCTIONS[name]
    assert instruction.a is not None
    assert instruction.accumulator is not None
    a, b, c, z = product(name, warps, instruction.a, instruction.accumulator)
    expected = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
    if "tf32" in name:
        assert_close(z, expected.astype(np.float32), relative=1e-2)
        assert (z != expected.astype(np.float32)).mean() > 0.5
    else:
        assert_close(z, expected.astype(c.dtype), terms=1 if instruction.accumulator.is_integer else a.shape[1])


@pytest.mark.parametrize(("operand", "accumulator"), [(f32, f32), (f64, f64), (f16, f32), (i32, i32)])
def test_fma(operand: DType, accumulator: DType) -> None:
    a, b, c, z = product("fma", (1, 2), operand, accumulator)
    wide = np.int64 if operand.is_integer else np.float64
    assert_close(z, (a.astype(wide) @ b.astype(wide) + c).astype(c.dtype), terms=1 if operand == i32 else SHAPE[2])


def test_products_of_integers_wrap() -> None:
    a, b, z = np.full((32, 32), 1 << 20, np.int32), np.full((32, 16), 1 << 12, np.int32), np.ones((32, 16), np.int32)
    run_gpu(product_text("fma", (1, 1), i32, i32), a, b, z)
    assert z.tolist() == np.ones((32, 16), np.int32).tolist()


def test_operands_that_lie_elsewhere() -> None:
    a, b, acc = map(str, tiled_layouts(INSTRUCTIONS["m16n8k16_f16_f32"], (2, 1), SHAPE, 64))
    with pytest.raises(TileError, match=r"`gpu.mma`: m16n8k16_f16_f32 does not take a as"):
        product(
            "m16n8k16_f16_f32",
            (2, 1),
            f16,
            f32,
            layouts=[a, b, acc.replace("local(2, 1) * spatial(8, 4)", "spatial(8, 4) * local(2, 1)")],
        )
    other = tiled_layouts(INSTRUCTIONS["m16n8k16_f16_f32"], (1, 2), SHAPE, 64)[1]
    with pytest.raises(TileError, match=r"does not take a as"):
        product("m16n8k16_f16_f32", (2, 1), f16, f32, layouts=[a, str(other), acc])
    with pytest.raises(TileError, match="does not take f32, f32, f32"):
        product("m16n8k16_f16_f32", (2, 1), f32, f32)
    rows = ["spatial(32, 1) * local(1, 32)", "spatial(32, 1) * local(1, 16)", "spatial(32, 1) * local(1, 16)"]
    with pytest.raises(TileError, match="fma does not take a as"):
        product("fma", (1, 1), f32, f32, layouts=rows)


# Folds through shared memory

FOLD = """
    %b = gpu.buffer() {shape = [64], dtype = u8, layout = rows(0), offset = 0}
    %v = gpu.load(%x, [%zero], []) {axes = [0], shape = [64], layout = spatial(64)}
    %s = gpu.reduce([%v], %b) {axes = [0], fn = add}
    BETWEEN
    %m = gpu.reduce([%v], %b) {axes = [0], fn = max}
    %t = tile.map([%s, %m]) {fn = add}
    gpu.store(%y, [%zero], %t, []) {axes = [-1]}"""


def folded(text: str) -> Array:
    y = np.zeros(1, np.float32)
    run_gpu(program(text, "%x: tensor<f32, [M]>, %y: tensor<f32, [1]>", threads=64, shared=1024), numbers(f32, 64), y)
    return y


def test_folds_hold_a_barrier_but_need_one_between_them() -> None:
    x = numbers(f32, 64)
    assert_close(folded(FOLD.replace("BETWEEN", "gpu.barrier()")), np.asarray([x.sum() + x.max()]), terms=64)
    message = "`gpu.reduce` lets several threads write byte 0 of .* which several threads read in `gpu.reduce`"
    with pytest.raises(TileError, match=message):
        folded(FOLD.replace("BETWEEN", ""))


def test_a_fold_on_bytes_that_a_thread_has_written() -> None:
    text = FOLD.replace("BETWEEN", "gpu.barrier()").replace(
        "%s = gpu",
        """%c = gpu.buffer() {shape = [4, 4], dtype = f32, layout = rows(0, 1), offset = 0}
    %one_each = tile.broadcast(%f1) {shape = [4, 4]} : tile<f32, [4, 4], register, spatial(4, 4) * replicate(4)>
    gpu.write(%c, %one_each, [%zero, %zero]) {places = [0, 1]}
    %s = gpu""",
    )
    with pytest.raises(TileError, match=r"several threads write byte 0 .* which thread 0 wrote in `gpu.write`"):
        folded(text)


@pytest.mark.parametrize("reverse", ["", ", reverse = true"])
def test_scan_through_shared_memory(reverse: str) -> None:
    body = f"""
    %b = gpu.buffer() {{shape = [64], dtype = u8, layout = rows(0)}}
    %v = gpu.load(%x, [%zero], []) {{axes = [0], shape = [128], layout = spatial(64) * local(2)}}
    %s = gpu.scan([%v], %b) {{axis = 0, fn = add{reverse}}}
    gpu.store(%y, [%zero], %s, []) {{axes = [0]}}"""
    x, y = numbers(f32, 128), np.zeros(128, np.float32)
    run_gpu(program(body, "%x: tensor<f32, [M]>, %y: tensor<f32, [M]>", threads=64), x, y)
    expected = np.cumsum(x[::-1])[::-1] if reverse else np.cumsum(x)
    assert_close(y, expected, terms=128)

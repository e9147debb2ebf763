"""CUDA C from GPU IR: which ops there are, the calling convention, and what ends in machine code."""

from __future__ import annotations

import pytest

from tests.support.gpu_code import gpu_programs
from tests.support.gpu_code.every_gpu_op import GPU
from tests.support.gpu_code.sass import disassemble
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.backend_cuda.emit.element_texts import ELEMENTWISE, SHAPE_OPS
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.backend_cuda.emit.emit_table import EMITTERS
from tiledsl.backend_cuda.frame.kernel_code import CudaSource, KernelParameter
from tiledsl.ir.core import OPS
from tiledsl.ir.gpu.gpu_ops import Launch
from tiledsl.ir.gpu.gpu_rules import TILE_OPS
from tiledsl.ir.symbolic import ceildiv, symbol
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.tile_ops import Constant, Empty, Return, Size, Yield

OF_THE_FUNCTION = {Launch, Empty, Constant, Size, Yield, Return}
"""Ops that are not emitted where they stand."""


def emit(text: str, capability: int = 90) -> CudaSource:
    return emit_program(parse_module(text), capability)


def test_every_op_of_the_gpu_form_is_emitted() -> None:
    known = {*EMITTERS, *ELEMENTWISE, *SHAPE_OPS, *OF_THE_FUNCTION}
    wanted = {*TILE_OPS, *(op for name, op in OPS.items() if name.startswith("gpu."))}
    assert wanted <= known, sorted(op.name for op in wanted - known)


@pytest.mark.parametrize("arch", ["sm_90", "sm_100"])
def test_every_op_compiles(arch: str) -> None:
    # the text is of a program before shared memory is allocated
    text = GPU.replace("layout = rows(0)}", "layout = rows(0), offset = 0}")
    source = emit(text, int(arch.removeprefix("sm_")))
    assert [kernel.name for kernel in source.kernels] == ["gpu", "gpu_1"]
    assert [kernel.cluster for kernel in source.kernels] == [1, 2]
    assert all(not kernel.spill_store_bytes for kernel in compile_cubin(source.text, arch, "gpu").kernels)


def test_calling_convention() -> None:
    (kernel,) = emit(gpu_programs.ADD).kernels
    assert kernel.name == "add"
    assert kernel.threads == 64
    assert kernel.programs == ceildiv(symbol("M"), 32) * ceildiv(symbol("N"), 64)
    assert kernel.parameters == (
        *(KernelParameter("tensor", number) for number in range(3)),
        KernelParameter("size", symbol="M"),
        KernelParameter("size", symbol="N"),
        *(KernelParameter("stride", number, 0) for number in range(3)),
    )


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_add_moves_sixteen_bytes_at_once(arch: str) -> None:
    cubin = compile_cubin(emit(gpu_programs.ADD, int(arch.removeprefix("sm_"))).text, arch, "add")
    code = disassemble(cubin)["add"]
    assert code.global_loads == {16}
    assert code.global_stores == {16}
    assert code.counts["LDG"] == 16
    assert code.counts["STG"] == 8
    assert not code.local


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_gemm_uses_the_matrix_units(arch: str) -> None:
    cubin = compile_cubin(emit(gpu_programs.GEMM, int(arch.removeprefix("sm_"))).text, arch, "gemm")
    code = disassemble(cubin)["gemm"]
    assert ("HMMA", (16, 8, 16), "F32.BF16") in code.products
    assert code.widths("LDGSTS") == {16}
    assert code.widths("LDSM") == {16}
    assert code.counts["LDSM"] == 8
    assert not code.local


def test_comments_name_the_lines_of_the_program() -> None:
    lines = emit(gpu_programs.ADD).text.splitlines()
    assert any(line.strip().startswith("// %c = tile.map([%a, %b])") and line.endswith(":13") for line in lines)


SCALARS = """
func @f(%x: tensor<f32, [M], unit=0>, %s: bf16, %n: u8, %yes: bool) {
  %M = tile.size() {value = M}
  %wide = tile.cast(%s) {dtype = f32}
  %twice = tile.map([%wide, %wide]) {fn = add}
  gpu.launch([%M]) {blocks = [32], threads = 32} body(%m: i64) {
    %v = tile.broadcast(%twice) {shape = [32]} : tile<f32, [32], register, spatial(32)>
    gpu.store(%x, [%m], %v, []) {axes = [0]}
  }
  tile.return([])
}
"""


def test_scalars_of_the_function_are_computed_in_the_kernel() -> None:
    source = emit(SCALARS)
    assert "double s_" in source.text
    assert "float* __restrict__ x_" in source.text
    (kernel,) = source.kernels
    assert KernelParameter("scalar", 0, symbol="bf16") in kernel.parameters
    assert len(kernel.parameters) == 2  # neither sizes nor other scalars are needed
    compile_cubin(source.text, "sm_90", "f")


EFFECTS = """
func @f(%x: tensor<f32, [M], unit=0>, %first: f32) {
  %fill = tile.constant() {value = 1.5, dtype = f32}
  %y = tile.empty(%fill) {shape = [M, 3], dtype = f32}
  gpu.launch([]) {blocks = [], threads = 32} body() {
    %fine = tile.map([%first, %first]) {fn = eq}
    tile.assert(%fine) {text = "a number"}
    tile.print([%first]) {text = "first"}
  }
  tile.return([%y])
}
"""


def test_fills_and_effects_are_kernels() -> None:
    source = emit(EFFECTS)
    fill, effects = source.kernels
    assert fill.name == "f"
    assert fill.threads == 256
    assert effects.programs == 1
    assert effects.parameters[-1] == KernelParameter("failure")
    assert [assertion.text for assertion in source.assertions] == ["a number"]
    assert disassemble(compile_cubin(source.text, "sm_90", "f"))["f"].global_stores == {4, 16}


def folded_columns(rows: int, columns: int) -> str:
    """Sums over rows that are in a warp each; a thread has `columns` / 4 of them."""
    source = f"spatial({rows // 8}, 1) * spatial(8, 4) * local(1, {columns // 4})"
    result = f"replicate({rows}) * spatial(4) * local({columns // 4})"
    return gpu_programs.program(
        f"""
    %t = gpu.load(%x, [%zero, %zero], []) {{axes = [0, 1], shape = [{rows}, {columns}], layout = {source}}}
    %bytes = gpu.buffer() {{shape = [{rows // 8 * columns * 4}], dtype = u8, layout = rows(0), offset = 0}}
    %sums = gpu.reduce([%t], %bytes) {{axes = [0], fn = add}} : tile<f32, [{columns}], register, {result}>
    gpu.store(%y, [%zero], %sums, []) {{axes = [0]}}""",
        "%x: tensor<f32, [M, N], unit=1>, %y: tensor<f32, [N], unit=0>",
        threads=rows * 4,
        shared=rows // 8 * columns * 4,
    )


def test_many_parts_of_many_results_are_a_loop() -> None:
    """Each result has a part of every warp: 64 of them of 32 warps are not 2,048 pieces of code."""
    sizes: list[int] = []
    for rows, columns in ((32, 64), (256, 256)):
        cubin = compile_cubin(emit(folded_columns(rows, columns)).text, "sm_90", "f")
        sizes.append(sum(disassemble(cubin)["f"].counts.values()))
    looped = emit(folded_columns(256, 256)).text
    assert "#pragma unroll 1\n" in looped
    assert "#pragma unroll 1\n" not in emit(folded_columns(32, 64)).text
    assert sizes[1] < 8 * sizes[0]


RUN_TIME_STOP = """
func @f(%x: tensor<f32, [M], unit=0>, %n: i64) {
  %twice = tile.map([%n, %n]) {fn = add}
  gpu.launch([%twice]) {blocks = [32], threads = 32} body(%m: i64) {
    %v = gpu.load(%x, [%m], []) {axes = [0], checked = [0], shape = [32], layout = spatial(32)}
    gpu.store(%x, [%m], %v, []) {axes = [0], checked = [0]}
  }
  tile.return([])
}
"""


def test_a_kernel_goes_through_programs_that_only_the_device_can_count() -> None:
    source = emit(RUN_TIME_STOP)
    (kernel,) = source.kernels
    assert kernel.programs is None
    assert "gridDim.x" in source.text
    compile_cubin(source.text, "sm_90", "f")


@pytest.mark.parametrize(
    "name", ["round", "y0", "log1p", "hypot", "float", "max_f32", "main", "NULL", "f_", "TensorMap"]
)
def test_a_program_may_have_any_name(name: str) -> None:
    source = emit(SCALARS.replace("@f(", f"@{name}("))
    assert [kernel.name for kernel in source.kernels] == [name.strip("_")]
    compiled = compile_cubin(source.text, "sm_90", name)
    assert [kernel.name for kernel in compiled.kernels] == [name.strip("_")]

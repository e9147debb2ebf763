"""Roles, mbarriers, TMA and warpgroup products as machine code: what instructions there are, and nothing that hurts."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.support.gpu_cases.shares import share
from tests.support.gpu_code.run_gpu_ir import CompiledIr
from tests.support.gpu_code.sass import Disassembly, disassemble
from tests.support.hopper.async_programs import async_programs
from tests.support.hopper.hopper_programs import hopper_programs
from tests.support.hopper.hopper_text import HopperProgram, Shared, function, launch, role
from tiledsl.backend_cuda.build.gate import refusals
from tiledsl.backend_cuda.frame.kernel_code import KernelParameter
from tiledsl.ir.gpu import async_ops as ops
from tiledsl.ir.gpu.warpgroup_instructions import warpgroup_instruction
from tiledsl.ir.symbolic import symbol
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.verifier import Form, verify

PROGRAMS = [*async_programs(), *hopper_programs()]
SERIALISING = re.compile(r"C75\d\d")


@cache
def compiled(program: HopperProgram) -> CompiledIr:
    return CompiledIr(program.module)


def code_of(program: HopperProgram) -> Disassembly:
    return next(iter(disassemble(compiled(program).cubin).values()))


def named(start: str) -> HopperProgram:
    return next(program for program in PROGRAMS if program.name.startswith(start))


def kernel_text(compiled: CompiledIr) -> str:
    text = compiled.source.text
    return text[text.index('extern "C"') :]


@pytest.mark.parametrize("program", async_programs(), ids=str)
def test_legal(program: HopperProgram) -> None:
    verify(program.module, Form.GPU)


@pytest.mark.parametrize("program", share(PROGRAMS, 6), ids=str)
def test_machine_code(program: HopperProgram) -> None:
    cubin = compiled(program).cubin
    assert refusals(cubin) == []
    assert not SERIALISING.search(cubin.log)
    code, kinds = code_of(program), {type(op) for op in program.module.walk()}
    starts = {opcode.partition(".")[0] for opcode in code.opcodes}
    expected = {
        ops.TmaLoad: "UTMALDG", ops.TmaStore: "UTMASTG", ops.MbarrierWait: "SYNCS", ops.BulkCommit: "UTMACMDFLUSH",
        ops.WgmmaCommit: "WARPGROUP",
    }  # fmt: skip
    for kind, instruction in expected.items():
        assert (instruction in starts) == (kind in kinds), instruction
    assert not code.local
    for op in program.module.walk():
        if isinstance(op, ops.Role):
            assert ("USETMAXREG" in starts) == bool(op.registers and program.name != "again and again")
        if isinstance(op, ops.TmaLoad) and op.multicast:
            assert any("MULTICAST" in opcode for opcode in code.opcodes)
        if isinstance(op, ops.Wgmma):
            instruction = warpgroup_instruction(op.instruction)
            assert instruction is not None
            shape = (instruction.m, instruction.n, instruction.k)
            assert shape in {product.shape for product in code.products}


def test_accumulators_stay_where_they_are() -> None:
    """No register is moved between the first product of a loop and its end: 128 of them would be seen."""
    code = code_of(named("gemm_pipelined: 3 stages, 9 steps, 128x256"))
    products = [number for number, opcode in enumerate(code.opcodes) if opcode.startswith("HGMMA")]
    between = code.opcodes[products[0] : products[-1]]
    assert sum(opcode.startswith(("MOV", "IMAD.MOV")) for opcode in between) < 16
    assert len(between) < 150


def test_a_product_onto_nothing_needs_no_zeros() -> None:
    text = kernel_text(compiled(named("product: m64n64k16_bf16_f32 of 64x64x64, 128 and 128 bytes")))
    assert "float sum_[32];" in text
    assert "= 0.0f" not in text


@pytest.mark.parametrize("start", ["gemm: 2 stages, 5 steps, 64x64 bf16 by warp", "gemm_pipelined: 3 stages, 9 steps"])
def test_one_instruction_copies_for_all_threads(start: str) -> None:
    """No loop around it over threads that might do it: the compiler knows that it is one, however many a role has."""
    code = code_of(named(start))
    assert code.counts["UTMALDG"] == 2
    assert code.counts["ELECT"] <= 2
    assert not any(opcode.startswith("BRA.U.ANY") for opcode in code.opcodes)


def test_blocks_of_a_cluster_empty_no_caches() -> None:
    """They tell each other of shared memory alone, unless what they write to global memory is read too."""
    code = code_of(named("gemm: 3 stages, 7 steps, 128x256 bf16 by warp, cluster of 2, drain, registers"))
    waits = [number for number, opcode in enumerate(code.opcodes) if "TRYWAIT" in opcode]
    after = {code.opcodes[number + 1].partition(".")[0] for number in waits}
    assert "CCTL" not in after


# Tensor maps


def test_tensor_maps_are_parameters() -> None:
    program = compiled(named("gemm: 2 stages, 5 steps, 64x64 bf16 by warp"))
    (kernel,) = program.source.kernels
    assert kernel.parameters[:2] == (KernelParameter("map", 0), KernelParameter("map", 1))
    first, second = program.source.maps
    assert (first.name, first.tensor, first.dtype, first.shape) == ("a", 0, "bf16", (symbol("M"), symbol("K")))
    assert (first.axes, first.box, first.swizzle) == ((1, 0), (64, 64), 128)
    assert (second.name, second.tensor) == ("b", 1)
    text = kernel_text(program)
    assert "const __grid_constant__ TensorMap a_map_" in text
    assert text.index("prefetch_tensor_map(&a_map_)") < text.index("begin_mbarriers(")


def test_copies_of_one_kind_share_a_map() -> None:
    program = compiled(named("one after the other"))
    assert [(map_.name, map_.tensor) for map_ in program.source.maps] == [("x", 0), ("between", 2), ("out", 1)]
    first, second = program.source.kernels
    assert [p.index for p in first.parameters if p.kind == "map"] == [0, 1]
    assert [p.index for p in second.parameters if p.kind == "map"] == [1, 2]
    assert second.overlaps
    text = compiled(named("one after the other")).source.text
    assert text.count("wait_for_earlier();") == 1


# Roles


def text_of(*roles: str, threads: int = 384, cluster: int = 1) -> str:
    """The kernel with these roles; their bodies may use `%t`, 64 numbers of a thread each."""
    shared = Shared()
    shared.buffer("s", (256,), "f32")
    shared.barriers("b", 2, 1)
    text = function(
        "%x: tensor<f32, [M], unit=0>",
        "f32, [M]",
        launch("M", (256,), threads, shared, "\n".join(roles), cluster),
    )
    made = CompiledIr(parse_module(text))
    assert refusals(made.cubin) == []
    return kernel_text(made)


def test_threads_of_a_role_are_numbered_from_its_first() -> None:
    body = """
    %t = gpu.read(%s, [%0]) {places = [0], vector = 2, shape = [256], layout = spatial(128) * local(2)}
    gpu.store(%out, [%m], %t, []) {axes = [0], vector = 2}"""
    text = text_of(role(128, 128, body))
    assert "if (warp >= 4 && warp < 8) {" in text
    assert "= threadIdx.x - 128;" in text


def test_in_a_cluster_threads_of_the_first_block_come_first() -> None:
    body = """
    %t = gpu.load(%x, [%m], []) {axes = [0], shape = [256], layout = spatial(256)}
    gpu.store(%out, [%m], %t, []) {axes = [0]}"""
    text = text_of(role(256, 128, body), cluster=2)
    assert "= rank * 128u + threadIdx.x - 256;" in text


def test_registers_of_roles() -> None:
    nothing = "gpu.named_barrier() {id = 1, threads = 256, action = arrive}"
    text = text_of(role(0, 256, nothing, 240), role(256, 32, nothing, 24))
    assert "__launch_bounds__(384, 1)" in text
    some, rest = text.index("have_240_registers();"), text.index("have_24_registers();")
    assert some < rest
    assert re.search(r"if \(warp >= 8\) \{\s+have_24_registers\(\);\s+.*\s*if \(warp >= 8 && warp < 9\) \{", text)


def test_turns_of_warpgroups() -> None:
    actions = "\n".join(f"gpu.turn() {{id = 8, action = {action}}}" for action in ("begin", "take", "pass", "end"))
    text = text_of(
        role(0, 256, actions + "\ngpu.named_barrier() {id = 1, threads = 256}"), role(256, 32, ""), threads=384
    )
    begin = text.index("if (warp_1 / 4 == 1) arrive_of_warpgroups(8);")
    take = text.index("    sync_of_warpgroups(8 + warp_1 / 4);", begin)
    hand_on = text.index("    arrive_of_warpgroups(8 + (warp_1 / 4 + 1) % 2);", take)
    assert hand_on < text.index("if (warp_1 / 4 == 0) sync_of_warpgroups(8);")


def test_registers_that_a_role_has_already_are_not_asked_for() -> None:
    text = text_of(role(0, 128, "gpu.named_barrier() {id = 1, threads = 128}", 168), threads=384)
    assert "_registers" not in text


def test_blocks_that_go_through_programs_keep_their_registers() -> None:
    text = kernel_text(compiled(named("again and again")))
    assert "have_" not in text
    assert text.index("__syncthreads();", text.index("tma_load_2")) < text.index("end_mbarriers(")


def test_roles_fold_at_barriers_of_their_own() -> None:
    body = """
    %bytes = gpu.buffer() {shape = [256], dtype = u8, layout = rows(0), offset = 0}
    %t = gpu.read(%s, [%0]) {places = [0], vector = 2, shape = [256], layout = spatial(128) * local(2)}
    %top = gpu.reduce([%t], %bytes) {axes = [0], fn = max, keepdims = true}
    gpu.store(%out, [%m], %top, []) {axes = [0]}"""
    other = "gpu.named_barrier() {id = 15, threads = 128}"
    text = text_of(role(0, 128, body), role(128, 128, other), role(256, 128, body))
    assert "sync_barrier_14_of_128();" in text
    assert "sync_barrier_12_of_128();" in text
    assert text.count("__syncthreads();") == 1  # the one before the roles


@pytest.mark.parametrize(
    ("by", "scope", "expected"),
    [
        ("thread", "block", r"\n +arrive\(shared_base \+ 1024\);"),
        ("warp", "block", r"__syncwarp\(\);\n +if \(thread_1 % 32 == 0\) arrive\("),
        ("role", "block", r"== 0 && elect_lane\(\)\) arrive\("),
    ],
)
def test_who_arrives(by: str, scope: str, expected: str) -> None:
    text = text_of(role(0, 128, f"gpu.mbarrier_arrive(%b, %0) {{by = {by}, scope = {scope}}}"))
    assert re.search(expected, text), text


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("thread", r"for \(int b = 0; b < 2; \+\+b\) \{\n +arrive_at\(shared_base \+ 1032, b\);"),
        ("warp", r"if \(threadIdx.x % 32 < 2\) arrive_at\(shared_base \+ 1032, threadIdx.x % 32\);"),
        ("role", r"== 0 && elect_lane\(\)\) \{\n.*\n +for \(int b = 0; b < 2; \+\+b\)"),
    ],
)
def test_who_arrives_in_a_cluster(by: str, expected: str) -> None:
    arrive = f"gpu.mbarrier_arrive(%b, %1) {{by = {by}, scope = cluster}}"
    text = text_of(role(0, 128, arrive), cluster=2)
    assert re.search(expected, text), text

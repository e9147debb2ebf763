"""What machine code takes, whether it is worth running, and what a disassembly of it tells."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.gpu_code.cuda_sources import COPY, LOCAL_ARRAY, PRODUCTS, SERIALISED, SPILL, STAGED
from tests.support.gpu_code.sass import disassemble, matrix_product, width
from tiledsl.backend_cuda.build.cubin import KernelResources, kernels_of, section_sizes
from tiledsl.backend_cuda.build.gate import SOME_SPILLED, refusals
from tiledsl.backend_cuda.build.nvrtc import compile_cubin

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")

LOG = """\
ptxas info    : 272 bytes gmem
ptxas info    : Compiling entry function 'second' for 'sm_80'
ptxas info    : Function properties for second
ptxas         .     40 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 28 registers, used 1 barriers, 40 bytes cumulative stack size, 400 bytes smem, 376 bytes cmem[0]
ptxas info    : Function properties for __internal_slowpath
ptxas         .     16 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'first' for 'sm_80'
ptxas info    : Function properties for first
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers
"""


def test_a_report_is_read() -> None:
    assert kernels_of(LOG) == (
        KernelResources("first", 10),
        KernelResources("second", 28, 12, 12, 56, 400, 0, 1),
    )


def test_no_report_no_kernels() -> None:
    assert kernels_of("") == ()


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_what_kernels_take(arch: str) -> None:
    staged = compile_cubin(STAGED, arch, "staged").kernel("staged")
    assert staged.static_shared_bytes == 256 * 16 + 256 * 2
    assert staged.barriers == 1
    assert staged.constant_bytes >= 24  # three pointers
    spill = compile_cubin(SPILL, arch, "spill").kernel("spill")
    assert spill.registers == 32
    assert spill.spill_store_bytes > 0
    assert spill.spill_load_bytes > 0
    assert spill.stack_bytes >= 4 * (64 - 32)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_code_itself_agrees(arch: str) -> None:
    cubin = compile_cubin(STAGED, arch, "staged")
    sizes = section_sizes(cubin.code)
    assert sizes[".text.staged"] > 0
    assert sizes[".nv.shared.staged"] - cubin.kernel("staged").static_shared_bytes in (0, 1024)  # the block's own 1 KiB


def test_what_is_no_elf_has_no_sections() -> None:
    assert section_sizes(b"") == section_sizes(b"not machine code") == {}


# The gate


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_good_code_passes_the_gate(arch: str) -> None:
    for source in (COPY, STAGED, PRODUCTS):
        assert refusals(compile_cubin(source, arch, "case")) == []


def test_spills_are_refused_whatever_stack_is_allowed() -> None:
    (reason,) = refusals(compile_cubin(SPILL, "sm_90", "case"), allowed_stack_bytes=1 << 20)
    assert reason.startswith("kernel `spill` spills registers: ")
    assert reason.endswith(" with 32 registers")


def test_a_stack_is_refused_unless_it_is_allowed() -> None:
    cubin = compile_cubin(LOCAL_ARRAY, "sm_90", "case")
    assert refusals(cubin) == ["kernel `local_array` keeps 32 bytes per thread in local memory"]
    assert refusals(cubin, allowed_stack_bytes=32) == []


def test_serialised_products_are_refused() -> None:
    reasons = refusals(compile_cubin(SERIALISED, "sm_90", "case"))
    assert all(reason.startswith("the assembler reports C75") for reason in reasons)
    assert any("C7515: wgmma.mma_async instructions are serialized due to" in reason for reason in reasons)
    assert all("'serialised'" in reason for reason in reasons)


def test_a_few_spilled_registers_pass() -> None:
    cubin = compile_cubin(COPY, "sm_90", "copy")
    for written, read, passes, some in ((16, 32, True, True), (20, 20, False, True), (8, 40, False, True),
                                        (68, 68, False, False)):  # fmt: skip
        kernel = replace(
            cubin.kernel("copy"), spill_store_bytes=written, spill_load_bytes=read, stack_bytes=-(-written // 8) * 8
        )
        changed = replace(cubin, kernels=(kernel,))
        assert (not refusals(changed)) == passes
        assert (not refusals(changed, spilled=SOME_SPILLED)) == some


def test_a_fence_that_the_assembler_puts_is_not_refused() -> None:
    cubin = replace(
        compile_cubin(COPY, "sm_90", "copy"),
        log="info : (C7519) warpgroup.arrive is injected in around line 7 by compiler\n"
        "info : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized\n",
    )
    assert refusals(cubin) == ["the assembler reports C7510: wgmma.mma_async instructions are serialized"]


# The disassembly


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_widths_of_accesses(arch: str) -> None:
    copy = disassemble(compile_cubin(COPY, arch, "copy"))["copy"]
    assert (copy.global_loads, copy.global_stores) == ({16}, {16})
    assert not copy.local
    staged = disassemble(compile_cubin(STAGED, arch, "staged"))["staged"]
    assert staged.widths("LDGSTS") == staged.widths("LDSM") == {16}
    assert staged.widths("LDG") == {2}
    assert (staged.widths("LDS"), staged.widths("STS")) == ({2, 16}, {2})
    assert staged.counts["LDS"] == 2
    assert staged.counts["BAR"] == 1


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_local_memory_is_seen(arch: str) -> None:
    assert disassemble(compile_cubin(SPILL, arch, "case"))["spill"].local
    assert disassemble(compile_cubin(LOCAL_ARRAY, arch, "case"))["local_array"].local


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_products(arch: str) -> None:
    kernels = disassemble(compile_cubin(PRODUCTS, arch, "case"))
    products = {name: next(iter(kernel.products)) for name, kernel in kernels.items()}
    assert products.pop("mma_f64") == ("DMMA", (8, 8, 4), "")
    if arch == "sm_80":
        assert "mma_f8" not in products
    else:
        assert products.pop("mma_f8") == ("HMMA", (16, 8, 16), "F32")
    assert products == {
        "mma_f16": ("HMMA", (16, 8, 16), "F32"),
        "mma_bf16": ("HMMA", (16, 8, 16), "F32.BF16"),
        "mma_tf32": ("HMMA", (16, 8, 8), "F32.TF32"),
        "mma_s8": ("IMMA", (16, 8, 32), "S8.U8"),
    }
    assert all(len(kernel.products) == 1 for kernel in kernels.values())


def test_products_of_a_newer_unit() -> None:
    assert disassemble(compile_cubin(PRODUCTS, "sm_89", "case"))["mma_f8"].products == {
        ("QMMA", (16, 8, 32), "F32.E4M3.E5M2")
    }
    assert matrix_product("HGMMA.64x256x16.F32.BF16") == ("HGMMA", (64, 256, 16), "F32.BF16")
    assert matrix_product("HFMA2.MMA") is None


@pytest.mark.parametrize(
    ("opcode", "size"),
    [
        ("LDG.E", 4), ("LDG.E.U8", 1), ("LDG.E.U16.CONSTANT", 2), ("LDG.E.64", 8), ("LDG.E.ENL2.256", 32),
        ("STG.E.EF.128", 16), ("LDGSTS.E.BYPASS.LTC128B.128", 16), ("LDGSTS.E", 4), ("LDS.U.128", 16),
        ("LDSM.16.M88", 4), ("LDSM.16.M88.2", 8), ("LDSM.16.MT88.4", 16), ("STSM.16.M88.4", 16),
    ],
)  # fmt: skip
def test_width_of_an_opcode(opcode: str, size: int) -> None:
    assert width(opcode) == size

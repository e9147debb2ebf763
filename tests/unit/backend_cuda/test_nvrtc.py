"""CUDA C to machine code, and what is said where it does not compile."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.gpu_code.cuda_sources import COPY, SCALE_ADD, SERIALISED
from tests.support.gpu_code.sass import disassemble
from tiledsl.backend_cuda.build.nvrtc import CompilerMessage, compile_cubin, messages_of, nvrtc_identity, nvrtc_version
from tiledsl.backend_cuda.frame.source_map import comment_of, line_of_ptx, user_location
from tiledsl.support.errors import TileError
from tiledsl.support.location import Location

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_copy_compiles_without_a_device(arch: str) -> None:
    cubin = compile_cubin(COPY, arch, "copy")
    assert cubin.arch == arch
    assert cubin.code.startswith(b"\x7fELF")
    assert [kernel.name for kernel in cubin.kernels] == ["copy"]


def test_the_full_set_of_instructions_is_meant() -> None:
    assert disassemble(compile_cubin(SERIALISED, "sm_90", "wgmma"))["serialised"].counts["HGMMA"]


def test_two_runs_give_the_same() -> None:
    assert compile_cubin(COPY, "sm_90", "copy") == compile_cubin(COPY, "sm_90", "copy")


def test_threads_compile_side_by_side() -> None:
    sources = [COPY.replace("copy", f"copy{number}") for number in range(8)]
    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(compile_cubin, source, "sm_90", "case") for source in sources]
    cubins = [future.result() for future in running]
    assert [cubin.kernels[0].name for cubin in cubins] == [f"copy{number}" for number in range(8)]


@pytest.mark.parametrize(("contract", "instructions"), [(True, (1, 0, 0)), (False, (0, 1, 1))])
def test_contraction_can_be_refused(contract: bool, instructions: tuple[int, ...]) -> None:
    counts = disassemble(compile_cubin(SCALE_ADD, "sm_80", "case", contract=contract))["scale_add"].counts
    assert tuple(counts[name] for name in ("FFMA", "FMUL", "FADD")) == instructions


def test_division_and_subnormals_are_those_of_ieee() -> None:
    source = """
    extern "C" __global__ void product(float* x) { x[0] = x[1] * x[2]; }
    extern "C" __global__ void quotient(float* x) { x[0] = x[1] / x[2]; }
    """
    kernels = disassemble(compile_cubin(source, "sm_90", "case"))
    assert "FMUL" in kernels["product"].opcodes  # not FMUL.FTZ
    assert kernels["quotient"].counts["FCHK"]  # the exact division asks for its hard cases


# Failures

KERNEL = """\
def scale(x):
    y = tile.empty_like(x)
    for m in tile.grid(x.shape[0]):
        y[m] = flor(x[m])
    return y
"""
BROKEN = """\
extern "C" __global__ void scale(float* y, const float* x) {  // scale.py:3
  int i = threadIdx.x;
  float v = x[i];  // scale.py:4
  y[i] = flor(v);
}
"""


def failure(source: str, locations: list[Location], arch: str = "sm_90") -> TileError:
    with pytest.raises(TileError) as caught:
        compile_cubin(source, arch, "scale", locations)
    assert caught.value.code == "cuda-compile-failed"
    return caught.value


def test_an_error_shows_the_users_line(tmp_path: Path) -> None:
    file = tmp_path / "scale.py"
    file.write_text(KERNEL)
    at = Location(str(file), 4, 16, 4, 26)
    error = failure(BROKEN, [Location(str(file), 1), at])
    assert error.location == at
    text = str(error)
    assert "    4 |         y[m] = flor(x[m])\n      |                ^^^^^^^^^^\n" in text
    assert 'note: NVRTC: scale.cu(4): identifier "flor" is undefined\n' in text
    assert "y[i] = flor(v);" in text  # the line of CUDA C, with NVRTC's caret below
    assert re.search(r"\n +\^\n", text)


def test_an_error_above_all_comments_is_the_kernels() -> None:
    here = Location("scale.py", 1)
    assert failure("__device__ int v = w;  \n" + BROKEN, [here]).location == here
    assert failure("__device__ int v = w;\n", []).location is None


def test_of_many_errors_three_are_shown() -> None:
    error = failure("\n".join(f"__device__ int v{i} = w{i};" for i in range(5)), [])
    assert error.message.endswith('"w0" is undefined')
    assert '"w2" is undefined' in str(error)
    assert '"w3" is undefined' not in str(error)
    assert "and 2 more errors" in str(error)


PTX = """\
static __device__ __forceinline__ void inner(float a) {
  asm volatile("%s" :: "f"(a));
}
static __device__ __forceinline__ void outer(float a) {
  float b = a * 3.0f;
  inner(b);
}
extern "C" __global__ void scale(float* a) {  // scale.py:1
  a[1] = 2.0f;  // scale.py:2
  outer(a[0]);  // scale.py:3
  a[3] = 2.0f;  // scale.py:4
}
"""


def test_an_error_in_assembly_is_that_of_the_call() -> None:
    error = failure(PTX % "fooo.bar %0;", [Location("dir/scale.py", 1)])
    assert error.location == Location("dir/scale.py", 3)
    assert "note: in line 10 of scale.cu: outer(a[0]);  // scale.py:3" in str(error)


def test_an_instruction_that_the_architecture_lacks() -> None:
    error = failure(PTX % "wgmma.fence.sync.aligned;", [Location("scale.py", 1)], "sm_80")
    assert "'wgmma.fence' not supported on .target 'sm_80'" in error.message
    assert error.location == Location("scale.py", 3)


def test_too_much_static_shared_memory_has_no_line() -> None:
    source = (
        'extern "C" __global__ void scale(float* x) { __shared__ float s[99999]; s[0] = x[0]; x[1] = s[x[2] > 0]; }'
    )
    here = Location("scale.py", 1)
    error = failure(source, [here])
    assert "too much shared data" in error.message
    assert error.location == here


# The log

LOG = """\
k.cu(2): warning #177-D: variable "unused" was declared but never referenced
    int unused = 3;   // k.py:4
        ^

k.cu(7): error: expected a ";"
  }
  ^

ptxas application ptx input, line 27; error   : Unknown modifier '.bar'
ptxas fatal   : Ptx assembly aborted due to errors
 ptxas error   : Entry function 'k' uses too much shared data (0x61a80 bytes, 0xc000 max)
nvrtc: error: invalid value for --gpu-architecture (-arch)
ptxas info    : Used 10 registers, used 0 barriers
1 error detected in the compilation of "k.cu".
"""


def test_the_messages_of_a_log() -> None:
    assert messages_of(LOG, "k") == (
        CompilerMessage(
            "warning",
            'variable "unused" was declared but never referenced',
            line=2,
            detail=("    int unused = 3;   // k.py:4", "        ^"),
        ),
        CompilerMessage("error", 'expected a ";"', line=7, detail=("  }", "  ^")),
        CompilerMessage("error", "Unknown modifier '.bar'", "ptx", 27),
        CompilerMessage("note", "Ptx assembly aborted due to errors", "ptx"),
        CompilerMessage("error", "Entry function 'k' uses too much shared data (0x61a80 bytes, 0xc000 max)", "ptx"),
        CompilerMessage("error", "invalid value for --gpu-architecture (-arch)"),
    )


# From lines of CUDA C to lines of the user


def test_a_line_without_a_comment_belongs_to_the_one_above() -> None:
    source = "a\nb // x.py:7\nc\nd // y z.py:9  \n"
    lines = [user_location(source, line, [Location("top.py", 1)]) for line in (1, 2, 3, 4)]
    assert [str(location).rsplit(":", 1)[0] for location in lines] == ["top.py:1", "x.py:7", "x.py:7", "y z.py:9"]


@pytest.mark.parametrize("file", ["/home/me/my kernels/scale.py", "scale.py", "<ipython-input-3-abc>"])
def test_comments_are_read_as_they_are_written(file: str) -> None:
    call = Location("/home/me/main.py", 30)
    at = Location(file, 12, 5, 12, 9, caller=call)
    source = f"x = 1;  {comment_of(at)}"
    assert user_location(source, 1, [Location(file, 11), at]) == at
    assert user_location(source, 1, [Location(file, 11)]) == Location(file, 12)


def test_other_comments_are_none() -> None:
    here = Location("scale.py", 1)
    assert user_location("x = 1;  // see scale.py:3 for more", 1, [here]) == here


def test_ptx_without_line_information() -> None:
    assert line_of_ptx("mov.u32 %r1, 0;", 1) is None


def test_identity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The wheel's version; without a wheel, what the library says."""
    nvrtc_identity.cache_clear()
    assert nvrtc_identity().startswith("nvidia_cuda_nvrtc-")
    version = nvrtc_version()
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "nowhere")])
    nvrtc_identity.cache_clear()
    assert nvrtc_identity() == version
    (tmp_path / "nvidia_cuda_nvrtc-13.9.9.dist-info").mkdir()
    nvrtc_identity.cache_clear()
    assert nvrtc_identity() == "nvidia_cuda_nvrtc-13.9.9.dist-info"
    nvrtc_identity.cache_clear()

"""Every device function compiles for every generation of GPUs, and becomes the instructions it was written for."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.support.gpu_cases.device_cases import every_case
from tests.support.gpu_code.device_functions import device_program
from tiledsl.backend_cuda.build.cubin import Cubin
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.backend_cuda.functions.preamble import Preamble
from tiledsl.backend_cuda.functions.reports import assertion, print_element, print_scalars
from tiledsl.ir.dtypes import ALL


@cache
def compiled(capability: int) -> Cubin:
    cases = every_case()
    return compile_cubin(device_program(cases, Preamble(capability)), f"sm_{capability}", "cases")


@pytest.mark.parametrize(
    "capability", [pytest.param(80, marks=pytest.mark.slow), 90, pytest.param(100, marks=pytest.mark.slow)]
)
def test_everything_compiles(capability: int) -> None:
    kernels = compiled(capability).kernels
    assert len(kernels) == len(every_case())
    assert not [kernel.name for kernel in kernels if kernel.spill_store_bytes]
    # CUDA's sine of doubles keeps an array in memory; nothing else does
    assert {kernel.name for kernel in kernels if kernel.stack_bytes} <= {"sin_of_f64", "cos_of_f64"}


@pytest.mark.parametrize("capability", [80, 90, 100])
def test_reports_compile(capability: int) -> None:
    preamble = Preamble(capability)
    zero = {"float": "0.0f", "int": "0", "uint": "0u", "bool": "false"}
    values = [(zero[dtype.kind], dtype) for dtype in ALL if dtype.bits < 64]
    statements = [
        print_scalars("scalars", values),
        print_element("é%", ["threadIdx.x", "1ll"], "2.0", ALL[0]),
        assertion("threadIdx.x < 3", "failure", 1, "blockIdx.x", preamble),
    ]
    kernel = f'extern "C" __global__ void report(void *failure) {{\n{chr(10).join(statements)}\n}}\n'
    cubin = compile_cubin(preamble.text() + kernel, f"sm_{capability}", "report")
    assert [k.name for k in cubin.kernels] == ["report"]


def test_no_header_and_no_ptx_outside_of_functions() -> None:
    text = device_program(every_case(), Preamble())
    assert "#include" not in text
    kernels = text[text.index('extern "C"') :]
    assert not re.search(r"\basm\b", kernels)

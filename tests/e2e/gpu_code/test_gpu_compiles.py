"""GPU cases compiled for real architectures with no GPU: the machine code is what was meant, the GPU IR is right.

The cases of `tests/support/gpu_*_cases.py` are those that `pytest -m gpu` runs on a device.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from tests.e2e.gpu_code.test_gpu_plans import module_of
from tests.support.gpu_cases.gpu_cases import Case, assert_same, expected, outcome
from tests.support.gpu_cases.gpu_example_cases import EXAMPLE_CASES
from tests.support.gpu_cases.gpu_language_cases import LANGUAGE_CASES
from tests.support.gpu_cases.gpu_shape_cases import SHAPE_CASES
from tests.support.gpu_cases.shares import share
from tests.support.gpu_code.gpu_lowering import lowered, plans_for
from tests.support.gpu_code.sass import Disassembly, disassemble
from tiledsl import CompiledKernel
from tiledsl.backend_cuda.build.cubin import Cubin, KernelResources
from tiledsl.backend_ref.execute_gpu import execute_gpu
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module

ARCHITECTURES = ["sm_80", "sm_90", "sm_100"]
ALL_CASES = [*EXAMPLE_CASES, *LANGUAGE_CASES, *SHAPE_CASES]
MOST_ELEMENTS = 5000
"""Of the arguments of a case that runs in the executor of GPU IR, which goes thread by thread."""

TRIGONOMETRY = "large angles of f64 are reduced by a table in local memory"
WITH_LOCAL_MEMORY = {
    "sin of float64": TRIGONOMETRY,
    "sin of int32": TRIGONOMETRY,
    "cos of float64": TRIGONOMETRY,
    "cos of int32": TRIGONOMETRY,
    "tf32 product of 100x127x129": "on sm_80 two registers of what odd rows are loaded by are put aside: 8 bytes",
    "RMS norm of rows of 131072 bf16": "without clusters (sm_80) a row is larger than the registers of a block",
    "extremes of float16": "rows of odd length are shared by few threads, which hold an index beside each element",
    "running sums of 64x130": "sums of columns, rows and all of a tile live at once",
    "cumsum along 1": "a tile of three axes is scanned where it is loaded, all of it in the registers of threads: 255",
    "attention of 2x64x64x64 causal float32": "the first plan spills 24 bytes, which the gate lets pass",
    "slices of 12x9": "32 blocks of 64 threads leave 32 registers for a thread: 32 bytes spilled, likewise",
    "f8e4m3 product of 64x64x64": "small blocks leave 56 registers for a thread: 16 bytes spilled, likewise",
    "f8e5m2 product of 64x64x64": "small blocks leave 56 registers for a thread: 16 bytes spilled, likewise",
}
"""Cases that may use local memory, and why."""

IN_VECTORS = ["vector_add of 4096 float32", "swiglu of 64x128 bfloat16", "softmax of 64x128 float32",
              "layer_norm of 64x128 bfloat16", "transpose of 64x128 bfloat16"]  # fmt: skip


def one_of_each_kernel(cases: Iterable[Case]) -> list[Case]:
    """The first case of each kernel."""
    found: dict[object, Case] = {}
    for case in cases:
        found.setdefault(case.kernel, case)
    return list(found.values())


ESSENTIAL = [case for case in ALL_CASES if case.essential]
KINDS = one_of_each_kernel(LANGUAGE_CASES)
ON_SM_90 = [*ESSENTIAL, *LANGUAGE_CASES]


def compiled_for(case: Case, arch: str) -> CompiledKernel:
    return case.kernel.compile(*case.arguments(), arch=arch, **case.constants)


def machine_code(compiled: CompiledKernel) -> dict[str, Disassembly]:
    kernels = tuple(KernelResources(name, used["registers"]) for name, used in compiled.resources.items())
    return disassemble(Cubin(compiled.cubin, compiled.arch, "", kernels))


def check_local_memory(case: Case, code: dict[str, Disassembly]) -> None:
    """Fails where a kernel uses local memory; for the cases above it is an expected failure."""
    local = [name for name, kernel in code.items() if kernel.local]
    if local and case.name in WITH_LOCAL_MEMORY:
        pytest.xfail(WITH_LOCAL_MEMORY[case.name])
    assert local == []


@pytest.mark.parametrize("arch", ["sm_80", "sm_100"])
@pytest.mark.parametrize("case", share([*ESSENTIAL, *KINDS], 6), ids=str)
def test_compiles(case: Case, arch: str) -> None:
    check_local_memory(case, machine_code(compiled_for(case, arch)))


WARPGROUPS_ALSO = {"HMMA": "HGMMA", "IMMA": "IGMMA"}
"""What stands for an instruction where warpgroups multiply."""


@pytest.mark.parametrize("case", share(ON_SM_90, 6), ids=str)
def test_machine_code_for_sm_90(case: Case) -> None:
    code = machine_code(compiled_for(case, "sm_90"))
    for instruction in case.instructions:
        names = (instruction, WARPGROUPS_ALSO.get(instruction, instruction))
        assert any(kernel.counts[name] for kernel in code.values() for name in names), f"no {instruction}"
    check_local_memory(case, code)


def test_exceptions_are_of_cases_that_there_are() -> None:
    assert set(WITH_LOCAL_MEMORY) <= {case.name for case in ALL_CASES}


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", IN_VECTORS)
def test_aligned_arrays_move_in_vectors(name: str, arch: str) -> None:
    case = next(case for case in EXAMPLE_CASES if case.name == name)
    for kernel in machine_code(compiled_for(case, arch)).values():
        assert kernel.global_loads <= {16, 32}
        assert kernel.global_stores <= {16, 32}


def small(cases: Iterable[Case]) -> list[Case]:
    """Those with few elements."""
    return [case for case in cases if sum(np.size(argument) for argument in case.arguments()) <= MOST_ELEMENTS]


@pytest.mark.parametrize("case", one_of_each_kernel(small(ALL_CASES)), ids=str)
def test_gpu_ir_means_the_same(case: Case) -> None:
    arguments = [argument for argument in case.arguments() if not isinstance(argument, str)]
    placed, plans = plans_for(module_of(case, arguments), arguments)  # as these arrays are aligned
    module = parse_module(print_module(lowered(placed, plans[0])))
    returned = execute_gpu(module.entry, arguments, output=lambda text: None)
    assert_same(
        case, outcome(returned, arguments, lambda value: isinstance(value, np.ndarray), np.asarray), expected(case)
    )

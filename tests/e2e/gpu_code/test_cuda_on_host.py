"""GPU cases from end to end with no GPU: the CUDA C that is made of them runs on the host.

What is not tested so is what NVRTC makes of the text, and what happens between the threads of a real GPU.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.gpu_cases.gpu_cases import Case, assert_same, expected, outcome
from tests.support.gpu_cases.gpu_example_cases import EXAMPLE_CASES
from tests.support.gpu_cases.gpu_language_cases import LANGUAGE_CASES
from tests.support.gpu_cases.gpu_shape_cases import SHAPE_CASES
from tests.support.gpu_code.cuda_on_host import aligned, host_compiler, run_on_host
from tests.support.gpu_code.gpu_lowering import variants
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.gpu_machine import gpu_machine

MOST_ELEMENTS = 20_000
ARCH = "sm_90"


def chosen() -> list[Case]:
    """Of each kernel the first case with few elements."""
    found: dict[object, Case] = {}
    for case in [*EXAMPLE_CASES, *LANGUAGE_CASES, *SHAPE_CASES]:
        if sum(np.size(argument) for argument in case.arguments()) <= MOST_ELEMENTS:
            found.setdefault(case.kernel, case)
    return list(found.values())


CASES = chosen()
QUICK = {str(case) for case in CASES[::4]}


def _placed(argument: Any) -> Any:
    """As the memory of a GPU is aligned, unless it is a part of something."""
    array: Any = argument
    return aligned(array) if isinstance(argument, np.ndarray) and array.flags.c_contiguous else array


@pytest.mark.skipif(host_compiler() is None, reason="there is no C++ compiler")
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if str(case) in QUICK else (pytest.mark.slow,)) for case in CASES], ids=str
)
def test_it_means_the_same(case: Case, tmp_path: Path) -> None:
    arguments: list[Any] = [_placed(argument) for argument in case.arguments()]
    tile_text = case.kernel.compile(*arguments, arch="cpu", **case.constants).ir("tile")
    values = [argument for argument in arguments if not isinstance(argument, str)]
    _, module = next(variants(parse_module(tile_text), values, ARCH))
    returned = run_on_host(emit_program(module, gpu_machine(ARCH).capability), module.entry, values, tmp_path)
    actual = outcome(returned, values, lambda value: isinstance(value, np.ndarray), np.asarray)
    assert_same(case, actual, expected(case))

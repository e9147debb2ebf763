"""Names of users and names of generated code cannot meet: kernels of which everything is called something else."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.support.compare import assert_close
from tests.support.generators.renaming import generated_names, one_of_each_kernel, renamed
from tests.support.gpu_cases.gpu_cases import Case
from tests.support.gpu_cases.gpu_example_cases import EXAMPLE_CASES
from tests.support.gpu_cases.gpu_language_cases import LANGUAGE_CASES
from tests.support.kernels.lowered_kernels import kernel_from_text
from tiledsl import fuse, tile, trace
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.backend_cuda.frame.names import LOOPS, VARIABLES
from tiledsl.backend_cuda.functions.preamble import defined_names

WORDS = generated_names()
EXAMPLES = one_of_each_kernel(EXAMPLE_CASES)
LANGUAGE = one_of_each_kernel(LANGUAGE_CASES)
PLACES = {case.name: 23 * number for number, case in enumerate([*EXAMPLES, *LANGUAGE])}
"""Where in the list of words the names of each kernel begin: together they take all of them."""
VECTOR = tile.spec((1000,), tile.f32)


def compile_renamed(case: Case, arch: str = "sm_90") -> Case:
    again, _ = renamed(case, WORDS, PLACES[case.name])
    assert again.kernel.compile(*again.arguments(), arch=arch, **again.constants).cubin
    return again


@pytest.mark.parametrize("case", EXAMPLES, ids=str)
def test_examples_by_other_names(case: Case) -> None:
    again = compile_renamed(case)
    got, wanted = (c.kernel(*c.arguments(), **c.constants) for c in (again, case))
    assert_close(np.asarray(got), np.asarray(wanted))


@pytest.mark.slow
@pytest.mark.parametrize("case", LANGUAGE, ids=str)
def test_kernels_by_other_names(case: Case) -> None:
    compile_renamed(case, "sm_80")


@pytest.mark.parametrize("start", range(0, len(WORDS), 60))
def test_every_name_of_a_variable(start: int) -> None:
    """Each as a variable of its own."""
    words = [word for word in WORDS if word != "tile"]
    parameter, size, axis, result = "shared_memory", "blockIdx", "threadIdx", "min"
    names = [word for word in words[start : start + 60] if word not in (parameter, size, axis, result)]
    lines = [f"        {name} = {before} * 1.5 + 0.5" for before, name in zip([f"{parameter}[{axis}]", *names], names)]
    function = kernel_from_text(f"""
def limited({parameter}):
    {size} = {parameter}.shape[0]
    {result} = tile.empty({size}, {parameter}.dtype)
    for {axis} in tile.grid({size}):
{chr(10).join(lines)}
        {result}[{axis}] = {names[-1]}
    return {result}
""")
    compiled = tile.kernel(function).compile(VECTOR, arch="sm_80")
    assert compiled.cubin
    assert list(compiled.resources) == ["limited"]


def test_formulas() -> None:
    """Parameters of a graph, and the sizes of their axes."""
    function = kernel_from_text("""
def exp_f32(threadIdx, shared_memory, s):
    row = tile.exp(threadIdx * shared_memory)
    return tile.softmax(row + s, axis=-1)
""")
    specs = [tile.spec(("int", "program"), tile.f32), tile.spec(("program",), tile.f32), tile.spec((1,), tile.f32)]
    module = fuse(trace(tile.kernel(function), *specs)).build(arch="sm_90")
    assert "exp" in module.explain()


@pytest.mark.parametrize("word", sorted({*VARIABLES, *LOOPS}))
def test_own_names_are_apart(word: str) -> None:
    assert re.fullmatch("[a-z]+(_[a-z]+)*", word)
    assert word not in defined_names()
    assert len(word) == 1 or word not in LOOPS


def test_device_functions_are_apart() -> None:
    assert not [name for name in defined_names() if name.endswith("_")]


def test_own_names_are_no_words_of_cuda() -> None:
    lines = [f"    int {word} = x[0];\n    x[1] = {word};" for word in sorted({*VARIABLES, *LOOPS})]
    text = f'extern "C" __global__ void f(int* x) {{\n{chr(10).join(lines)}\n}}\n'
    assert compile_cubin(text, "sm_90", "f").kernels

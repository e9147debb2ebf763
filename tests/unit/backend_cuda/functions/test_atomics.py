"""Atomics in CUDA C: what they compute, run on the host element after element, and the instructions they choose."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.gpu_cases.device_cases import atomic_cases, takes
from tests.support.gpu_cases.scalar_operands import DTYPES, Array, assert_same, operands_of
from tests.support.gpu_code.device_functions import HostLibrary, compile_for_host, host_compiler
from tiledsl.backend_cuda.functions.atomics import atomic
from tiledsl.backend_cuda.functions.preamble import Preamble
from tiledsl.backend_ref.scalar_functions import apply
from tiledsl.ir.dtypes import DType, bf16, f16, f32, f64, i32, i64, u8
from tiledsl.ir.scalar_functions import ATOMICS


@pytest.fixture(scope="module", params=[80, 90])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> HostLibrary:
    cases = [case for dtype in DTYPES for case in atomic_cases(dtype)]
    return compile_for_host(cases, Preamble(request.param), tmp_path_factory.mktemp("host"))


@pytest.mark.skipif(host_compiler() is None, reason="no C compiler: generated C was not run")
@pytest.mark.parametrize("fn", ATOMICS)
def test_agrees_with_the_reference(host: HostLibrary, fn: str) -> None:
    scalar = {"max": "maximum", "min": "minimum"}.get(fn, fn)
    for dtype in DTYPES:
        if takes(fn, dtype):
            value, before = operands_of("maximum", dtype)
            memory: Array = np.array(before)
            want = value if fn == "exchange" else apply(scalar, before, value)
            assert_same(host.apply(f"case_atomic_{fn}_{dtype}", value, memory), before)
            assert_same(memory, want)


@pytest.mark.parametrize(
    ("fn", "dtype", "text"),
    [
        ("add", f32, "atomicAdd((float *)(p), v)"),
        ("max", i32, "atomicMax((int *)(p), v)"),
        ("add", i64, "(long long)atomicAdd((unsigned long long *)(p), (unsigned long long)(v))"),
        ("exchange", f64, "__longlong_as_double(atomicExch((unsigned long long *)(p), __double_as_longlong(v)))"),
        ("min", f32, "atomic_min_f32(p, v)"),
        ("add", f16, "atomic_add_f16(p, v)"),
        ("or", u8, "atomic_or_u8(p, v)"),
    ],
)
def test_expressions(fn: str, dtype: DType, text: str) -> None:
    assert atomic(fn, dtype, "p", "v", Preamble()) == text


def test_adding_bf16_is_an_instruction_from_sm_90_on() -> None:
    old, new = Preamble(80), Preamble(90)
    assert atomic("add", bf16, "p", "v", old) == atomic("add", bf16, "p", "v", new)
    assert "atomicCAS" in old.text()
    assert "atom.relaxed.gpu.add.noftz.bf16" in new.text()
    assert "atomicCAS" not in new.text()


def test_a_loop_is_printed_once() -> None:
    preamble = Preamble()
    for _ in range(2):
        atomic("max", bf16, "p", "v", preamble)
    text = preamble.text()
    assert text.count("float atomic_max_bf16(") == 1
    assert text.index("max_f32(float a") < text.index("float atomic_max_bf16(")

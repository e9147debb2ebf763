"""Sums of 1 and tanh or erf that are one function: where, and how far off."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.support.gpu_code.device_functions import Case, HostLibrary, compile_for_host, host_compiler
from tests.unit.backend_cuda.emit.test_coarse_values import TILE, coarse, module_of
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.backend_cuda.functions.preamble import Preamble
from tiledsl.backend_cuda.values.one_plus import ERRORS, FUNCTIONS
from tiledsl.ir.dtypes import bf16, f32

GELU = f"""
    %c1 = tile.constant() {{value = 1.0, dtype = f32}}
    %ones = tile.broadcast(%c1) {{shape = [128]}} : {TILE}
    %t = tile.map([%row]) {{fn = FN}}
    %sum = tile.map([%t, %ones]) {{fn = add}}
    %result = tile.map([%row, %sum]) {{fn = mul}}
"""


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_is_one_function_where_it_may_be_coarse(fn: str) -> None:
    assert coarse(GELU.replace("FN", fn))["sum"] == bf16
    text = emit_program(module_of(GELU.replace("FN", fn)), 90).text
    assert f"{FUNCTIONS[fn]}(" in text.split("__global__")[1]
    assert f"{fn}f(" not in text


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_is_a_sum_where_it_is_subtracted_from(fn: str) -> None:
    text = emit_program(module_of(GELU.replace("FN", fn).replace("mul}", "sub}")), 90).text
    assert f"{fn}f(" in text
    assert FUNCTIONS[fn] not in text


SOFTPLUS = f"""
    %c1 = tile.constant() {{value = 1.0, dtype = f32}}
    %ones = tile.broadcast(%c1) {{shape = [128]}} : {TILE}
    %e = tile.map([%row]) {{fn = exp}}
    %sum = tile.map([%e, %ones]) {{fn = add}}
    %log = tile.map([%sum]) {{fn = log}}
    %result = tile.map([%row, %log]) {{fn = mul}}
"""


def test_a_logarithm_of_one_plus_is_one_function() -> None:
    assert coarse(SOFTPLUS)["e"] == bf16
    text = emit_program(module_of(SOFTPLUS), 90).text.split("__global__")[1]
    assert "log_one_plus(" in text
    assert "exp_approx(" in text
    assert "logf(" not in text


def test_a_logarithm_that_is_subtracted_from_is_accurate() -> None:
    text = emit_program(module_of(SOFTPLUS.replace("mul}", "sub}")), 90).text.split("__global__")[1]
    assert "logf(" in text
    assert "log_one_plus" not in text


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> HostLibrary:
    if host_compiler() is None:
        pytest.skip("no C compiler: generated C was not run")

    def case(name: str) -> Case:
        return Case(f"{name}_case", (f32,), f32, lambda operands, preamble: f"{preamble.use(name)}({operands[0]})")

    folder: Path = tmp_path_factory.mktemp("host")
    return compile_for_host([case(name) for name in (*FUNCTIONS.values(), "log_one_plus")], Preamble(), folder)


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_errors(host: HostLibrary, fn: str) -> None:
    x = np.linspace(-2.8 if fn == "erf" else -40, 40, 100_001).astype(np.float32)
    exact = np.array([math.erfc(-v) if fn == "erf" else 2 / (1 + math.exp(-2 * v)) for v in map(float, x)])
    got = host.apply(f"{FUNCTIONS[fn]}_case", x).astype(np.float64)
    assert np.abs(got / exact - 1).max() <= ERRORS[fn] * 2.0**-17


def test_gelu_rounds_to_a_neighbour(host: HostLibrary) -> None:
    x = np.linspace(-12, 12, 200_001).astype(np.float32)
    gelu = (x * np.float32(0.5) * host.apply("one_plus_erf_case", x * np.float32(math.sqrt(0.5)))).astype(np.float16)
    exact = np.array([v * math.erfc(-v * math.sqrt(0.5)) / 2 for v in map(float, x)])
    unit = np.spacing(np.abs(exact).astype(np.float16)).astype(np.float64)
    assert (np.abs(gelu.astype(np.float64) - exact) / unit).max() < 0.75


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_special_operands(host: HostLibrary, fn: str) -> None:
    got = host.apply(f"{FUNCTIONS[fn]}_case", np.array([np.inf, -np.inf, np.nan, 0.0, 1e30, -1e30], np.float32))
    np.testing.assert_array_equal(got, np.array([2, 0, np.nan, 1, 2, 0], np.float32))


def test_errors_of_a_logarithm(host: HostLibrary) -> None:
    """Of small numbers too, of which the sum has no digit; the instruction is as far off as it may be."""
    y = np.exp(np.linspace(-80, 80, 100_001)).astype(np.float32)
    got = host.apply("log_one_plus_case", y).astype(np.float64)
    assert np.abs(got / np.log1p(y.astype(np.float64)) - 1).max() <= 2.0**-17
    special = host.apply("log_one_plus_case", np.array([0, np.inf, np.nan], np.float32))
    np.testing.assert_array_equal(special, [0, np.inf, np.nan])

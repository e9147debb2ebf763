"""The generator in CUDA C against the reference."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.gpu_cases.device_cases import random_cases
from tests.support.gpu_cases.scalar_operands import Array
from tests.support.gpu_code.device_functions import HostLibrary, compile_for_host, host_compiler
from tiledsl.backend_cuda.functions.preamble import Preamble
from tiledsl.backend_ref import philox as reference

OFFSETS = np.concatenate(
    [np.arange(1001), np.array([2**32, 2**63 - 1, -1]), np.random.default_rng(0).integers(-(2**63), 2**63, 1000)]
)
pytestmark = pytest.mark.skipif(host_compiler() is None, reason="no C compiler: generated C was not run")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> HostLibrary:
    return compile_for_host(random_cases(), Preamble(), tmp_path_factory.mktemp("host"))


def drawn(host: HostLibrary, fn: str, seed: int) -> Array:
    return host.apply(f"case_random_{fn}", np.full(len(OFFSETS), seed), OFFSETS)


@pytest.mark.parametrize("seed", [0, 1, -5, 2**40 + 17])
def test_bits_and_uniform_are_those_of_the_reference(host: HostLibrary, seed: int) -> None:
    key = np.asarray(seed, np.int64)
    np.testing.assert_array_equal(drawn(host, "bits", seed), reference.bits(key, OFFSETS))
    np.testing.assert_array_equal(drawn(host, "uniform", seed), reference.uniform(key, OFFSETS))


def test_normal_is_near_the_reference(host: HostLibrary) -> None:
    want = reference.normal(np.asarray(7, np.int64), OFFSETS)
    np.testing.assert_allclose(drawn(host, "normal", 7), want, rtol=1e-6, atol=1e-6)

"""The vector generator against the reference."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.jit import Array, elementwise
from tiledsl.backend_cpu.functions.philox import emit_random
from tiledsl.backend_cpu.llvm.writer import FunctionWriter
from tiledsl.backend_ref import philox as reference
from tiledsl.ir.dtypes import f32, i64, u32

SEEDS = (0, 1, -5, 2**40 + 17)
OFFSETS = np.concatenate(
    [np.arange(1001), np.array([2**32, 2**63 - 1, -1]), np.random.default_rng(0).integers(-(2**63), 2**63, 1000)]
)


def random_numbers(fn: str, seed: int, lanes: int) -> Array:
    def emit(writer: FunctionWriter, values: list[str]) -> str:
        return emit_random(writer, fn, str(seed), values[0], lanes)

    return elementwise(emit, [i64], u32 if fn == "bits" else f32, lanes)(OFFSETS)


@pytest.mark.parametrize("seed", SEEDS)
def test_bits_and_uniform_are_those_of_the_reference(seed: int) -> None:
    key = np.asarray(seed, np.int64)
    np.testing.assert_array_equal(random_numbers("bits", seed, 8), reference.bits(key, OFFSETS))
    np.testing.assert_array_equal(random_numbers("uniform", seed, 8), reference.uniform(key, OFFSETS))


def test_normal_is_near_the_reference() -> None:
    want = reference.normal(np.asarray(7, np.int64), OFFSETS)
    np.testing.assert_allclose(random_numbers("normal", 7, 8), want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("fn", ["bits", "uniform", "normal"])
def test_the_number_of_lanes_changes_nothing(fn: str) -> None:
    one = random_numbers(fn, 3, 1)
    np.testing.assert_array_equal(random_numbers(fn, 3, 16), one)

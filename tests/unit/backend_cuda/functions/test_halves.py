"""Pairs of f16: what their functions give is what f32 gives, rounded, to the last bit."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.gpu_cases.device_cases import halves_cases
from tests.support.gpu_cases.scalar_operands import Array
from tests.support.gpu_code.device_functions import HostLibrary, compile_for_host, host_compiler
from tiledsl.backend_cuda.functions.preamble import Preamble

needs_compiler = pytest.mark.skipif(host_compiler() is None, reason="no C compiler here")
COUNT = 4096


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> HostLibrary:
    return compile_for_host(halves_cases(), Preamble(90), Path(tmp_path_factory.mktemp("halves")))


def words(seed: int) -> Array:
    return np.random.default_rng(seed).integers(0, 1 << 32, COUNT, np.uint64).astype(np.uint32)


def pairs(of: Any) -> Array:
    return of.view(np.float16).reshape(-1, 2)


def as_words(low: Array, high: Array) -> Array:
    both: Any = np.stack([low, high], axis=1).astype(np.float16)
    return both.view(np.uint32)[:, 0]


@needs_compiler
@pytest.mark.parametrize("fn", ["add", "sub", "mul"])
def test_rounded_once_or_twice_is_the_same(host: HostLibrary, fn: str) -> None:
    a, b = words(1), words(2)
    with np.errstate(all="ignore"):
        whole = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[fn](
            pairs(a).astype(np.float64), pairs(b).astype(np.float64)
        )
        once, twice = whole.astype(np.float16), whole.astype(np.float32).astype(np.float16)
    given = pairs(host.apply(f"halves_{fn}_case", a, b))
    np.testing.assert_array_equal(given, once)
    np.testing.assert_array_equal(given, twice)


@needs_compiler
@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize(("kind", "bits"), [("nibbles", 4), ("bytes", 8)])
def test_integers(host: HostLibrary, kind: str, bits: int, dtype: str) -> None:
    a, b = words(3), words(4)

    def integer(word: Array, at: int) -> Array:
        found = (word >> np.uint32(bits * at) & np.uint32((1 << bits) - 1)).astype(np.int64)
        sign = 1 << bits - 1
        return (found ^ sign) - sign if dtype == "i8" else found

    for at, at_1 in product(range(32 // bits), repeat=2):
        given = host.apply(f"halves_of_{kind}_{dtype}_case", a, b, np.full(COUNT, at + 8 * at_1))
        np.testing.assert_array_equal(given, as_words(integer(a, at), integer(b, at_1)))


@needs_compiler
def test_picked(host: HostLibrary) -> None:
    a, b = words(5), words(6)
    for at, at_1 in product(range(2), repeat=2):
        given = host.apply("pick_halves_case", a, b, np.full(COUNT, at + 8 * at_1))
        wanted = (a >> np.uint32(16 * at) & np.uint32(0xFFFF)) | (b >> np.uint32(16 * at_1)) << np.uint32(16)
        np.testing.assert_array_equal(given, wanted)

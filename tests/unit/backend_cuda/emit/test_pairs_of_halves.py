"""Which tiles of f16 are computed two elements at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tiledsl import tile

M, K = 64, 128


@tile.kernel
def scaled(q: tile.Tensor, s: tile.Tensor) -> tile.Tensor:
    M, K = q.shape
    out = tile.empty((M, K), tile.f16)
    for m, k in tile.grid(M, K):
        out[m, k] = (q[m, k].to(tile.f32) * s[m, k].to(tile.f32)).to(tile.f16)
    return out


@tile.kernel
def shifted(q: tile.Tensor, z: tile.Tensor, s: tile.Tensor) -> tile.Tensor:
    M, K = q.shape
    out = tile.empty((M, K), tile.f16)
    for m, k in tile.grid(M, K):
        out[m, k] = ((q[m, k].to(tile.f32) - z[m, k].to(tile.f32)) * s[m, k].to(tile.f32)).to(tile.f16)
    return out


@tile.kernel
def squared(s: tile.Tensor) -> tile.Tensor:
    M, K = s.shape
    out = tile.empty((M, K), tile.f16)
    for m, k in tile.grid(M, K):
        x = s[m, k].to(tile.f32)
        out[m, k] = (x * x * x).to(tile.f16)
    return out


def spec(dtype: Any) -> Any:
    return tile.spec((M, K), dtype)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("dtype", [tile.i8, tile.u8])
def test_integers_and_halves(arch: str, dtype: Any) -> None:
    source = scaled.compile(spec(dtype), spec(tile.f16), arch=arch).source
    assert f"halves_mul(halves_of_bytes_{dtype}(" in source
    assert "float_of_byte" not in source
    source = shifted.compile(spec(dtype), spec(dtype), spec(tile.f16), arch=arch).source
    assert f"halves_mul(halves_sub(halves_of_bytes_{dtype}(" in source


@pytest.mark.parametrize("dtype", [tile.i16, tile.f32])
def test_what_f16_does_not_hold_is_computed_in_f32(dtype: Any) -> None:
    assert "halves_" not in scaled.compile(spec(dtype), spec(tile.f16), arch="sm_90").source


def test_what_is_rounded_once_behind_two_operations_is_computed_in_f32() -> None:
    assert "halves_" not in squared.compile(spec(tile.f16), arch="sm_90").source


def test_the_emulator_has_the_same_bits() -> None:
    random = np.random.default_rng(0)
    q = random.integers(-128, 128, (M, K)).astype(np.int8)
    drawn: Any = random.integers(0, 0x7C00, (M, K)).astype(np.uint16)
    s = drawn.view(np.float16)
    with np.errstate(over="ignore"):
        wanted = (q.astype(np.float32) * s.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(np.asarray(scaled.emulate(q, s)), wanted)

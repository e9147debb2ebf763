"""Integers of 4 bits in kernels: unpacked, converted, packed again, on the CPU and in the emulator."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tiledsl import tile

HALVES = (37, 192)
BYTES: Any = np.random.default_rng(0).integers(0, 256, (37, 96)).astype(np.uint8)
LOW_FIRST: Any = np.stack([BYTES & 15, BYTES >> 4], axis=-1)
LOW_FIRST = np.reshape(LOW_FIRST, HALVES).astype(np.int8)


@tile.kernel
def unpacked(w: tile.Tensor, like: tile.Tensor) -> tile.Tensor:
    N, B = w.shape
    out = tile.empty((N, 2 * B), like.dtype)
    for n, k in tile.grid(N, 2 * B):
        b = w[n, k.index // 2]
        out[n, k] = tile.nibble(b, k.index.to(b.dtype)).to(like.dtype)
    return out


@tile.kernel
def packed(q: tile.Tensor) -> tile.Tensor:
    N, K = q.shape
    out = tile.empty((N, K // 2), tile.u8)
    for n, b in tile.grid(N, K // 2):
        low, high = q[n, b.index * 2], q[n, b.index * 2 + 1]
        out[n, b] = (low.to(tile.u8) & 15) | (high.to(tile.u8) << 4)
    return out


@pytest.mark.parametrize("held", [np.uint8, np.int8])
@pytest.mark.parametrize("like", [np.float16, ml_dtypes.bfloat16, np.float32, np.int8, np.int32])
def test_unpacked(held: Any, like: Any) -> None:
    wanted = (LOW_FIRST ^ 8) - 8 if held is np.int8 else LOW_FIRST
    given: Any = BYTES.view(held), np.zeros(1, like)
    assert np.array_equal(unpacked(*given), wanted.astype(like))
    for arch in ("sm_80", "sm_90"):
        assert np.array_equal(np.asarray(unpacked.emulate(*given, arch=arch)), wanted.astype(like))


def test_packed() -> None:
    for q in (LOW_FIRST, (LOW_FIRST ^ 8) - 8):
        assert np.array_equal(packed(q), BYTES)
        assert np.array_equal(np.asarray(packed.emulate(q)), BYTES)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_bytes_are_read_by_vectors(arch: str) -> None:
    compiled = unpacked.compile(tile.spec((4096, 2048), tile.u8), tile.spec((1,), tile.f16), arch=arch)
    source = compiled.source
    assert "float_of_nibble_u8(" in source
    assert "read_uint" in source
    assert "read_bits8" not in source

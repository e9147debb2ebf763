"""Tiles of f16 that are computed two elements at a time have the bits that f32 gives, rounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.unit.backend_cuda.emit.test_pairs_of_halves import scaled, shifted

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")
BITS: Any = np.arange(1 << 16, dtype=np.uint16)


def on_device(*arrays: Any) -> list[Any]:
    return [torch.from_numpy(array).cuda() for array in arrays]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_every_scale(dtype: Any) -> None:
    s = np.repeat(BITS.view(np.float16)[:, None], 16, axis=1)
    random = np.random.default_rng(0)
    drawn: list[Any] = [random.integers(0, 256, s.shape).astype(np.uint8) for _ in range(2)]
    q, z = (one.view(dtype) for one in drawn)
    with np.errstate(all="ignore"):
        wide = q.astype(np.float32)
        once = (wide * s.astype(np.float32)).astype(np.float16)
        apart = ((wide - z.astype(np.float32)) * s.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(scaled(*on_device(q, s)).cpu().numpy(), once)
    np.testing.assert_array_equal(shifted(*on_device(q, z, s)).cpu().numpy(), apart)


@pytest.mark.parametrize("rows", [1, 16, 64])
@pytest.mark.parametrize("packed", ["i4", "u4"])
def test_products_with_packed_weights(packed: str, rows: int) -> None:
    random = np.random.default_rng(rows)
    k, n, group = 512, 320, 64
    x = random.standard_normal((rows, k)).astype(np.float16)
    w = random.integers(0, 256, (n, k // 2)).astype(np.uint8)
    s = (random.random((n, k // group)) * 0.1).astype(np.float16)
    z = random.integers(0, 16, (n, k // group)).astype(np.uint8)
    held = getattr(tiledsl.tile, packed)
    zeros = () if packed == "i4" else (z,)

    def formula(x: Any, w: Any, s: Any, *z: Any) -> Any:
        return tiledsl.ops.quantised_linear(x, w, s, *z, dtype=held, group=group)

    built = tiledsl.fuse(tiledsl.trace(formula, x, w, s, *zeros))
    given = built.build("cpu")(x, w, s, *zeros)
    np.testing.assert_allclose(
        built.build()(*on_device(x, w, s, *zeros)).cpu().numpy(), np.asarray(given), rtol=2e-2, atol=2e-2
    )

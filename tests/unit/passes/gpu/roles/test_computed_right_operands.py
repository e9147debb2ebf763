"""Right operands that threads compute: each element once, beside the product before, behind which the next queues."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.support.kernels.masked_products import lowered_for_all
from tests.support.kernels.product_nests import placed_case
from tiledsl import tile
from tiledsl.ir.core import Module
from tiledsl.ir.gpu.async_ops import NamedBarrier, Wgmma, WgmmaWait
from tiledsl.ir.gpu.gpu_ops import Write
from tiledsl.ir.tile_ops import For
from tiledsl.passes.gpu.plan import parse_plan

pytestmark = pytest.mark.filterwarnings("ignore::tiledsl.TilePerformanceWarning")


@tile.kernel
def widened(x: tile.Tensor, w: tile.Tensor) -> tile.Tensor:
    """x @ w.T for weights of 8 bits."""
    M, K = x.shape
    N, K = w.shape
    out = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(x[m, k], w[n, k].mT.to(x.dtype), acc)
        out[m, n] = acc
    return out


def normal(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float16)


def codes(*shape: int) -> Any:
    return np.random.default_rng(1).integers(-100, 100, shape).astype(np.int8)


@cache
def loop_of(columns: int, rows: int = 256) -> For:
    """The loop of those who multiply."""
    warps = 8 if rows > 64 else 4
    plan = f"m={rows}, n={columns}, k=64, {32 * warps} threads, {warps}x1 warps, 2 stages, cooperative"
    module: Module = placed_case(widened, [normal(512, 192), codes(672, 192)])
    lowered = lowered_for_all(module, parse_plan(f"{plan}, aligned to 16/16/16"))
    return next(op for op in lowered.walk() if isinstance(op, For) and any(isinstance(o, Wgmma) for o in op.body.ops))


@pytest.mark.parametrize("columns", [96, 112, 128, 176])
def test_each_element_is_computed_once(columns: int) -> None:
    (write,) = [op for op in loop_of(columns).body.ops if isinstance(op, Write)]
    assert write.value.layout.replicas == 1
    assert write.value.layout.slots == 64 * columns // 256


def test_products_queue_behind_each_other() -> None:
    body = loop_of(112).body.ops
    (wait,) = [op for op in body if isinstance(op, WgmmaWait)]
    assert wait.groups == 1
    (write,) = [op for op in body if isinstance(op, Write)]
    product = next(op for op in body if isinstance(op, Wgmma))
    barriers = [body.index(op) for op in body if isinstance(op, NamedBarrier)]
    assert body.index(product) < body.index(wait) < body.index(write)
    # all are done with the slot, then all have written it
    assert len(barriers) == 2
    assert barriers[0] < body.index(product)
    assert body.index(wait) < barriers[1] < body.index(write)


@pytest.mark.parametrize("depth", [64, 128, 200, 448])
@pytest.mark.parametrize("seed", [None, 0, 1])
def test_any_number_of_turns(depth: int, seed: int | None) -> None:
    x, w = normal(256, depth), codes(224, depth)
    wanted = np.einsum("mk,nk->mn", x.astype(np.float64), w.astype(np.float64))
    for plan in (0, 2):
        got = widened.emulate(x, w, arch="sm_90", plan=plan, seed=seed)
        assert np.allclose(got, wanted, rtol=2e-3, atol=2.0)

"""What blocks of a cluster cannot do with each other: known before anything is lowered, or loaded as it is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.support.gpu_code.gpu_lowering import lowered
from tests.support.kernels.product_nests import placed_case
from tiledsl import tile
from tiledsl.ir.core import Module
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.gpu.plans.choose_plans import choose_plans
from tiledsl.passes.gpu.plans.facts.cluster_moves import moved_between_blocks
from tiledsl.passes.gpu.plans.facts.grid_shape import grids_of, sizes_of_call
from tiledsl.passes.gpu.plans.product_plans.specialised_plans import contract_of, read_grid, refused_tilings
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.support.errors import TileResourceError

HOPPER = gpu_machine("sm_90")
ALIGNED = (16,) * 8
SIZES = dict.fromkeys("MNK", 4096)


@tile.kernel
def turned_too(a: tile.Tensor, b: tile.Tensor, x: tile.Tensor) -> tuple[tile.Tensor, tile.Tensor]:
    """What is met by sums as they lie is stored as it was loaded, too."""
    M, K = a.shape
    K, N = b.shape
    c, d = tile.empty((M, N), a.dtype), tile.empty((N, M), x.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n))
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc)
        c[m, n] = acc + x[n, m].T
        d[n, m] = x[n, m]
    return c, d


@tile.kernel
def rows_beside(a: tile.Tensor, b: tile.Tensor, x: tile.Tensor) -> tile.Tensor:
    """Rows that are folded lie otherwise than sums do, but in the same blocks."""
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n))
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc)
        c[m, n] = acc + tile.sum(x[m, :], axis=1)[:, None]
    return c


@tile.kernel
def columns_beside(a: tile.Tensor, b: tile.Tensor, x: tile.Tensor) -> tile.Tensor:
    """Each block of a cluster has a part of the rows that are folded."""
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n))
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc)
        c[m, n] = acc + tile.max(x[n, m], axis=1)[None, :]
    return c


@tile.kernel
def weighted_images(x: tile.Tensor, w: tile.Tensor) -> tile.Tensor:
    M, H, W = x.shape
    W, H = w.shape
    out = tile.empty((M, H, W), x.dtype)
    for m in tile.grid(M, block=1):
        image = x[m, :, :]
        out[m, :, :] = (image - tile.max(image)) * w[:, :].T
    return out


@tile.kernel
def images_as_rows(x: tile.Tensor) -> tile.Tensor:
    M, H, W = x.shape
    out = tile.empty((M, H * W), x.dtype)
    for m in tile.grid(M, block=1):
        image = x[m, :, :]
        out[m, :] = tile.reshape(tile.exp(image - tile.max(image)), (H * W,))
    return out


@tile.kernel
def running(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    out = tile.empty((M, N), x.dtype)
    for m in tile.grid(M):
        out[m, :] = tile.cumsum(x[m, :], axis=1)
    return out


def zeros(*shape: int, dtype: Any = np.float16) -> Any:
    return np.zeros(shape, dtype)


def plans_of(kernel: Any, arrays: list[Any], sizes: dict[str, int]) -> tuple[Module, Sequence[Plan]]:
    placed = placed_case(kernel, arrays)
    return placed, choose_plans(placed.entry, HOPPER, sizes, ALIGNED)


@pytest.mark.parametrize("kernel", [turned_too, rows_beside])
def test_what_is_met_as_it_lies_is_loaded_so_or_moves_within_blocks(kernel: Any) -> None:
    placed, plans = plans_of(kernel, [zeros(64, 64)] * 2 + [zeros(64, 64, dtype=np.float32)], SIZES)
    clusters = [plan for plan in plans if plan.grids[0].cluster > 1]
    assert clusters
    for plan in clusters[:2]:
        lowered(placed, plan)


def test_folds_along_shared_rows_are_refused_with_a_reason() -> None:
    placed, plans = plans_of(columns_beside, [zeros(64, 64)] * 2 + [zeros(64, 64, dtype=np.float32)], SIZES)
    assert plans[0].grids[0].roles
    assert all(plan.grids[0].cluster == 1 for plan in plans)
    lowered(placed, plans[0])
    grid = next(grids_of(placed.entry))
    nest, axes = read_grid(grid.op, grid.blocks, HOPPER, sizes_of_call(placed.entry, grid, SIZES, ALIGNED))
    reasons = {one.reason for one in refused_tilings(nest, HOPPER, contract_of(axes)) if one.tiling.side > 1}
    assert reasons == {"a fold goes along what blocks of a cluster share: each has a part, and all need the result"}


def test_weights_are_loaded_as_a_cluster_reads_them() -> None:
    sizes = {"M": 512, "H": 512, "W": 512}
    images = zeros(4, 512, 512, dtype=np.float32)
    placed, plans = plans_of(weighted_images, [images, images[0]], sizes)
    assert any(plan.grids[0].cluster > 1 for plan in plans)
    assert not [plan for plan in plans if is_refused_when_lowered(placed, plan)]


def is_refused_when_lowered(placed: Module, plan: Plan) -> bool:
    try:
        lowered(placed, plan)
    except TileResourceError as error:
        return error.code == "plan-cluster"
    return False


@pytest.mark.parametrize(
    ("kernel", "shape", "reason"),
    [
        (images_as_rows, (4, 128, 256), "a reshape moves elements to places in another block of the cluster"),
        (running, (4, 32768), "a scan goes on in another block of the cluster"),
    ],
)
def test_long_rows_that_no_cluster_can_share(kernel: Any, shape: tuple[int, ...], reason: str) -> None:
    sizes = {"M": 4096, "N": 32768, "H": 128, "W": 256}
    placed, plans = plans_of(kernel, [zeros(*shape)], sizes)
    assert all(plan.grids[0].cluster == 1 for plan in plans)
    (grid,) = grids_of(placed.entry)
    assert moved_between_blocks(grid.op, None, folds=True) == reason

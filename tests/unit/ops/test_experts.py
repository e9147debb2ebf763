"""Mixtures of experts: products of rows with the matrix of their expert, where rows go and how they come back."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tests.support.op_checks import F16, F32, agree, normal
from tiledsl import ops, tile
from tiledsl.support.errors import TileError

BF16 = ml_dtypes.bfloat16
OFFSETS = {
    "uneven": [0, 130, 130, 200, 201, 290],
    "all of one": [0, 0, 0, 290, 290, 290],
    "none behind": [0, 60, 120, 180, 240, 300],
    "no rows of any": [0, 0, 0, 0, 0, 0],
}


def grouped(x: Any, weights: Any, offsets: Any) -> Any:
    """In f64; rows of no expert are 0."""
    y = np.zeros((x.shape[0], weights.shape[2]))
    for e, (first, last) in enumerate(pairwise(offsets)):
        y[first:last] = x[first:last].astype(np.float64) @ weights[e].astype(np.float64)
    return y


@pytest.mark.parametrize("dtype", [F32, F16])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", OFFSETS)
def test_grouped_linear(name: str, transposed: bool, dtype: Any) -> None:
    offsets = np.array(OFFSETS[name], np.int32)
    x, weights = normal(300, 24, dtype=dtype), normal(5, 24, 40, dtype=dtype)
    given = np.ascontiguousarray(weights.transpose(0, 2, 1)) if transposed else weights
    expected = grouped(x, weights, offsets)
    agree(lambda x, w, o: ops.grouped_linear(x, w, o, transposed=transposed), [x, given, offsets], expected, terms=24)


@pytest.mark.parametrize("dtype", [F16, BF16, F32])
def test_in_the_emulator(dtype: Any) -> None:
    offsets = np.array([0, 10, 10, 150, 170], np.int64)
    x, weights = normal(180, 64, dtype=dtype), normal(4, 64, 128, dtype=dtype)
    result = ops.grouped_linear.emulate(x, weights, offsets, arch="sm_90")
    assert_close(result, grouped(x, weights, offsets).astype(dtype), terms=64)


def test_tiles_go_by_warpgroups_and_tma() -> None:
    shapes = (((4096, 2048), tile.bf16), ((16, 2048, 4096), tile.bf16), ((17,), tile.i32))
    graph = tiledsl.trace(lambda x, w, o: ops.grouped_linear(x, w, o), *(tile.spec(*given) for given in shapes))
    audit = tiledsl.fuse(graph).audit("sm_90")
    assert [kernel.kernel.by_warpgroups for kernel in audit.kernels] == [True, False]
    built = tiledsl.fuse(graph).build("sm_90")
    text = built.kernels["grouped_product"].ir("gpu")
    assert text.count("gpu.tma_load(") >= 2


def moe(x: Any, logits: Any, up: Any, down: Any) -> Any:
    routing = ops.route(logits, 2)
    h = ops.silu(ops.grouped_linear(ops.dispatch(x, routing), up, routing.offsets))
    return ops.combine(ops.grouped_linear(h, down, routing.offsets), routing)


def test_a_mixture_is_one_module() -> None:
    x, logits = normal(50, 16), normal(50, 6, seed=1)
    up, down = normal(6, 16, 24, scale=0.3), normal(6, 24, 16, scale=0.3)
    chosen = np.argsort(-logits, axis=1, kind="stable")[:, :2]
    scores = np.exp(np.take_along_axis(logits, chosen, 1).astype(np.float64))
    scores /= scores.sum(axis=1, keepdims=True)
    expected = np.zeros((50, 16))
    for t in range(50):
        for e, share in zip(chosen[t], scores[t]):
            h = x[t].astype(np.float64) @ up[e]
            expected[t] += share * ((h / (1 + np.exp(-h))) @ down[e])
    agree(moe, [x, logits, up, down], expected, terms=24)


@pytest.mark.parametrize(("rows", "experts", "k"), [(300, 5, 2), (7, 3, 3), (1, 4, 1), (200, 64, 8)])
def test_routing(rows: int, experts: int, k: int) -> None:
    logits = normal(rows, experts)
    routing = ops.route(logits, k)
    chosen = np.argsort(-logits, axis=1, kind="stable")[:, :k]
    copies = np.argsort(chosen.reshape(-1), kind="stable")
    assert np.array_equal(routing.experts, chosen)
    assert np.array_equal(routing.copies, copies)
    assert np.array_equal(np.asarray(routing.places)[copies], np.arange(rows * k))
    assert np.array_equal(np.diff(routing.offsets), np.bincount(chosen.reshape(-1), minlength=experts))
    assert np.allclose(np.asarray(routing.weights).sum(axis=1), 1)


def test_weights_that_are_not_normalised() -> None:
    logits = normal(30, 6)
    routing = ops.route(logits, 2, normalize=False)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert np.allclose(routing.weights, np.take_along_axis(shares, np.asarray(routing.experts, np.int64), 1), atol=1e-6)


def test_offsets_beyond_the_rows_are_found() -> None:
    x, weights = normal(30, 8), normal(2, 8, 8)
    assert ops.grouped_linear.check(x, weights, np.array([0, 10, 30], np.int32)).ok
    with pytest.raises(TileError, match="an offset is below 0, or beyond the rows"):
        ops.grouped_linear.check(x, weights, np.array([0, 10, 200], np.int32))


REFUSED: dict[str, tuple[Any, str]] = {
    "weights of other rows": (lambda x, w, o: ops.grouped_linear(x[:, :4], w, o), "a row has a number for each row"),
    "offsets of other experts": (lambda x, w, o: ops.grouped_linear(x, w, o[1:]), "one offset more than experts"),
    "other dtypes": (lambda x, w, o: ops.grouped_linear(x, w.to(tile.f16), o), "f32 is multiplied with f16"),
    "floats as offsets": (lambda x, w, o: ops.grouped_linear(x, w, x[0]), "integers"),
    "one matrix": (lambda x, w, o: ops.grouped_linear(x, w[0], o), "give a matrix for each expert"),
    "a vector": (lambda x, w, o: ops.grouped_linear(x[0], w, o), "make one axis of all rows"),
    "too many experts": (lambda x, w, o: ops.route(x, 9), "an int from 1 to 8"),
    "logits of rank 1": (lambda x, w, o: ops.route(x[0], 1), "make one axis of all rows"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit(name: str) -> None:
    formula, words = REFUSED[name]
    with pytest.raises(TileError, match=words):
        tiledsl.trace(formula, normal(30, 8), normal(2, 8, 8), np.array([0, 10, 30], np.int32))

"""Formulas with several products on either side of a softmax are one kernel, and right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tiledsl import ops, tile
from tiledsl.ir.graph_ops import Call
from tiledsl.runtime.calls.outputs import as_tuple

Array = Any


def softmax(scores: Array) -> Array:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def two_scores(q: Any, k: Any, a: Any, b: Any, v: Any) -> Any:
    return ops.softmax(q @ k.mT + a @ b.mT, axis=-1) @ v


def two_values(q: Any, k: Any, a: Any, b: Any, v: Any) -> Any:
    weights = ops.softmax(q @ k.mT, axis=-1)
    return weights @ v, weights @ k


def both(q: Any, k: Any, a: Any, b: Any, v: Any) -> Any:
    weights = ops.softmax(q @ k.mT + ops.tanh(a @ b.mT), axis=-1)
    return weights @ v, weights @ b


def expected(formula: Any, q: Array, k: Array, a: Array, b: Array, v: Array) -> tuple[Array, ...]:
    scores, more = q @ k.transpose(0, 2, 1), a @ b.transpose(0, 2, 1)
    if formula is two_scores:
        return (softmax(scores + more) @ v,)
    if formula is two_values:
        return softmax(scores) @ v, softmax(scores) @ k
    return softmax(scores + np.tanh(more)) @ v, softmax(scores + np.tanh(more)) @ b


def arrays(dtype: Any, keys: int) -> list[Array]:
    random = np.random.default_rng(0)
    shapes = [(2, 40, 64), (2, keys, 64), (2, 40, 32), (2, keys, 32), (2, keys, 48)]
    return [(random.standard_normal(shape) * 0.3).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("formula", [two_scores, two_values, both])
def test_one_kernel(formula: Any) -> None:
    fused = tiledsl.fuse(tiledsl.trace(formula, *arrays(np.float16, 256)))
    calls = [op for op in fused.lowered("sm_90").entry.body.ops if isinstance(op, Call)]
    assert len(calls) == 1
    (audited,) = fused.audit("sm_90").kernels
    assert audited.kernel.by_warpgroups


@pytest.mark.parametrize("formula", [two_scores, two_values, both])
@pytest.mark.parametrize("keys", [1, 75])
def test_values(formula: Any, keys: int) -> None:
    given = arrays(np.float32, keys)
    found = tiledsl.fuse(tiledsl.trace(formula, *given)).build(arch="cpu")(*given)
    for actual, wanted in zip(as_tuple(found), expected(formula, *given)):
        assert_close(np.asarray(actual), wanted.astype(np.float32), relative=1e-4, absolute=1e-5)


@pytest.mark.parametrize("formula", [two_scores, both])
def test_in_the_emulator(formula: Any) -> None:
    given = arrays(np.float16, 80)
    wide = [array.astype(np.float64) for array in given]
    found = tile.kernel(formula).emulate(*given, arch="sm_90")
    for actual, wanted in zip(as_tuple(found), expected(formula, *wide)):
        assert_close(np.asarray(actual), wanted.astype(np.float16), relative=1e-2, absolute=1e-2)

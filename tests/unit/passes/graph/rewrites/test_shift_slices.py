"""Slices that overlap, and those of what is padded, are read of one tensor: kernels compute the same."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tests.support.emulated import emulated
from tests.support.op_checks import F16, F32, normal
from tiledsl import tile

Formula = Callable[..., Any]


def _heat(u: Any) -> Any:
    p = tile.pad(u, 1)
    return u + 0.1 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * u)


def _clamped(u: Any) -> Any:
    """Padded by another number, farther on one side, and cut."""
    p = tile.pad(u, ((2, 1), (0, 3)), value=1.5)
    return p[:-3, 1:] * p[3:, :-1] + p[1:-2, 1:]


def _causal(x: Any) -> Any:
    """What was before, by a pad of a slice."""
    return x * 0.75 + tile.pad(x[:, :-1], ((0, 0), (1, 0))) * 0.25


def _cut_and_padded(x: Any) -> Any:
    """What is cut off is not what is padded in its place."""
    return x + tile.pad(x[:, 1:], ((0, 0), (1, 0)))


STENCILS: dict[str, tuple[Formula, tuple[int, ...], int]] = {
    "heat": (_heat, (19, 37), 1),
    "clamped": (_clamped, (19, 37), 1),
    "differences": (lambda x: x[1:, 2:] - x[:-1, :-2], (19, 37), 1),
    "of what is widened": (lambda x: x.to(tile.f32)[:, 1:] * x.to(tile.f32)[:, :-1], (19, 37), 1),
    "causal": (_causal, (19, 37), 1),
    "cut and padded": (_cut_and_padded, (19, 37), 1),
    "of running sums": (lambda x: (lambda c: c[:, 4:] - c[:, :-4])(tile.cumsum(x.to(tile.f32), axis=1)), (7, 37), 2),
    "sums of differences": (lambda x: tile.sum(tile.abs(x[1:] - x[:-1]), axis=1), (19, 37), 1),
    "sum of all differences": (lambda x: tile.sum(tile.abs(x[1:, 1:] - x[:-1, :-1])), (19, 37), 1),
    "rows of one": (lambda x: x[:, 1:] - x[:, :-1], (1, 70), 1),
}


@pytest.mark.parametrize("dtype", [F16, F32], ids=str)
@pytest.mark.parametrize("name", STENCILS)
def test_kernels_compute_the_same(name: str, dtype: Any) -> None:
    formula, shape, _ = STENCILS[name]
    x = normal(*shape, dtype=dtype)
    found, expected = emulated(formula, [x], seed=1)
    assert_close(found, expected, relative=4e-3 if dtype == F16 else 1e-5, terms=40)
    assert_close(np.asarray(tiledsl.fuse(tiledsl.trace(formula, x)).build("cpu")(x)), expected, relative=4e-3, terms=40)


@pytest.mark.parametrize("name", STENCILS)
def test_nothing_is_copied(name: str) -> None:
    formula, shape, kernels = STENCILS[name]
    graph = tiledsl.trace(formula, tile.spec(shape, tile.f32))
    assert len(tiledsl.fuse(graph).lowered("sm_90").functions) - 1 <= kernels + (name == "sum of all differences")


def test_what_overlaps_is_counted_once() -> None:
    audit = tiledsl.fuse(tiledsl.trace(_heat, tile.spec((4096, 4096), tile.f32))).audit("sm_90")
    (kernel,) = audit.kernels
    assert kernel.kernel.memory_bytes < 1.1 * audit.must_bytes

"""Rolls and other joins of slices of one tensor are read of it: kernels compute the same, and nothing is copied."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import tiledsl
from tests.support.compare import assert_close
from tests.support.emulated import emulated
from tests.support.op_checks import F16, F32, normal
from tiledsl import tile
from tiledsl.ir.graph_ops import Call

Formula = Callable[..., Any]


def _roll(x: Any, by: int, axis: int) -> Any:
    whole, by = (slice(None),) * axis, by % x.shape[axis]
    return tile.concat(
        [x[(*whole, slice(x.shape[axis] - by, None))], x[(*whole, slice(x.shape[axis] - by))]], axis=axis
    )


def _laplacian(u: Any) -> Any:
    return sum(_roll(u, by, axis) for by in (1, -1) for axis in (0, 1)) - 4 * u


def _circle(u: Any) -> Any:
    padded = tile.concat([u[:, -2:], u, u[:, :1]], axis=1)
    return padded * 0.5 + 1


STENCILS: dict[str, tuple[Formula, tuple[int, ...], int]] = {
    "laplacian": (_laplacian, (19, 37), 1),
    "two steps": (lambda u: _laplacian(_laplacian(u)), (19, 37), 2),
    "both axes": (lambda u: _roll(_roll(u, 3, 0), -5, 1) - u, (19, 37), 1),
    "halves": (lambda u: _roll(u, 32, 1) * u, (9, 64), 1),
    "circle": (_circle, (19, 37), 1),
    "sums": (lambda u: tile.sum(_roll(u, 1, 1) * u, axis=1), (19, 37), 1),
    "transposed": (lambda u: _roll(u.transpose(1, 0), 2, 0) + u.transpose(1, 0), (19, 37), 1),
}


@pytest.mark.parametrize("dtype", [F16, F32], ids=str)
@pytest.mark.parametrize("name", STENCILS)
def test_kernels_compute_the_same(name: str, dtype: Any) -> None:
    formula, shape, _ = STENCILS[name]
    found, expected = emulated(formula, [normal(*shape, dtype=dtype)], seed=1)
    assert_close(found, expected, relative=2e-2 if dtype == F16 else 1e-5)


@pytest.mark.parametrize("name", STENCILS)
def test_nothing_is_copied(name: str) -> None:
    formula, shape, kernels = STENCILS[name]
    graph = tiledsl.trace(formula, tile.spec(shape, tile.f32))
    lowered = tiledsl.fuse(graph).lowered("sm_90").entry.body.ops
    assert sum(isinstance(op, Call) for op in lowered) == kernels


MOVES: dict[str, Callable[[Any, int, int], Any]] = {
    "roll": _roll,
    "flip": lambda x, by, axis: x[::-1] if axis == 0 else x[:, ::-1],
    "before": lambda x, by, axis: tile.pad(x, ((by, 0), (0, 0)) if axis == 0 else ((0, 0), (by, 0)))[
        tuple(slice(x.shape[i]) for i in range(2))
    ],
    "in a circle": lambda x, by, axis: tile.concat([x[-by:], x], axis=0)[: x.shape[0]],
    "joined": lambda x, by, axis: tile.concat([x[:by] * 2, x[by:]], axis=0),
}


@settings(max_examples=5, deadline=None)
@given(data=st.data(), shape=st.tuples(st.integers(4, 21), st.integers(4, 40)), seed=st.integers(0, 99))
def test_stencils_of_any_moves(data: st.DataObject, shape: tuple[int, int], seed: int) -> None:
    """Rolls, flips, pads and joins, one after the other, of the tensor and of what was computed before."""
    terms = data.draw(
        st.lists(
            st.lists(st.tuples(st.sampled_from([*MOVES]), st.integers(1, 3), st.integers(0, 1)), max_size=2),
            min_size=1,
            max_size=3,
        )
    )
    computed = data.draw(st.booleans())
    note((terms, computed))

    def formula(x: Any) -> Any:
        total = x = x * 0.5 if computed else x
        for moves in terms:
            term = x
            for name, by, axis in moves:
                term = MOVES[name](term, by, axis)
            total = total + term * 0.25
        return total

    found, expected = emulated(formula, [normal(*shape, dtype=F32)], seed)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@settings(max_examples=5, deadline=None)
@given(
    moves=st.lists(st.tuples(st.sampled_from([*MOVES]), st.integers(1, 3), st.integers(0, 1)), min_size=1, max_size=4),
    shape=st.tuples(st.integers(4, 21), st.integers(4, 40)),
    seed=st.integers(0, 99),
)
def test_moves_that_are_results(moves: list[tuple[str, int, int]], shape: tuple[int, int], seed: int) -> None:
    """Nothing is computed: joins of slices, of joins, and of what is padded."""

    def formula(x: Any) -> Any:
        parts = [x, tile.pad(x, ((0, 1), (0, 0)))]
        for name, by, axis in moves:
            parts[0] = MOVES[name](parts[0], by, axis)
        return tile.concat(parts, axis=0)

    found, expected = emulated(formula, [normal(*shape, dtype=F32)], seed)
    np.testing.assert_array_equal(found, expected)


def test_a_block_diagonal_is_one_kernel() -> None:
    def diagonal(x: Any, y: Any) -> Any:
        return tile.concat([tile.pad(x, ((0, 0), (0, y.shape[1]))), tile.pad(y, ((0, 0), (x.shape[1], 0)))], axis=0)

    arrays = [normal(9, 13, dtype=F32), normal(17, 33, dtype=F32)]
    found, expected = emulated(diagonal, arrays, seed=1)
    np.testing.assert_array_equal(found, expected)
    lowered = tiledsl.fuse(tiledsl.trace(diagonal, *arrays)).lowered("sm_90").entry.body.ops
    assert sum(isinstance(op, Call) for op in lowered) == 1

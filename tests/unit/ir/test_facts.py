"""What is provable about sizes, and what is rightly not."""

from __future__ import annotations

import sys

import pytest

from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Fact, Function
from tiledsl.ir.dtypes import i64
from tiledsl.ir.facts import Bounds, Facts, facts_of
from tiledsl.ir.symbolic import Dim, maximum, minimum, symbol
from tiledsl.ir.tile_ops import Grid, Range, Return, Yield
from tiledsl.ir.types import AxisType, BlockSize, scalar
from tiledsl.support.location import BUILTIN

M, N, K, E = map(symbol, "MNKE")
FACTS = Facts([Fact(K, 16), Fact(M + N, 8)], {"E": (1, 64), "N": (2, None)})


@pytest.mark.parametrize(
    ("dim", "n"),
    [
        (0, 7),
        (48, 16),
        (K, 8),
        (3 * K + 32, 16),
        (2 * K, 32),
        (K * M, 16),
        (K // 4, 4),
        (K % 24, 8),
        (minimum(K, 32), 16),
        (M + N, 4),
        (M + N + 8, 8),
        (M, 1),
    ],
)
def test_divisible(dim: Dim, n: int) -> None:
    assert FACTS.divisible(dim, n)


@pytest.mark.parametrize(
    ("dim", "n"), [(M, 2), (K, 32), (K + 8, 16), (M + N + 4, 8), (K // 3, 2), (minimum(K, 24), 16)]
)
def test_not_known_to_be_divisible(dim: Dim, n: int) -> None:
    assert not FACTS.divisible(dim, n)


@pytest.mark.parametrize(
    ("dim", "bounds"),
    [
        (5, (5, 5)),
        (M, (0, None)),
        (E, (1, 64)),
        (3 * E - 2, (1, 190)),
        (M - E, (-64, None)),
        (-M, (None, 0)),
        (E // 8, (0, 8)),
        (M % 12, (0, 11)),
        (E % 100, (1, 64)),
        (minimum(M, E), (0, 64)),
        (maximum(M, E), (1, None)),
        (M * N - M, (0, None)),
        (E // N, (0, 32)),
        ((E - 65) // N, (-32, -1)),
        (M % E, (0, 63)),
    ],
)
def test_bounds(dim: Dim, bounds: Bounds) -> None:
    assert FACTS.bounds(dim) == bounds


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (minimum(M, N), M),
        (M, maximum(M, N)),
        (M // 2, M),
        (16 * (M // 16), M),
        (M, M * N),
        ((M // N) * N, M),
        (M % N, N - 1),
        (maximum(M, N), M + N),
        (minimum(M, N) + minimum(K, N), M + K),
        (E, 64),
    ],
)
def test_less_equal(left: Dim, right: Dim) -> None:
    assert FACTS.less_equal(left, right)


@pytest.mark.parametrize(
    ("left", "right"), [(M, N), (M, minimum(M, N)), (maximum(M, N), N), (M, M // 2), (E, 63), (M + 1, M)]
)
def test_not_less_equal(left: Dim, right: Dim) -> None:
    assert not FACTS.less_equal(left, right)


def test_equal_by_a_promise() -> None:
    assert FACTS.equal(16 * (K // 16), K)
    assert FACTS.equal((K + 15) // 16 * 16, K)
    assert not FACTS.equal(32 * (K // 32), K)
    assert not FACTS.equal(M, N)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((M // 2) // 3, M // 6),
        ((M % 6) % 3, M % 3),
        ((M * N + M % N) // N, M),
        (M // N // E, M // (N * E)),
        ((M // 2 % 3) * 2 + M % 2, M % 6),
        ((M % 4) // 4, 0),
    ],
)
def test_equal_by_the_solver(left: Dim, right: Dim) -> None:
    assert FACTS.equal(left, right)


def test_a_claim_that_an_example_refutes_does_not_reach_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sympy", None)  # importing it would fail
    assert not FACTS.equal((M + N) // E * E, M + N)
    assert not FACTS.less_equal(M, M // N + 1)
    assert not FACTS.less_equal(M // 128, 0)


def test_facts_of_a_function() -> None:
    body = Block()
    builder = Builder(body, BUILTIN)
    grid_body = Block([(AxisType(symbol("m")), "m"), (scalar(i64), "n")])
    range_body = Block([(AxisType(symbol("k")), "k")])
    start, stop = builder.constant(0, i64), builder.size(K)
    with builder.inside(grid_body):
        with builder.inside(range_body):
            builder.emit(Yield)
        builder.emit(Range, start=start, stop=stop, blocks=(BlockSize.auto(),), body=range_body)
        builder.emit(Yield)
    builder.emit(Grid, stops=(stop, stop), blocks=(BlockSize.fixed(32), BlockSize.fixed(1)), body=grid_body)
    builder.emit(Return)
    facts = facts_of(Function("f", body, [Fact(K, 16)], BUILTIN))
    assert facts.bounds(symbol("m")) == (1, 32)
    assert facts.bounds(symbol("k")) == (1, None)
    assert facts.divisible(K, 16)

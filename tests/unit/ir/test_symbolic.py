"""The canonical form of sizes."""

from __future__ import annotations

import pytest

from tiledsl.ir.symbolic import (
    Dim,
    ceildiv,
    evaluate,
    maximum,
    minimum,
    substitute,
    symbol,
    symbol_name,
    symbols_of,
)

M, N, K = symbol("M"), symbol("N"), symbol("K")


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (2 * (M + K) - M - 2 * K + 3, "M + 3"),
        (M - M, "0"),
        (N * M - M * N + 7, "7"),
        ((4 * M + 8) // 4, "M + 2"),
        ((4 * M + 7) // 4, "M + 1"),
        ((4 * M + N) % 4, "N % 4"),
        ((6 * M + 7) % 3, "1"),
        (M // 1, "M"),
        (M % 1, "0"),
        (M // M, "1"),
        (M % M, "0"),
        (0 // M, "0"),
        (minimum(M, M + 1), "M"),
        (maximum(M, M + 1), "M + 1"),
        (minimum(N, M), "min(M, N)"),
        (7 - M, "-M + 7"),
        (-M, "-M"),
        (-(M // 2), "-(M // 2)"),
        (16 * (M // 16), "16 * (M // 16)"),
        (M // (N + 1), "M // (N + 1)"),
        (M * M, "M * M"),
    ],
)
def test_forms(dim: Dim, text: str) -> None:
    assert str(dim) == text


def test_constants_are_ints() -> None:
    assert (M + 3) - M == 3
    assert isinstance((M + 3) - M, int)
    assert substitute(M * N, {"M": 4, "N": 5}) == 20


def test_division_by_a_size_of_zero_gives_zero() -> None:
    # as the scalar functions: a call with an empty array must not raise
    assert substitute(M // N, {"N": 0}) == 0
    assert evaluate(M % N, {"M": 5, "N": 0}) == 0
    assert 7 % (N - N + M) == 7 % M


def test_ceildiv_counts_blocks() -> None:
    blocks = ceildiv(M, 16)
    assert [evaluate(blocks, {"M": m}) for m in (0, 1, 16, 17)] == [0, 1, 1, 2]
    assert ceildiv(32 * M, 16) == 2 * M


def test_names() -> None:
    assert symbol_name(M) == "M"
    assert symbol_name(2 * M) is None
    assert symbol_name(M * M) is None
    assert symbol_name(3) is None
    assert symbols_of(minimum(M // N, 4) + K) == {"M", "N", "K"}


def test_a_missing_symbol_is_named() -> None:
    with pytest.raises(KeyError, match="N"):
        evaluate(M + N, {"M": 1})


def test_substitution_reaches_into_opaque_operations() -> None:
    assert substitute(minimum(M, N) + M // 4, {"M": 8}) == minimum(8, N) + 2

"""What is known of the order of sizes."""

from __future__ import annotations

import pytest

from tiledsl.ir.symbolic import dim_from_text
from tiledsl.ir.symbolic_order import known_at_most, known_inside


@pytest.mark.parametrize(
    ("a", "b", "known"),
    [
        ("2", "3", True), ("3", "2", False), ("0", "N", True), ("1", "N", False), ("N", "N + M", True),
        ("N", "2 * N", True), ("N", "M", False), ("min(N, M)", "N", True), ("N", "max(N, M)", True),
        ("max(N, M)", "N", False), ("N // 2", "N", True), ("N", "N // 2", False), ("0", "N // 2 - 1", False),
        ("N // 2 + N // 3", "N", True), ("N // 2", "N - N // 2", True), ("N - N // 2", "N // 2", False),
    ],
)  # fmt: skip
def test_at_most(a: str, b: str, known: bool) -> None:
    assert known_at_most(dim_from_text(a), dim_from_text(b)) == known


@pytest.mark.parametrize(
    ("coordinate", "dim", "known"),
    [
        ("0", "m", True), ("1", "m", False), ("m - 1", "m", True), ("m - 2", "m", False), ("m", "m", False),
        ("3", "4", True), ("4", "4", False), ("-1", "4", False), ("N", "m + N", True), ("m - 1", "m * n", True),
        ("0", "N", False), ("N - 1", "N", False), ("m - 1", "m * N", False), ("0", "N + 1", True),
    ],
)  # fmt: skip
def test_inside(coordinate: str, dim: str, known: bool) -> None:
    assert known_inside(dim_from_text(coordinate), dim_from_text(dim), {"m", "n"}) == known

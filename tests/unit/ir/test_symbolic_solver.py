"""Identities that need sympy."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tiledsl.ir.symbolic import Dim, maximum, minimum, symbol
from tiledsl.ir.symbolic_solver import simplify

M, N, K = map(symbol, "MNK")


@pytest.mark.parametrize(
    "dim",
    [M // N * N + M % N - M, (M * N) // N - M, (M // 2 + 1) // 3 - (M + 2) // 6, (M * N + K) % N - K % N, (M % N) // N],
)
def test_identities_become_zero(dim: Dim) -> None:
    assert simplify(dim) == 0


@pytest.mark.parametrize("dim", [M, 3 * M * N - 2, minimum(M, N) + maximum(K, 4), M // N, M * M // (K + 1)])
def test_what_is_simple_stays(dim: Dim) -> None:
    assert simplify(dim) == dim


def test_sympy_is_imported_only_when_asked() -> None:
    code = "import sys, tiledsl.ir.facts; sys.exit('sympy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

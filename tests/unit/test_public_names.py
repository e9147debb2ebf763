"""`import tiledsl`: what is there, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tiledsl
from tiledsl import tile

EXPENSIVE = [
    "sympy",
    "llvmlite",
    "lark",
    "rich",
    "ml_dtypes",
    "tiledsl.passes.manager",
    "tiledsl.frontend.kernel.lower",
]


def test_every_public_name_is_there() -> None:
    assert [name for name in tiledsl.__all__ if not hasattr(tiledsl, name)] == []
    assert [name for name in tile.__all__ if not hasattr(tile, name)] == []


def test_import_loads_nothing_expensive() -> None:
    program = f"import sys, tiledsl; print([name for name in {EXPENSIVE!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["TileSyntaxError", "TileShapeError", "TileUnsupportedError"])
def test_errors_are_tile_errors(name: str) -> None:
    assert issubclass(getattr(tiledsl, name), tiledsl.TileError)

"""Where kernels may be defined, and how: lambdas, names that hide the language, programs that stand in no file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.support.kernels.lowered_kernels import kernel_from_text
from tiledsl import TileShapeError, TileSyntaxError, tile

PROGRAM = """
import numpy as np
from tiledsl import tile

@tile.kernel
def double(x):
    N = x.shape[0]
    y = tile.empty(N, x.dtype)
    for n in tile.grid(N):
        y[n] = x[n] * 2
    return y

print(double.compile(np.arange(4.0), arch="reference")(np.arange(4.0)))
"""
FACTOR = 2.0


def of_two(formula: Callable[[Any, Any], Any]) -> Any:
    return tile.kernel(formula)


def of_one(formula: Callable[[Any], Any]) -> Any:
    return tile.kernel(formula)


def run(*arguments: str, **streams: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False, **streams)


def test_a_program_in_the_command_line() -> None:
    assert run("-c", PROGRAM).stdout == "[0. 2. 4. 6.]\n"


@pytest.mark.skipif(sys.platform == "win32", reason="standard input is not read again there")
def test_a_program_from_a_file_by_the_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    with file.open() as stream:
        assert run("-", stdin=stream).stdout == "[0. 2. 4. 6.]\n"


def test_a_program_that_cannot_be_read_says_so() -> None:
    failed = run("-", input=PROGRAM)  # a pipe: what was read is gone
    assert failed.returncode == 1
    assert "the source of `double` cannot be read (<stdin>)" in failed.stderr
    assert "put the kernel into a file or a notebook cell" in failed.stderr


def test_source_that_was_executed_is_not_mistaken_for_the_command_line() -> None:
    text = "print(7)\ndef f(x): return x"
    program = (
        f"from tiledsl.support.function_source import source_lines\nscope = {{}}\nexec({text!r}, scope)\n"
        "try:\n    source_lines(scope['f'])\nexcept OSError:\n    print('unreadable')"
    )
    assert run("-c", program).stdout in ("7\nunreadable\n",)


def test_the_command_as_a_module() -> None:
    assert run("-m", "tiledsl", "--version").stdout.startswith("tiledsl ")


def test_a_lambda_is_a_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    product = of_two(lambda x, w: x @ w * FACTOR)
    x: Any = np.array([[0, 1, 2], [3, 4, 5]], np.float32)
    assert np.array_equal(product(x, x.T), x @ x.T * 2)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert np.array_equal(product(x, w=x.T), x @ x.T * 3)
    assert "graph.contract" in product.ir(x, x.T, level="graph")


def test_a_formula_needs_no_source() -> None:
    scope: dict[str, Any] = {"tile": tile, "factor": 2}
    exec("@tile.kernel\ndef scaled(x):\n    return tile.exp(x) * factor", scope)
    assert scaled(scope) == 2
    scope["factor"] = 3
    assert scaled(scope) == 3


def scaled(scope: dict[str, Any]) -> float:
    return float(scope["scaled"](np.zeros(1))[0])


def test_a_lambda_is_no_helper_and_has_no_grid() -> None:
    with pytest.raises(TileSyntaxError, match="formula of whole tensors only"):
        tile.func(lambda: 0)
    with pytest.raises(TileSyntaxError, match="formula of whole tensors only"):
        of_one(lambda x: tile.grid(x.shape[0]))(np.zeros(3))


def test_a_local_variable_may_be_called_tile() -> None:
    kernel = tile.kernel(
        kernel_from_text("""
        def kernel(x):
            N = x.shape[0]
            y = tile.empty(N, x.dtype)
            for n in tile.grid(N):
                tile = x[n]
                y[n] = tile * 2
            return y
    """)
    )
    assert np.array_equal(kernel(np.arange(3.0)), [0, 2, 4])


def test_a_size_that_is_inferred_from_a_subscript_has_a_way_out() -> None:
    text = """
        def kernel(w, off):
            E = w.shape[0]
            {named}
            y = tile.empty(E, tile.i64)
            for e in tile.grid(E, block=1):
                y[e] = off[e + 1] - off[e]
            return y
    """
    w, off = np.zeros(3), np.array([0, 3, 5, 9])
    with pytest.raises(TileShapeError, match="for `e` runs over it") as caught:
        tile.kernel(kernel_from_text(text.format(named="pass")))(w, off)
    named = caught.value.fix.rpartition("first: `")[2].rstrip("`")
    assert np.array_equal(tile.kernel(kernel_from_text(text.format(named=named)))(w, off), [3, 2, 4])


def test_a_variable_called_grid_makes_no_tile_form() -> None:
    def spread(x: Any) -> Any:
        grid = tile.arange(3)
        return tile.exp(x) + grid

    assert np.array_equal(of_one(spread)(np.zeros(3)), [1, 2, 3])

"""The notebook of the examples, run from top to bottom; what is committed has no outputs."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
NOTEBOOKS = sorted(path.name for path in EXAMPLES.glob("**/*.ipynb"))
SECONDS = 120
"""For one cell, on a machine that does other things too."""


def cells_of(notebook: Any) -> list[Any]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_is_committed_without_outputs(name: str) -> None:
    for cell in cells_of(json.loads((EXAMPLES / name).read_text(encoding="utf-8"))):
        assert cell["outputs"] == [], cell["source"]
        assert cell["execution_count"] is None
        assert cell["metadata"] == {}


def test_the_first_hour() -> None:
    """In one test, so that it runs once however tests are shared out."""
    cells = run()
    every_level_is_printed(cells)
    objects_show_themselves(cells)
    results_and_mistakes_are_as_the_text_says(cells)
    a_search_shows_the_best_plan_so_far(cells)


def run() -> list[Any]:
    """The cells after they ran. One that raises ends the test."""
    nbformat: Any = importlib.import_module("nbformat")
    client: Any = importlib.import_module("nbclient")
    notebook = nbformat.read(EXAMPLES / "first_hour.ipynb", as_version=4)
    client.NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": str(EXAMPLES)}}).execute()
    return cells_of(notebook)


def output(cells: list[Any], source: str) -> dict[str, str]:
    """What the cell whose source starts so gave: by kind of text, and what it printed as `stdout`."""
    (cell,) = [cell for cell in cells if cell["source"].startswith(source)]
    found: dict[str, str] = {}
    for one in cell["outputs"]:
        found |= {one["name"]: one["text"]} if one["output_type"] == "stream" else one["data"]
    return found


def every_level_is_printed(cells: list[Any]) -> None:
    assert "graph.contract" in output(cells, "graph = ")["stdout"]
    assert "tile.range" in output(cells, "fused = ")["stdout"]
    assert "gpu.launch" in output(cells, 'print(compiled.ir("gpu")')["stdout"]
    assert "wgmma_m64" in output(cells, "lines = compiled.source")["stdout"]


def objects_show_themselves(cells: list[Any]) -> None:
    for source in ('compiled.layouts["acc"]', 'compiled.layouts["a"]', "def block"):
        assert output(cells, source)["image/svg+xml"].startswith("<svg")
    assert "register" in output(cells, "queries =")["text/plain"]
    for source in ("gemm  #", "def block", "@tile.kernel\ndef place", "gemm.audit", "attention.audit"):
        assert output(cells, source)["text/html"].startswith("<")


def results_and_mistakes_are_as_the_text_says(cells: list[Any]) -> None:
    assert float(output(cells, "def numpy_attention")["text/plain"]) < 1e-5
    assert output(cells, "@tile.kernel\ndef gemm")["text/plain"] == "True"
    assert float(output(cells, "small = ")["text/plain"]) < 0.05
    assert "size `K` is 300 in `a` (axis 1) but 500 in `b` (axis 0)" in output(cells, "try:")["stdout"]
    assert output(cells, "@tile.kernel\ndef place")["text/plain"] == "<check: 1 errors>"


def a_search_shows_the_best_plan_so_far(cells: list[Any]) -> None:
    assert "gemm with K=300, M=500, N=500 on " in output(cells, "from tempfile")["stdout"]
    drawn = output(cells, "from IPython.display import SVG")["image/svg+xml"]
    assert drawn.startswith("<svg")
    assert drawn.count("<circle") >= 2, "the pick, and a plan beside it"

"""What the pages of documentation show works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tiledsl import tile
from tiledsl.ir.parser import parse_module
from tiledsl.ir.verifier import Form, verify

DOCS = Path(__file__).resolve().parents[2] / "docs"
LANGUAGE = DOCS / "language.md"


def python_of(page: str) -> str:
    """The blocks of Python, at the lines where they stand; the other lines are empty."""
    lines: list[str] = []
    inside = False
    for line in page.splitlines():
        starts, ends = line == "```python", inside and line == "```"
        inside = (inside or starts) and not ends
        lines.append(line if inside and not starts else "")
    return "\n".join(lines)


def test_python_of() -> None:
    page = "Text\n```python\nx = 1\n```\nmore\n```bash\nls\n```\n```python\ny = 2\n```\n"
    assert python_of(page).split("\n") == ["", "", "x = 1", "", "", "", "", "", "", "y = 2", ""]


def test_the_language_page_runs_from_top_to_bottom() -> None:
    source = python_of(LANGUAGE.read_text(encoding="utf-8"))
    assert source.count("@tile.kernel") > 5
    names: dict[str, Any] = {"__name__": "language"}
    exec(compile(source, str(LANGUAGE), "exec"), names)  # under the path of the page: kernels find their lines in it


def test_the_language_page_names_every_word_of_the_language() -> None:
    words = set(re.findall(r"\w+", LANGUAGE.read_text(encoding="utf-8")))
    for_type_checkers = {"Tensor", "Tile", "TileLike", "TensorSpec", "DType"}
    assert set(tile.__all__) - for_type_checkers - words == set()


def test_the_ir_page_shows_valid_ir() -> None:
    programs = re.findall(r"^```\n(func .*?)^```$", (DOCS / "ir.md").read_text(encoding="utf-8"), re.M | re.S)
    forms = {"graph.": Form.GRAPH, "gpu.": Form.GPU}
    assert len(programs) == 1 + len(forms)
    for program in programs:
        verify(parse_module(program), next((form for word, form in forms.items() if word in program), Form.TILE))

"""What the reference pages list is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tiledsl
from tiledsl import ops, tile
from tiledsl.cli.main import make_parser
from tiledsl.cli.parser import described
from tiledsl.frontend.language.foreign_words import FUNCTIONS
from tiledsl.support import options
from tiledsl.support.errors import CATALOGUE, ErrorSpec, TileTypeError
from website.errors import cell, errors
from website.examples_pages import examples_pages
from website.reference import LISTS, with_reference

DOCS = Path(__file__).parents[3] / "docs"


def headings(text: str) -> list[str]:
    return re.findall(r"^      heading: (.*)$", text, re.M)


def test_every_op_is_listed_once() -> None:
    assert sorted(headings(LISTS["ops"]())) == sorted(f"ops.{name}" for name in ops.__all__)


def test_every_word_of_the_language_is_on_its_page() -> None:
    text = with_reference((DOCS / "reference" / "language.md").read_text(encoding="utf-8"))
    without = {"constexpr", "auto", "register", "shared", "TileLike", "DType"}  # no functions: the page names them
    listed = {name.removeprefix("tile.") for name in headings(text)} | set(re.findall(r"\w+", text))
    assert set(tile.__all__) - without - listed == set()


def test_every_public_name_is_on_a_page() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob("*.md"))
    errors_and_namespaces = {name for name in tiledsl.__all__ if name.startswith(("Tile", "__"))} | {"tile", "ops"}
    assert {name for name in tiledsl.__all__ if f"tiledsl.{name}" not in pages} <= errors_and_namespaces


def test_every_command_with_its_options() -> None:
    text = LISTS["commands"]()
    for command in described(make_parser()):
        assert f"## tiledsl {command.name}\n" in text
        assert all(name in text for option in command.options for name in option.names if name not in ("-h", "--help"))


def test_the_page_of_variables_has_the_table_of_the_module_that_reads_them() -> None:
    table = [line for line in (options.__doc__ or "").splitlines() if line.startswith("|")]
    page = (DOCS / "reference" / "environment.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.startswith("|")] == table
    source = Path(options.__file__).read_text(encoding="utf-8")
    assert set(re.findall(r'"(TILEDSL_\w+)"', source)) == set(re.findall(r"TILEDSL_\w+", page))


def test_every_word_of_other_libraries() -> None:
    text = LISTS["words"]()
    assert all(f"`{word}`" in text for word in FUNCTIONS)
    assert "{x}" not in text


def test_every_error() -> None:
    text = errors()
    assert sorted(re.findall(r"^\| `([a-z][\w-]*)` \|", text, re.M)) == sorted(CATALOGUE)
    assert "| `TileTypeError` | A value of the wrong dtype or kind. | `TypeError` |" in text


def test_cells_are_one_line_of_text() -> None:
    spec = ErrorSpec(TileTypeError, "a `x | y` <b> *c*\n`{d}` {e}", "")
    assert cell(spec.message) == r"a `x \| y` \<b\> \*c\* `{d}` \{e\}"


def test_lists_that_there_are_not() -> None:
    with pytest.raises(KeyError):
        with_reference("<!-- reference: nothing -->")


def test_examples(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "one.py").write_text('"""What it is,\nin words | signs.\n\nMore."""\nx = 1\n')
    (tmp_path / "more" / "two.py").write_text("y = 2\n")
    pages = examples_pages(tmp_path)
    assert set(pages) == {"examples/index.md", "examples/one.md", "examples/more/two.md"}
    assert "| [one.py](one.py) | What it is, in words \\| signs. |" in pages["examples/index.md"]
    assert pages["examples/more/two.md"].endswith('```python title="examples/more/two.py"\ny = 2\n```\n')

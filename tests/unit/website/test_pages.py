"""Markdown as it is written here, as MkDocs reads it."""

from __future__ import annotations

import json
from pathlib import Path

from website import ROOT
from website.examples_pages import examples_pages
from website.pages import for_mkdocs, place_on_site


def test_lists_and_tables_begin_blocks() -> None:
    page = "Parts:\n- one\n  goes on\n  - within\n- two\nText\n\n1. first\n2. second\nA table:\n| a | b |\n| - | - |\n"
    assert for_mkdocs(page, "docs/x.md").splitlines() == [
        "Parts:", "", "- one", "  goes on", "    - within", "- two", "Text", "",
        "1. first", "2. second", "A table:", "", "| a | b |", "| - | - |",
    ]  # fmt: skip


def test_code_stays_as_it_is() -> None:
    page = "Text\n```python\nx\n- y  # [a](b.md)\n| z\n```\n- item\n"
    assert for_mkdocs(page, "docs/x.md") == page.replace("```\n- item", "```\n\n- item")


def test_words_behind_fences() -> None:
    page = "```python gpu\nx\n```\n```\ny\n```\n"
    assert for_mkdocs(page, "docs/x.md") == '```python title="on a GPU"\nx\n```\n```text\ny\n```\n'


def test_pairs_are_put_beside_each_other() -> None:
    page = "```python triton\na\n```\n```python\nb\n```\n\n```python\nalone\n```\n"
    assert for_mkdocs(page, "docs/x.md").splitlines() == [
        '<div class="side-by-side" markdown>', "", '```python title="Triton"', "a", "```", "",
        '```python title="tiledsl"', "b", "```", "", "</div>", "", "```python", "alone", "```",
    ]  # fmt: skip


def test_links() -> None:
    text = "[a](../examples/gemm.py), [b](ir.md#text), [c](#here), [d](https://x.org/a.md), [e](../CONTRIBUTING.md)"
    assert for_mkdocs(text, "docs/x.md").strip() == (
        "[a](examples/gemm.md), [b](ir.md#text), [c](#here), [d](https://x.org/a.md), [e](CONTRIBUTING.md)"
    )
    assert for_mkdocs("[a](../ir.md) [b](../../examples/gemm.py)", "docs/how-to/x.md").strip() == (
        "[a](../ir.md) [b](../examples/gemm.md)"
    )
    assert for_mkdocs("[a](docs/ir.md)", "CONTRIBUTING.md").strip() == "[a](ir.md)"


def test_names_of_files_are_read_as_titles() -> None:
    text = "[ir.md](ir.md#text), [`CONTRIBUTING.md`](../CONTRIBUTING.md), [docs/x.md](glossary.md)"
    expected = "[Text of the IR](ir.md#text), [`CONTRIBUTING.md`](CONTRIBUTING.md), [Words](glossary.md)"
    title = (ROOT / "docs" / "ir.md").read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
    assert for_mkdocs(text, "docs/y.md").strip() == expected.replace("Text of the IR", title)


def test_place_on_site() -> None:
    assert place_on_site("docs/a/b.md") == "a/b.md"
    assert place_on_site("examples/gallery/x.py") == "examples/gallery/x.md"
    assert place_on_site("CHANGELOG.md") == "CHANGELOG.md"
    assert place_on_site("examples") == "examples/index.md"


def test_notebooks_have_pages(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "Words."]},
        {"cell_type": "code", "source": ["x = 1\n", "x"], "outputs": [], "execution_count": None},
    ]
    (tmp_path / "first.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    pages = examples_pages(tmp_path)
    assert pages["examples/first.md"] == "# Title\nWords.\n\n```python\nx = 1\nx\n```\n"
    assert "| [first.ipynb](first.ipynb) | a notebook |" in pages["examples/index.md"]
    assert place_on_site("examples/first.ipynb") == "examples/first.md"

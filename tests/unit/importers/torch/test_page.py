"""The page about models of PyTorch is current."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.support.pages import python_of
from tiledsl.importers.torch.supported import operator_table

PAGE = Path(__file__).resolve().parents[4] / "docs" / "torch.md"


def test_the_table_of_operators_is_what_the_register_has() -> None:
    assert operator_table() in PAGE.read_text(encoding="utf-8")


def test_the_page_runs_from_top_to_bottom() -> None:
    source = python_of(PAGE.read_text(encoding="utf-8"))
    exec(compile(source, str(PAGE), "exec"), {"__name__": "torch_page"})

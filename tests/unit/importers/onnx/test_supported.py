"""The page about models is current."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("onnx")

from tests.support.pages import python_of
from tiledsl.importers.onnx.operators import FAMILIES
from tiledsl.importers.onnx.supported import operator_table

PAGE = Path(__file__).resolve().parents[4] / "docs" / "models.md"


def test_the_table_of_operators_is_what_the_register_has() -> None:
    assert operator_table(FAMILIES) in PAGE.read_text(encoding="utf-8")


def test_the_page_runs_from_top_to_bottom() -> None:
    exec(compile(python_of(PAGE.read_text(encoding="utf-8")), str(PAGE), "exec"), {"__name__": "models"})

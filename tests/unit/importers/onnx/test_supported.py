"""The page about models is current."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("onnx")

from tiledsl.importers.onnx.operators import FAMILIES
from tiledsl.importers.onnx.supported import operator_table

PAGE = Path(__file__).resolve().parents[4] / "docs" / "models.md"


def test_the_table_of_operators_is_what_the_register_has() -> None:
    assert operator_table(FAMILIES) in PAGE.read_text(encoding="utf-8")

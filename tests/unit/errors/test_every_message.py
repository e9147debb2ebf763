"""Every message of the catalogue has a case that provokes it, in one of the tables beside this file."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tiledsl.support.errors import CATALOGUE

TABLES = sorted(path.stem for path in Path(__file__).parent.glob("test_*.py") if path.stem != Path(__file__).stem)


def cases_of(table: str) -> set[str]:
    """The codes that one table provokes."""
    return set(importlib.import_module(f"tests.unit.errors.{table}").CASES)


def test_every_message_has_a_case() -> None:
    covered = {code for table in TABLES for code in cases_of(table)}
    assert set(CATALOGUE) - covered == set()


@pytest.mark.parametrize("table", TABLES)
def test_no_case_is_for_a_message_that_is_gone(table: str) -> None:
    assert cases_of(table) <= set(CATALOGUE)

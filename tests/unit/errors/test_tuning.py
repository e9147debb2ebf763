"""One case for each message of `support/catalogue/tuning.py`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tiledsl.autotune.records.database import Database, Writer
from tiledsl.support.catalogue.tuning import ENTRIES
from tiledsl.support.errors import TileError


def in_a_folder(act: Callable[[Path], object]) -> object:
    with tempfile.TemporaryDirectory() as folder:
        return act(Path(folder))


def with_a_file(act: Callable[[Path], object]) -> object:
    """Acts on a file that stands where a folder is expected."""

    def made(folder: Path) -> object:
        (folder / "file").write_text("no folder", encoding="utf-8")
        return act(folder / "file")

    return in_a_folder(made)


CASES: dict[str, tuple[Callable[[], object], str]] = {
    "tuning-unwritable": (lambda: with_a_file(lambda file: Writer(Database(file / "db"))), "Not a directory"),
    "tuning-unreadable": (lambda: with_a_file(lambda file: Database(file).refresh()), "name a folder"),
}


@pytest.mark.parametrize("code", CASES)
def test_message(code: str) -> None:
    act, text = CASES[code]
    with pytest.raises(TileError) as caught:
        act()
    assert caught.value.code == code
    assert text in str(caught.value)


def test_every_entry_has_a_case() -> None:
    assert ENTRIES.keys() == CASES.keys()

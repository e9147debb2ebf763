"""Every file and folder that a page or a docstring names is there, and so is what pages link to."""

from __future__ import annotations

import re
from pathlib import Path, PurePath

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = sorted((ROOT / "tiledsl").rglob("*.py"))
FOLDERS = ("tiledsl", "docs", "tests", "examples", "benchmarks", "website", ".ci")
NAMED = re.compile(r"`(?!\d+/)([\w.*-]+(?:/[\w.*-]+)*(?:\.py|/))[^`\n]*`")
"""Words in backticks that are a file of Python, or a folder by the stroke at its end; `*` stands for any letters.
A number in front of a stroke is part of a layout."""
MADE_BY_USERS = {
    "heat.py",
    "model.py",
    "kernels.py",
    "FILE.py",
    "file.py",
    "first.py",
    "slow.py",
    "wrong.py",
    "scatter.py",
    "program.py",
}


def there() -> frozenset[PurePath]:
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts]
    return frozenset(PurePath(path.relative_to(ROOT)) for path in (*found, *ROOT.glob("*")))


THERE = there()


def missing(text: str) -> list[str]:
    names = sorted(set(NAMED.findall(re.sub(r"```.*?```", "", text, flags=re.S))) - MADE_BY_USERS)
    return [name for name in names if not any(path.match(name.rstrip("/")) for path in THERE)]


def test_missing() -> None:
    page = "`docs/ir.md`, `ir/core.py`, `passes/gpu/*.py`, `ir/`, `a / b`, `/`, `gone/core.py`, `gone.py`, `no/such/`"
    assert missing(page + ", `16/4`") == ["gone.py", "gone/core.py", "no/such/"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert missing(text) == []
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", prose) if not link.startswith("http")]
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_sources() -> None:
    found = {path.name: missing(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert {name: paths for name, paths in found.items() if paths} == {}

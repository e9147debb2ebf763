"""What a release is described by: versions agree, and the list of changes has its form."""

from __future__ import annotations

import re
from pathlib import Path

from tiledsl import __version__

ROOT = Path(__file__).resolve().parents[2]
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_one_version() -> None:
    assert f'\nversion = "{__version__}"\n' in text_of("pyproject.toml")
    assert f"\nversion: {__version__}\n" in text_of("CITATION.cff")


def test_the_list_of_changes_has_the_form_of_keep_a_changelog() -> None:
    changelog = text_of("CHANGELOG.md")
    assert changelog.startswith("# Changelog\n")
    releases = re.findall(r"^## (.*)$", changelog, re.M)
    assert releases[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", release) for release in releases[1:])
    for section in changelog.split("\n## ")[1:]:
        kinds = re.findall(r"^### (.*)$", section, re.M)
        assert kinds == [kind for kind in KINDS if kind in kinds]
        assert kinds


def test_the_readme_leads_to_every_page_for_users() -> None:
    readme = text_of("README.md")
    for folder in ("how-to", "coming-from"):
        for page in sorted((ROOT / "docs" / folder).glob("*.md")):
            assert page.name == "words.md" or f"docs/{folder}/{page.name}" in readme
    assert "docs/start.md" in readme

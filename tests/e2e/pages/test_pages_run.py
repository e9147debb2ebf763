"""All Python of all pages runs, from top to bottom, and all commands that they show do what they should."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.support.pages import blocks, missing_lines, python_of
from tiledsl.cli.main import main

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))}
ELSEWHERE = {
    "emulator.md": "tests/e2e/gpu_code/test_emulate.py",
    "gpu.md": "tests/e2e/pages/test_docs.py",
    "search.md": "tests/e2e/processes/test_tuned_kernels.py",
    "layouts.md": "tests/unit/ir/layouts/test_pictures.py",
    "torch.md": "tests/unit/importers/torch/test_page.py",
}
"""Pages whose code other tests run, since they look at more of them or need what may be absent."""


def commands_of(page: str) -> list[str]:
    return [line for block in blocks(page, "bash") for line in block.splitlines() if line.startswith("tiledsl ")]


RUN = [page for page, text in PAGES.items() if page not in ELSEWHERE and ("```python\n" in text or commands_of(text))]
SHOWING = [page for page in RUN if page == "start.md" or page.startswith("how-to/")]
"""Pages whose blocks without a language are what is printed. On others they are grammar, IR and drawings."""


@pytest.mark.parametrize("page", RUN)
def test_page(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands run beside the examples, and beside a file for each that the page says to save."""
    text = PAGES[page]
    for package in ("torch", "onnx"):
        if f"import {package}" in text:
            pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    exec(compile(python_of(text), str(DOCS / page), "exec"), {"__name__": "page"})  # its path: kernels find their lines
    for name, source in saved_files(text).items():
        (tmp_path / name).write_text(source, encoding="utf-8")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    wrong = expected_to_fail(text)
    printed = "\n".join(capsys.readouterr())
    for command in commands_of(text):
        code = main(shlex.split(command.partition(" > ")[0], comments=True)[1:])
        printed += "\n".join(capsys.readouterr())
        assert code == (1 if command in wrong else 0), printed
    if page in SHOWING:
        plain = without_places(printed)
        assert [line for block in blocks(text, "") for line in missing_lines(block, plain)] == []


def without_places(printed: str) -> str:
    """Errors without the files and lines that they begin with, and their source without its numbers."""
    return re.sub(r"^(\S+:\d+:\d+: | *\d+ \|)", "", printed, flags=re.M)


def saved_files(page: str) -> dict[str, str]:
    """The Python that stands below a line with "Save this as `name.py`"."""
    return dict(re.findall(r"Save this as `(\w+\.py)`.*?^```python\n(.*?)^```$", page, re.M | re.S))


def expected_to_fail(page: str) -> set[str]:
    """The commands in blocks above which it says that they end with exit code 1."""
    found = re.findall(r"exit code 1[^\n]*\n\n```bash\n(.*?)^```$", page, re.M | re.S)
    return {line for block in found for line in block.splitlines()}


def test_what_other_tests_run() -> None:
    for page, file in ELSEWHERE.items():
        test = (ROOT / file).read_text(encoding="utf-8")
        assert f'"{page}"' in test
        assert "python_of(" in test or "doctest.testfile(" in test


def test_without_places() -> None:
    assert (
        without_places("a.py:1:22: TypeError: no\n   12 | x = y\n  fix: it\n") == "TypeError: no\n x = y\n  fix: it\n"
    )


def test_saved_files() -> None:
    page = "Save this as `a.py`:\n\n```python\nx = 1\n```\nThis ends with exit code 1:\n\n```bash\ntiledsl opt x\n```\n"
    assert saved_files(page) == {"a.py": "x = 1\n"}
    assert expected_to_fail(page) == {"tiledsl opt x"}

"""What the README and the page on GPUs show works on a device."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pages import python_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/gpu.md"])
def test_page(page: str) -> None:
    pytest.importorskip("torch")
    path = ROOT / page
    source = python_of(path.read_text(encoding="utf-8"), "python", "python gpu")
    exec(compile(source, str(path), "exec"), {"__name__": "page"})  # under its path: kernels find their lines in it

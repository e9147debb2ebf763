"""What the README says is so."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest

from tests.support.pages import blocks
from tiledsl.cli.main import main
from tiledsl.support.errors import TileShapeError

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its Python, as one file."""
    file = tmp_path_factory.mktemp("readme") / "program.py"
    file.write_text("\n".join(blocks(README, "python")))
    return file


def test_python_and_what_it_prints(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = runpy.run_path(str(program))
    printed = capsys.readouterr().out
    explained, _, message = blocks(README, "")
    assert [line for line in explained.splitlines() if line not in printed] == []
    with pytest.raises(TileShapeError) as caught:
        names["gemm"](names["a"], names["b"][:299])
    assert [line for line in message.splitlines() if line not in str(caught.value)] == []


def test_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    lines = [line for block in blocks(README, "bash") for line in block.splitlines() if line.startswith("tiledsl ")]
    assert len(lines) == 4
    audited = blocks(README, "")[1]
    for line in lines:
        command, _, file = line.partition(" > ")
        assert main([word.replace("gemm.tir", str(tmp_path / "gemm.tir")) for word in shlex.split(command)[1:]]) == 0
        output = capsys.readouterr().out
        assert "tile.dot" in output or "mma_m16n8k16_f16_f32" in output or output == audited
        if file:
            (tmp_path / file).write_text(output)


def test_what_needs_a_gpu_is_python() -> None:
    (block,) = blocks(README, "python gpu")  # run by tests/gpu/test_docs.py
    assert "gemm(left, right)" in block
    compile(block, "README.md", "exec")


def test_links() -> None:
    assert [path for path in re.findall(r"\]\(([^)#:]+)\)", README) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    "page", ["CONTRIBUTING.md", *(str(file.relative_to(ROOT)) for file in sorted((ROOT / "docs").rglob("*.md")))]
)
def test_named_files_exist(page: str) -> None:
    """A path with a folder, from the root or from `tiledsl/`."""
    named = re.findall(r"`([a-z_]+/[a-z_*][a-z_/*]*(?:\.py)?)`", (ROOT / page).read_text())
    assert [path for path in named if not any(any(root.glob(path)) for root in (ROOT, ROOT / "tiledsl"))] == []

"""What the pages of documentation show works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.support.pages import blocks, missing_lines, python_of
from tiledsl import tile
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.backend_cuda.functions import scalar_math
from tiledsl.backend_cuda.program import CudaProgram
from tiledsl.cli.main import main
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.verifier import Form, verify
from tiledsl.passes.gpu.plan import parse_plan
from tiledsl.passes.manager import PassManager
from tiledsl.passes.pipelines import gpu_pipeline

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
LANGUAGE = DOCS / "language.md"
GPU = DOCS / "gpu.md"


def test_python_of() -> None:
    page = "Text\n```python\nx = 1\n```\nmore\n```bash\nls\n```\n```python\ny = 2\n```\n"
    assert python_of(page).split("\n") == ["", "", "x = 1", "", "", "", "", "", "", "y = 2", ""]


def test_the_text_on_the_page_on_loops_is_a_graph() -> None:
    (function,) = blocks((DOCS / "loops.md").read_text(encoding="utf-8"), "")
    verify(parse_module(function), Form.GRAPH)


def test_the_page_on_checking_shows_what_its_command_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (command,) = blocks((DOCS / "checking.md").read_text(encoding="utf-8"), "bash")
    monkeypatch.chdir(ROOT)
    assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out.endswith("nothing wrong was found\n")


def test_the_language_page_names_every_word_of_the_language() -> None:
    words = set(re.findall(r"\w+", LANGUAGE.read_text(encoding="utf-8")))
    for_type_checkers = {"Tensor", "Tile", "TileLike", "TensorSpec", "DType"}
    assert set(tile.__all__) - for_type_checkers - words == set()


def test_the_ir_page_shows_valid_ir() -> None:
    programs = re.findall(r"^```\n(func .*?)^```$", (DOCS / "ir.md").read_text(encoding="utf-8"), re.M | re.S)
    forms = {"graph.": Form.GRAPH, "gpu.": Form.GPU}
    assert len(programs) == 1 + len(forms)
    for program in programs:
        verify(parse_module(program), next((form for word, form in forms.items() if word in program), Form.TILE))


def test_the_gpu_page_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    source = python_of(GPU.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "gpu"}
    exec(compile(source, str(GPU), "exec"), names)  # under the path of the page: kernels find their lines in it
    assert "registers" in capsys.readouterr().out


def test_what_needs_a_gpu_is_python() -> None:
    on_device = blocks(GPU.read_text(encoding="utf-8"), "python gpu")
    assert len(on_device) > 2
    for block in on_device:
        compile(block, str(GPU), "exec")


def test_the_gpu_page_shows_what_the_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    page = GPU.read_text(encoding="utf-8")
    commands = [line for block in blocks(page, "bash") for line in block.splitlines()]
    for command in commands:
        words = [str(tmp_path / word) if word.endswith(".tir") else word for word in shlex.split(command)[1:]]
        words, file = (words[:-2], words[-1]) if words[-2] == ">" else (words, None)
        assert main(words) == 0
        if file is not None:
            Path(file).write_text(capsys.readouterr().out)
            assert missing_lines(blocks(page, "")[0], Path(file).read_text()) == []
    printed = capsys.readouterr().out
    assert [missing_lines(block, printed) for block in blocks(page, "")[1:]] == [[], []]


def test_the_gpu_page_shows_cuda_c_of_its_plan() -> None:
    page = GPU.read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec("from examples.softmax import softmax", names)
    program = names["softmax"].compile(tile.spec(("M", 4096), tile.bf16), arch="sm_90").program
    assert isinstance(program, CudaProgram)
    lowered = PassManager(gpu_pipeline(parse_plan("m=1, 64 threads"), "sm_90")).run(program.module)
    assert [missing_lines(block, emit_program(lowered, 90).text) for block in blocks(page, "c")] == [[]]


def test_the_gpu_page_tells_the_accuracy_that_the_functions_have() -> None:
    table = [line for line in (scalar_math.__doc__ or "").splitlines() if line.startswith("|")]
    assert len(table) > 5
    assert "\n".join(table) in GPU.read_text(encoding="utf-8")

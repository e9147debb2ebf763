"""`tiledsl opt`, in process."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.support.tile_programs import GEMM
from tiledsl.cli.main import main
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.verifier import Form, verify


@pytest.fixture
def gemm(tmp_path: Path) -> str:
    file = tmp_path / "gemm.tir"
    file.write_text(GEMM)
    return str(file)


def test_no_passes_print_the_module(gemm: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", gemm]) == 0
    assert capsys.readouterr().out == print_module(parse_module(GEMM))


def test_the_result_can_be_read_again(gemm: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["-p", "canonicalise,place-levels,infer-tiling{arch=avx2}", "--verify-form", "tile-tiled"]
    assert main(["opt", gemm, *arguments]) == 0
    verify(parse_module(capsys.readouterr().out), Form.TILE_TILED)


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(GEMM))
    assert main(["opt", "-", "-p", "cse"]) == 0
    assert "func @gemm" in capsys.readouterr().out


def test_every_step_is_dumped(gemm: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", gemm, "-p", "cse,dce", "--dump"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("#")] == ["# input", "# after cse", "# after dce"]
    assert lines.count("}") == 3


def test_remarks_go_to_standard_error(gemm: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", gemm, "-p", "bounds", "--remarks"]) == 0
    assert capsys.readouterr().err == f"# {gemm}:2:6: bounds: 3 of 3 accesses proved in bounds\n"


def test_locations(gemm: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", gemm, "--locations"]) == 0
    assert 'gemm.tir":3:3-' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-p", "csee"], "<pipeline>:1:1: TileSyntaxError: there is no pass `csee`"),
        (["-p", "infer-tiling"], "the pass `infer-tiling` needs the form `tile-placed`, but finds `tile`"),
        (["--verify-form", "tile-placed"], "not legal in form `tile-placed`"),
        (["-p", "infer-shapes{Q=2}"], "@gemm has no size `Q`"),
    ],
)
def test_errors_are_printed_without_a_traceback(
    arguments: list[str], message: str, gemm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["opt", gemm, *arguments]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert "fix: " in error
    assert "Traceback" not in error


def test_text_that_is_not_ir(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "broken.tir"
    file.write_text("func @f( {\n")
    assert main(["opt", str(file)]) == 1
    assert f"{file}:1:10: TileSyntaxError: expected" in capsys.readouterr().err
    assert main(["opt", str(tmp_path / "missing.tir")]) == 1
    assert "No such file or directory" in capsys.readouterr().err
    file.write_bytes(b"\xff\xfe")
    assert main(["opt", str(file)]) == 1
    assert "cannot read" in capsys.readouterr().err


def test_a_form_that_does_not_exist(gemm: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", gemm, "--verify-form", "ptx"]) == 2
    assert "invalid choice" in capsys.readouterr().err

"""`tiledsl compile`, in process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.gpu_code.sass import disassembler
from tests.support.kernels import call_kernels
from tiledsl import __version__, tile
from tiledsl.cli.arguments import parse_constant, parse_spec
from tiledsl.cli.main import main

FILE = Path(call_kernels.__file__)
VECTOR = ["--spec", "f32[N]"]
REFERENCE = ["--arch", "reference"]


def test_ir_of_the_front_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", f"{FILE}:add", *VECTOR, *VECTOR, *REFERENCE, "--emit", "front"]) == 0
    assert capsys.readouterr().out.startswith("func @add(%x: tensor<f32, [N], unit=0>, %y: tensor<f32, [N], unit=0>)")


@pytest.mark.parametrize(
    ("emit", "text"),
    [
        ("tile", "tile.grid"),
        ("llvm", "define"),
        ("asm", "phase0:"),
        ("resources", "code = "),
        ("explain", "compiled for cpu"),
    ],
)
def test_what_the_cpu_gets(emit: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", f"{FILE}:add", *VECTOR, *VECTOR, "--emit", emit]) == 0
    assert text in capsys.readouterr().out


@pytest.mark.parametrize(
    ("emit", "text"),
    [
        ("front", "tile.grid"),
        ("tile", "register"),
        ("gpu", "gpu.launch"),
        ("cuda", 'extern "C" __global__'),
        ("resources", "add: registers = "),
        ("explain", "compiled for sm_90"),
    ],
)
def test_what_a_gpu_gets(emit: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", f"{FILE}:add", *VECTOR, *VECTOR, "--arch", "sm_90", "--emit", emit]) == 0
    assert text in capsys.readouterr().out


@pytest.mark.parametrize(("emit", "text"), [("graph", "graph.reduce"), ("tile", "tile.grid"), ("explain", "kernel")])
def test_what_a_formula_gives(emit: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", f"{FILE}:normalised", "--spec", "f32[16,32]", "--emit", emit]) == 0
    assert text in capsys.readouterr().out
    assert main(["compile", f"{FILE}:normalised", "--spec", "f32[16,32]", "--emit", "llvm"]) == 1
    assert "choose `--emit` from `graph`, `tile`, `explain`" in capsys.readouterr().err


def test_machine_code_of_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    disassembler()  # skips where there is none
    assert main(["compile", f"{FILE}:add", *VECTOR, *VECTOR, "--arch", "sm_90", "--emit", "sass"]) == 0
    assert "FADD" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arch", "emit"), [("cpu", "cuda"), ("cpu", "sass"), ("reference", "llvm"), ("sm_90", "llvm"), ("sm_90", "asm")]
)
def test_what_an_architecture_does_not_have(arch: str, emit: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", f"{FILE}:add", *VECTOR, *VECTOR, "--arch", arch, "--emit", emit]) == 1
    error = capsys.readouterr().err
    assert f"a kernel compiled for `{arch}` has no `{emit}`" in error
    assert "fix: choose `--emit` from `front`, `tile`" in error


def test_constants_and_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", f"{FILE}:power", *VECTOR, "--constexpr", "exponent=1", *REFERENCE]) == 0
    assert "tile.map" not in capsys.readouterr().out
    assert main(["compile", f"{FILE}:scale", *VECTOR, "--spec", "float", *REFERENCE]) == 0
    assert "%factor: f64, %offset: i64" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        [f"{FILE}:add", *VECTOR],
        [f"{FILE}:nothing"],
        [f"{FILE}"],
        ["nowhere.py:add"],
        [f"{FILE}:add", "--spec", "f32"],
        [f"{FILE}:add", *VECTOR, *VECTOR, "--arch", "sm_61"],
        [f"{FILE}:power", *VECTOR, "--constexpr", "exponent"],
    ],
)
def test_errors_have_no_traceback(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Tile" in captured.err
    assert "fix: " in captured.err
    assert "Traceback" not in captured.err


def test_broken_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "broken.py"
    file.write_text("import nothing_of_that_name")
    assert main(["compile", f"{file}:k"]) == 1
    assert "ModuleNotFoundError: No module named 'nothing_of_that_name'" in capsys.readouterr().err


def test_command_line_that_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile"]) == 2
    assert main(["frobnicate"]) == 2
    assert main(["compile", "x.py:k", "--emit", "smoke"]) == 2
    assert "usage: tiledsl" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tiledsl {__version__}\n"


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("f32[M, K]", tile.spec(("M", "K"), tile.f32)),
        ("bf16[64,?,N]", tile.spec((64, None, "N"), tile.bf16)),
        ("i8[]", tile.spec((), tile.i8)),
        ("int", int),
    ],
)
def test_parse_spec(text: str, spec: object) -> None:
    assert parse_spec(text) == spec


@pytest.mark.parametrize(
    ("text", "value"),
    [("BM=128", 128), ("eps=1e-5", 1e-5), ("dtype=f16", tile.f16), ("act=relu", "relu"), ("p=(1, 'a')", (1, "a"))],
)
def test_parse_constant(text: str, value: Any) -> None:
    assert parse_constant(text) == (text.partition("=")[0], value)

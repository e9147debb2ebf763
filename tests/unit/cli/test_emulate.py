"""`tiledsl emulate`, in process."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.gpu_code.gpu_programs import ADD
from tests.support.kernels import call_kernels
from tests.support.mutants.racy_programs import RACE
from tiledsl.api.programs import emulate as api_emulate
from tiledsl.backend_ref.emulator.emulate import Emulation, EmulatorWarning
from tiledsl.cli.arguments import parse_size
from tiledsl.cli.draw import difference, draw_for_function, draw_for_specs
from tiledsl.cli.main import main
from tiledsl.ir.text.parser import parse_module
from tiledsl.support.errors import TileError, make_error
from tiledsl.support.location import Location

FILE = Path(call_kernels.__file__)
GEMM = ["emulate", f"{FILE}:gemm", "--spec", "f32[M,24]", "--spec", "f32[24,20]", "--size", "M=30"]
VECTOR = ["--spec", "f32[N]", "--size", "N=40"]
F32 = np.float32


def random() -> np.random.Generator:
    return np.random.default_rng(5)


def test_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(GEMM) == 0
    line, summary = capsys.readouterr().out.splitlines()
    assert line.startswith("plan 0 (m=")
    assert line.endswith("seed 0: ok")
    assert " programs, " in line
    assert summary == "1 run, nothing wrong was found"


def test_seeds_and_plans(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GEMM, "--arch", "sm_80", "--seed", "3", "--seeds", "2", "--plan", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition(", ")[2] for line in lines[:-1]] == ["seed 3: ok", "seed 4: ok"]
    assert all(line.startswith("plan 1 (") for line in lines[:-1])
    assert main([*GEMM, "--plans", "all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[:-1]] == [str(plan) for plan in range(len(lines) - 1)]
    assert lines[-1] == f"{len(lines) - 1} runs, nothing wrong was found"
    assert len(lines) > 3


@pytest.mark.parametrize(
    "arguments",
    [
        [f"{FILE}:scale", *VECTOR, "--spec", "float", "--spec", "int"],
        [f"{FILE}:scale", *VECTOR, "--spec", "0.5"],
        [f"{FILE}:power", *VECTOR, "--constexpr", "exponent=3"],
        [f"{FILE}:both", *VECTOR, *VECTOR],
        [f"{FILE}:sum_and_difference", "--spec", "i32[33]", "--spec", "i32[33]"],
        [f"{FILE}:relay", "--spec", "bf16[7]"],
    ],
)
def test_kinds_of_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emulate", *arguments]) == 0
    assert capsys.readouterr().out.endswith("1 run, nothing wrong was found\n")


def test_gpu_ir(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "add.tir"
    file.write_text(ADD)
    assert main(["emulate", str(file), "--size", "M=40", "--size", "N=64", "--seeds", "2"]) == 0
    expected = ["@add, 2 programs, seed 0: ok", "@add, 2 programs, seed 1: ok", "2 runs, nothing wrong was found"]
    assert capsys.readouterr().out.splitlines() == expected
    monkeypatch.setattr("sys.stdin", io.StringIO(ADD))
    assert main(["emulate", "-", "--size", "M=4"]) == 1
    error = capsys.readouterr().err
    assert "it leaves open how much `N` is" in error
    assert "fix: add `--size N=128`" in error


def test_a_race(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "race.tir"
    file.write_text(RACE)
    assert main(["emulate", str(file), "--seeds", "2"]) == 1
    out = capsys.readouterr().out
    assert out.count(f"{file}:9:5: TileRuntimeError: race in program p = 0: `gpu.read` lets thread") == 2
    assert out.count("  fix: put a barrier between the two") == 1
    assert out.endswith("2 runs, something is wrong in 2 of them\n")


def fake(monkeypatch: pytest.MonkeyPatch, results: Sequence[Any]) -> None:
    """The emulator gives one thing after the other: results, warnings or errors."""
    rest = iter(results)

    def emulate(*args: object, **named: object) -> Emulation:
        result = next(rest)
        if isinstance(result, TileError):
            raise result
        return result

    monkeypatch.setattr(api_emulate, "emulate", emulate)


def test_what_is_wrong_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    zeros = np.zeros(40, F32)
    place = Location(str(FILE), 31)
    race = make_error("assertion-failed", place, text="x > 0", program="in program n = 0:32")
    slow = EmulatorWarning("emulator-bank-conflicts", "slow", place, 4, "k.py:3: slow\n   3 | y[n] = x[n]")
    fake(monkeypatch, [Emulation((zeros,), (), 0, 0), race, race, Emulation((zeros,), (slow, slow), 0, 0)])
    assert main(["emulate", f"{FILE}:add", *VECTOR, *VECTOR, "--seeds", "4"]) == 1
    out = capsys.readouterr().out
    assert "seed 0: result 0 differs from the reference in 40 of 40 elements, first at [0]: 0.0, not " in out
    assert "seed 1: " in out
    assert out.count(f"{FILE}:31:1: TileRuntimeError: assertion failed: x > 0") == 2
    assert out.count("  fix: pass arguments") == 1
    assert out.count("  k.py:3: slow\n     3 | y[n] = x[n]\n") == 1
    assert out.endswith("4 runs, something is wrong in 4 of them, 1 warning\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([f"{FILE}:add", "--spec", "f32[N]", "--spec", "f32[8]"], "leaves open how much `N` is"),
        ([f"{FILE}:add", "--spec", "f32[?]", "--spec", "f32[8]"], "leaves open how much `?` is"),
        ([f"{FILE}:add", *VECTOR, "--size", "N"], "`N` does not set a size"),
        ([f"{FILE}:add", *VECTOR, "--spec", "f32[9]"], "size `N` is 40 in `x` (axis 0) but 9 in `y`"),
        ([f"{FILE}:add", *VECTOR], "`add` was called without `y`"),
        ([f"{FILE}:add", "--spec", "i4[8]", "--spec", "i4[8]"], "`i4[8]` is no specification"),
        ([f"{FILE}:add", "--spec", "[8]"], "`[8]` is no specification"),
        ([f"{FILE}:add", *VECTOR, *VECTOR, "--arch", "cpu"], "there is none for `cpu`"),
        ([f"{FILE}:add", *VECTOR, *VECTOR, "--plan", "12"], "there is no plan 12 for this call of `add`"),
        ([f"{FILE}"], "does not say which kernel"),
        (["nowhere.tir"], "cannot read `nowhere.tir`"),
    ],
)
def test_errors_have_no_traceback(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emulate", *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert "fix: " in captured.err
    assert "Traceback" not in captured.err


def test_ir_of_another_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "add.tir"
    assert main(["compile", f"{FILE}:add", "--spec", "f32[N]", "--spec", "f32[N]", "--arch", "reference"]) == 0
    file.write_text(capsys.readouterr().out)
    assert main(["emulate", str(file), "--size", "N=64"]) == 1
    assert "not legal in form `gpu`" in capsys.readouterr().err


def test_one_plan_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GEMM, "--plan", "1", "--plans", "all"]) == 2
    assert main([*GEMM, "--plans", "some"]) == 2
    assert "usage: tiledsl emulate" in capsys.readouterr().err


def test_parse_size() -> None:
    assert parse_size("M=128") == parse_size(" M = 128 ") == ("M", 128)
    for text in ("M", "M=", "=3", "M=x", "M=-1", "2=2"):
        with pytest.raises(TileError):
            parse_size(text)


def test_draw_for_specs() -> None:
    x, index, flags, number, flag, fixed = draw_for_specs(
        ["bf16[M,3]", "i32[M]", "bool[9]", "int", "bool", "-2.5"], {"M": 4}, random()
    )
    assert isinstance(x, np.ndarray)
    assert (x.shape, str(x.dtype)) == ((4, 3), "bfloat16")
    assert isinstance(index, np.ndarray)
    assert index.min() >= 0
    assert index.max() < 3  # the shortest axis
    assert isinstance(flags, np.ndarray)
    assert flags.dtype == bool
    assert number in (0, 1, 2)
    assert flag in (True, False)
    assert fixed == -2.5
    again = draw_for_specs(["bf16[M,3]"], {"M": 4}, random())[0]
    np.testing.assert_array_equal(again, x)


def test_draw_for_function() -> None:
    text = """
    func @f(%x: tensor<f32, [M, 2 * N], unit=0>, %y: tensor<u8, []>, %n: i64, %k: i64, %p: bool) {
      tile.return([])
    }
    """
    x, y, n, k, p = draw_for_function(parse_module(text).entry, {"M": 3, "N": 4, "n": 17}, random())
    assert isinstance(x, np.ndarray)
    assert isinstance(y, np.ndarray)
    assert (x.shape, x.strides, y.shape, n) == ((3, 8), (4, 12), (), 17)
    assert k in (0, 1, 2)
    assert p in (True, False)


@pytest.mark.parametrize(
    ("actual", "expected", "same"),
    [
        ([1.0, np.nan, np.inf], [1.0 + 1e-6, np.nan, np.inf], True),
        ([1.0, 2.0], [1.0, np.nan], False),
        ([1.0, np.inf], [1.0, 2.0], False),
        ([1.0, 2.0], [1.0, np.inf], False),
        ([0.0, 100.0], [1e-4, 100.0], True),
        ([1.0, 2.0], [1.0, 2.1], False),
        ([], [], True),
        (3.0, 4.0, False),
    ],
)
def test_difference_of_floats(actual: Any, expected: Any, same: bool) -> None:
    found = difference("result 0", np.asarray(actual, F32), np.asarray(expected, F32))
    assert (found is None) == same


def test_difference_of_integers() -> None:
    large = np.asarray([2**62, 1])
    assert difference("x", large, large) is None
    found = difference("x", np.asarray([2**62 + 1, 1]), large)
    assert found == f"x differs from the reference in 1 of 2 elements, first at [0]: {2**62 + 1}, not {2**62}"

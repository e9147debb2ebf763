"""What the command line says of itself, and what it answers to lines that are wrong."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from tiledsl.cli.main import main, make_parser
from tiledsl.cli.overview import TASKS, overview
from tiledsl.cli.parser import Command, described, empty_parser, parse, positive_int, seconds
from tiledsl.support.errors import TileError

COMMANDS = described(make_parser())


def test_described() -> None:
    parser = empty_parser("tool", "A tool.")
    command = parser.add_subparsers().add_parser("cut", help="cut it")
    command.add_argument("what", metavar="FILE", help="a file")
    command.add_argument("-m", "--mode", choices=["a", "b"], help="how")
    command.add_argument("--fast", action="store_true")
    (cut,) = described(parser)
    assert (cut.name, cut.help) == ("cut", "cut it")
    _, what, mode, fast = cut.options
    assert (what.names, what.metavar, what.help, what.takes_value) == ((), "FILE", "a file", True)
    assert (mode.names, mode.choices, mode.takes_value) == (("-m", "--mode"), ("a", "b"), True)
    assert (fast.names, fast.takes_value) == (("--fast",), False)


def test_every_command_and_argument_says_what_it_is() -> None:
    without = [(c.name, o.names or o.metavar) for c in COMMANDS for o in c.options if not o.help]
    assert without == []
    assert all(command.help for command in COMMANDS)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["chek"], "did you mean `check`?"),
        (["zzz"], "`tiledsl` alone lists all commands"),
        (["check", "x", "--sped", "3"], "did you mean `--spec`?"),
        (["check", "x", "--zzz=3"], "`tiledsl check --help` lists what there is"),
        (["check"], "usage: tiledsl check"),
        (["bench", "x", "--batch", "0"], "argument --batch: `0` is no whole number above 0"),
        (["--zzz", "check", "x"], "`tiledsl --help` lists what there is"),
    ],
)
def test_lines_that_are_wrong(line: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("TileSyntaxError: ")
    assert "\n  fix: " in printed.err
    assert said in printed.err


def test_parse_gives_what_was_said() -> None:
    options = parse(make_parser(), ["opt", "x.tir", "-p", "dce", "--dump"])
    assert (options.file, options.passes, options.dump) == ("x.tir", "dce", True)


def test_numbers() -> None:
    assert (positive_int("3"), seconds("0.5"), seconds("0")) == (3, 0.5, 0)
    for text in ("0", "-1", "x", "1.5", ""):
        with pytest.raises(argparse.ArgumentTypeError):
            positive_int(text)
    for text in ("-1", "x", "nan", "inf"):
        with pytest.raises(argparse.ArgumentTypeError):
            seconds(text)


def test_errors_of_the_command_line_have_no_place_in_this_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(tmp_path / "nowhere.onnx")]) == 1
    error = capsys.readouterr().err
    assert error.splitlines()[0].startswith("TileRuntimeError: ")
    assert "test_parser.py" not in error
    assert error.splitlines()[1].startswith("  fix: ")


def test_without_a_command_all_are_listed_by_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    printed = capsys.readouterr().out
    assert printed == overview(COMMANDS) + "\n"
    listed = [line.split()[0] for line in printed.splitlines() if line.startswith("  ")]
    assert sorted(listed) == sorted(command.name for command in COMMANDS)
    assert max(map(len, printed.splitlines())) <= 110


def test_every_command_has_a_task() -> None:
    assert {name for names in TASKS.values() for name in names} == {command.name for command in COMMANDS}


def test_commands_without_a_task_come_last() -> None:
    others = Command("polish", "polish it; and more, which is left out", ())
    assert overview([others, *COMMANDS]).splitlines()[-2:] == ["more", f"  {'polish':14}polish it"]
    long = Command("polish", "word " * 40, ())
    assert overview([long]).splitlines()[-1].endswith("word ...")


def test_errors_of_users_keep_their_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(
        "from tiledsl import tile\n@tile.kernel\ndef k(x):\n    N = x.shape[0]\n    y = tile.empty(N, x.dtype)\n"
        "    for n in tile.grid(N):\n        y[n] = undefined(x[n])\n    return y\n"
    )
    assert main(["compile", f"{file}:k", "--spec", "f32[N]"]) == 1
    assert capsys.readouterr().err.startswith(f"{file}:7:")


def test_parse_raises_errors_of_the_catalogue() -> None:
    with pytest.raises(TileError) as caught:
        parse(make_parser(), ["frobnicate"])
    assert caught.value.code == "command-unknown"

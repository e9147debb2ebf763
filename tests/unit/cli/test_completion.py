"""Scripts that complete command lines: of bash what they do, of the others what they have."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tiledsl.cli.commands.completion import SHELLS, completion
from tiledsl.cli.main import main, make_parser
from tiledsl.cli.parser import described

COMMANDS = described(make_parser())
BASH = completion("bash", COMMANDS)
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")


def completed(*words: str) -> list[str]:
    """What bash offers for the last of these words."""
    script = f"""{BASH}
        COMP_WORDS=({" ".join(f"'{word}'" for word in ("tiledsl", *words))}); COMP_CWORD={len(words)}
        _tiledsl; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.split()


@needs_bash
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("com",), ["compile", "completion"]),
        (("check", "--s"), ["--spec", "--size", "--seed"]),
        (("bench", "--device", ""), ["cpu", "cuda"]),
        (("completion", ""), ["bash", "zsh", "fish"]),
        (("opt", "pyproject.t"), ["pyproject.toml"]),
        (("frobnicate", "--x"), []),
    ],
)
def test_bash(words: tuple[str, ...], offered: list[str], request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("monkeypatch").chdir(request.config.rootpath)
    assert completed(*words) == offered


@pytest.mark.parametrize("shell", SHELLS)
def test_every_option_of_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert script == completion(shell, COMMANDS)
    for command in COMMANDS:
        assert command.name in script
        for name in (name for option in command.options for name in option.names):
            in_fish = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
            assert (in_fish if shell == "fish" else name) in script


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_reads_it(shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"there is no {shell}")
    done = subprocess.run(
        [program, "-n"], input=completion(shell, COMMANDS), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_another_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "csh"]) == 2
    assert "'csh'" in capsys.readouterr().err

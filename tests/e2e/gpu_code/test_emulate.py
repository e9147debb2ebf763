"""The examples in the emulator: the code for GPUs gives what the reference gives, in whatever order things happen."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.gpu_cases.gpu_cases import Case, assert_same, expected, outcome
from tests.support.gpu_cases.gpu_example_cases import EXAMPLE_CASES
from tests.support.pages import blocks, missing_lines, python_of
from tiledsl.cli.main import main

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "emulator.md").read_text(encoding="utf-8")
MOST_ELEMENTS = 20_000
"""Of the arguments of a case."""
MOST_CASES = 3
"""Of each example."""
SEEDS = (0, 1, None)
"""None: in step."""


def few_of_each_kernel(most: int) -> list[Case]:
    """At most so many small cases of each example, spread over all that there are."""
    groups: dict[object, list[Case]] = {}
    for case in EXAMPLE_CASES:
        if sum(np.size(argument) for argument in case.arguments()) <= MOST_ELEMENTS:
            groups.setdefault(case.kernel, []).append(case)
    return [group[i * len(group) // most] for group in groups.values() for i in range(min(most, len(group)))]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("case", few_of_each_kernel(MOST_CASES), ids=str)
@pytest.mark.filterwarnings("ignore::tiledsl.TilePerformanceWarning")
def test_examples(case: Case, arch: str) -> None:
    wanted = expected(case)
    constants: dict[str, Any] = dict(case.constants)
    for seed in SEEDS:
        arguments = case.arguments()
        returned: Any = case.kernel.emulate(*arguments, arch=arch, seed=seed, **constants)
        actual = outcome(returned, arguments, lambda value: isinstance(value, np.ndarray), np.asarray)
        try:
            assert_same(case, actual, wanted)
        except AssertionError as error:
            raise AssertionError(f"{error}\nseed: {seed}") from None


def test_the_page_runs() -> None:
    names: dict[str, Any] = {"__name__": "emulator"}
    exec(compile(python_of(PAGE), "docs/emulator.md", "exec"), names)
    wide = [names[name].astype(np.float32) for name in "abc"]
    np.testing.assert_allclose(wide[2], wide[0] @ wide[1], rtol=0.02, atol=0.1)


def test_the_page_shows_what_the_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    program, shown = blocks(PAGE, "")
    file = tmp_path / "copy.tir"
    file.write_text(program)
    commands = [line for block in blocks(PAGE, "bash") for line in block.splitlines()]
    for command in commands:
        assert main([word.replace("copy.tir", str(file)) for word in shlex.split(command)[1:]]) == 0
    printed = capsys.readouterr().out
    assert missing_lines(shown, printed) == []
    assert "@copy, 1 program, seed 4: ok" in printed

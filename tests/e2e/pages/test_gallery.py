"""The gallery: every file is right on the CPU and in the emulator, and compiles for GPUs; the index names all."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from beside_numpy import largest_error
from beside_torch import as_tensors, on_host
from entry import Entry
from examples.gallery.__main__ import FOLDER, NAMES, entry_of

ROOT = Path(__file__).resolve().parents[3]
SLOW = {"gpt_step", "sliding_window"}
"""Graphs of several kernels, or plans that take a second each to compile or to emulate."""
ALL = pytest.mark.parametrize("name", NAMES)
EMULATED = [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in NAMES]
COMPILED = [
    pytest.param(name, arch, marks=pytest.mark.slow if arch != "sm_90" or name in SLOW else ())
    for name in NAMES
    for arch in ("sm_80", "sm_90", "sm_100")
]


def test_what_the_gallery_is_to_have() -> None:
    assert len(NAMES) >= 18
    rows = re.findall(r"^\| \[(\w+)\]\((\w+)\.py\) \|", (FOLDER / "README.md").read_text(encoding="utf-8"), re.M)
    assert sorted(rows) == [(name, name) for name in NAMES], "the table of examples/gallery/README.md"


@ALL
def test_a_file_is_short_and_says_its_formula(name: str) -> None:
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 80
    module = importlib.import_module(f"examples.gallery.{name}")
    assert len((module.__doc__ or "").strip().splitlines()) > 1, "a title and a formula"
    assert 'if __name__ == "__main__":\n    ENTRY.show(__doc__)\n' in text


def assert_right(entry: Entry, result: object) -> None:
    assert largest_error(result, entry.numpys(*entry.arguments(entry.small))) <= entry.tolerance


@ALL
def test_on_the_cpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beside_numpy.REST", 0.0)  # tables are of times, which nobody looks at here
    entry = entry_of(name)
    result = entry.kernel(*entry.arguments(entry.small))
    assert_right(entry, result)
    if entry.picture is not None:
        assert entry.picture(result, *entry.arguments(entry.small)).count("\n") > 2


@ALL
def test_programs_do_not_race(name: str) -> None:
    entry = entry_of(name)
    report = entry.kernel.check(*entry.arguments(entry.small))
    assert (report.errors, report.notes) == ((), ())


@ALL
def test_the_reference_tells_a_wrong_result(name: str) -> None:
    """A tolerance that lets anything pass would be no check."""
    entry = entry_of(name)
    made = entry.numpys(*entry.arguments(entry.small))
    expected = cast("tuple[Any, ...]", made if isinstance(made, tuple) else (made,))
    for number, one in enumerate(expected):
        wrong = [*expected]
        wrong[number] = np.roll(one, 1)
        assert largest_error(tuple(wrong), expected) > entry.tolerance


@pytest.mark.parametrize("name", EMULATED)
def test_in_the_emulator(name: str) -> None:
    entry = entry_of(name)
    assert_right(entry, entry.kernel.emulate(*entry.arguments(entry.small), arch="sm_90"))


@pytest.mark.slow
@ALL
def test_of_narrow_floats(name: str) -> None:
    """In f16 sums and products are made in another order, and rounded at the end: by as much as f16 has digits."""
    entry = entry_of(name)
    arguments = [
        one.astype(np.float16) if getattr(one, "dtype", None) == np.float32 else one
        for one in entry.arguments(entry.small)
    ]
    assert largest_error(entry.kernel.emulate(*arguments, arch="sm_80"), entry.kernel(*arguments)) < 2e-3


@pytest.mark.parametrize(("name", "arch"), COMPILED)
def test_compiled_for(name: str, arch: str) -> None:
    """At the size that the file is timed at, for which plans are others than for small ones."""
    entry = entry_of(name)
    compiled: Any = entry.kernel.compile(*entry.arguments(entry.size), arch=arch)
    sources = [one.source for one in compiled.kernels.values()] if entry.kernel.is_tensor_form else [compiled.source]
    assert all("__global__" in source for source in sources)


@pytest.mark.parametrize("name", [name for name in NAMES if entry_of(name).torchs is not None])
def test_pytorchs_is_the_same(name: str) -> None:
    torch: Any = pytest.importorskip("torch")
    entry = entry_of(name)
    assert entry.torchs is not None
    assert_right(entry, on_host(entry.torchs(torch, *as_tensors(torch, entry.arguments(entry.small)))))


@pytest.mark.parametrize(
    "command",
    [["examples/gallery/histogram.py", "--size", "500"], ["-m", "examples.gallery", "rotary", "--rounds", "1"]],
)
def test_it_is_run(command: list[str]) -> None:
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "max error" in done.stdout
    assert "NumPy" in done.stdout

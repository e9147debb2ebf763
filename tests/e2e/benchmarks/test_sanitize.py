"""The command that runs tests under compute-sanitizer, on logs of it, and with something else in its place."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.gpu import sanitize
from tests.gpu.sanitize import PARTS, Outcome, main, read_log, read_tests, run_file, table

CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
INVALID = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at gemm_+0x120 in gemm.py:12
=========     by thread (32,0,0) in block (0,0,0)
=========     Address 0x7f0 is out of bounds
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: cuLaunchKernelEx [0x335] in libcuda.so.1
=========
========= Barrier error detected. Invalid arguments
=========     at f_+0x10
=========
========= ERROR SUMMARY: 2 errors
"""
RACES = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at softmax_+0x2a0 in softmax.py:18
=========     and Read access at softmax_+0x310 in softmax.py:18 [508 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""


def test_logs() -> None:
    assert read_log(CLEAN) == Outcome()
    invalid = read_log(INVALID)
    assert invalid is not None
    assert invalid.errors == 2
    assert invalid.findings == [
        "Invalid __global__ read of size 4 bytes; at gemm_+0x120 in gemm.py:12",
        "Barrier error detected. Invalid arguments; at f_+0x10",
    ]
    races = read_log(RACES)
    assert races is not None
    assert (races.errors, races.warnings, len(races.findings)) == (1, 0, 1)
    assert read_log("========= RACECHECK SUMMARY: 3 hazards displayed (1 error, 2 warnings)\n") == Outcome(1, 2)
    assert read_log("========= COMPUTE-SANITIZER\n") is None
    assert read_log("") is None


def test_lines_of_pytest() -> None:
    assert read_tests("....\n[100%]\n5 passed, 2 skipped, 7 deselected in 3.2s\n") == (5, 0)
    assert read_tests("FAILED a\n1 failed, 5 passed, 2 errors in 3s\n") == (5, 3)
    assert read_tests("3 skipped in 1s") == (0, 0)


def test_the_table() -> None:
    good, bad = Outcome(passed=7, seconds=3), Outcome(errors=1, passed=7)
    assert good.is_good
    assert not bad.is_good
    assert not Outcome().is_good  # nothing was run
    assert not Outcome(passed=7, unfinished=["ops"]).is_good
    assert table({"memcheck": good, "racecheck": Outcome(2, 1, 5, 0, 12.3, ["ops"])}).splitlines()[1:] == [
        "memcheck        0        0      7      0       3  -",
        "racecheck       2        1      5      0      12  ops",
    ]


def test_every_part_is_a_file() -> None:
    folder = Path(sanitize.__file__).parent
    assert all((folder / f"test_{name}.py").is_file() for part in PARTS.values() for name in part)


def stand_in(folder: Path, body: str) -> str:
    """An executable that is called as compute-sanitizer is; `log` is where it is to write."""
    file = folder / "stand-in"
    head = f"#!{sys.executable}\nimport os, subprocess, sys, time\nlog = sys.argv[sys.argv.index('--log-file') + 1]\n"
    file.write_text(head + body, encoding="utf-8")
    file.chmod(0o755)
    return str(file)


def test_a_run(tmp_path: Path) -> None:
    """Without a device all tests are skipped; the log and the counts are read all the same."""
    text = f"open(log, 'w').write({INVALID!r})\nprint('4 passed in 1s')\n"
    found = run_file(stand_in(tmp_path, text), "memcheck", "examples", 1, 60)
    assert (found.errors, found.passed, found.failed, found.unfinished) == (2, 4, 0, [])


def test_tests_are_run_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command behind the options of the tool is one that runs, and says in the end what it did."""
    text = f"""
program = sys.argv[sys.argv.index("--log-file") + 2 :]
program[-1] = "tests/unit/support/test_follow.py"
program[program.index("gpu")] = "not gpu"
open(log, "w").write({CLEAN!r})
os.execv(program[0], program)
"""
    found = run_file(stand_in(tmp_path, text), "memcheck", "docs", 1, 100)
    assert found.is_good, capsys.readouterr().out
    assert found.passed == 2


def test_a_run_that_takes_too_long(tmp_path: Path) -> None:
    """It is ended with all that it started."""
    alive = tmp_path / "alive"
    child = f"import time\ntime.sleep(3)\nopen({str(alive)!r}, 'w')"
    text = f"subprocess.Popen([sys.executable, '-c', {child!r}])\ntime.sleep(60)\n"
    found = run_file(stand_in(tmp_path, text), "memcheck", "examples", 1, 1)
    assert found.unfinished == ["examples"]
    time.sleep(3)
    assert not alive.exists()


def test_it_says_why_nothing_is_run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitize, "sanitizer", lambda: None)
    assert main(["memcheck"]) == 2
    assert "compute-sanitizer is not installed" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["memchek"])
    assert "no tool" in capsys.readouterr().err


def test_every_nth(tmp_path: Path) -> None:
    file = tmp_path / "test_n.py"
    file.write_text("import pytest\n@pytest.mark.parametrize('n', range(10))\ndef test_n(n): assert n % 3 == 0\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.gpu.every_nth", "--every", "3", str(file)]
    root = Path(sanitize.__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert read_tests(done.stdout) == (4, 0), done.stdout + done.stderr
    assert "6 deselected" in done.stdout

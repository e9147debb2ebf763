"""Runs tests on a device under compute-sanitizer: `python -m tests.gpu.sanitize [memcheck racecheck synccheck]`.

Each tool runs a part of `tests/gpu` that it can do in ten minutes; `--every 10` takes a tenth of that, `--seconds` sets
another limit. Needs compute-sanitizer, of the CUDA toolkit or by `pip install nvidia-cuda-sanitizer-api`. The last
lines are a table. Exit status: 0; 1 if there were errors, or tests failed or were not finished; 2 without a device or
the tool.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from tests.gpu.conftest import why_not

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 600.0
PARTS: dict[str, dict[str, int]] = {
    "memcheck": {
        "examples": 1,
        "ops": 1,
        "modules": 1,
        "async_ops": 2,
        "specialised_grids": 4,
        "language": 4,
        "shapes": 8,
    },
    "racecheck": {"examples": 4, "ops": 4, "async_ops": 4, "specialised_grids": 10, "language": 12},
    "synccheck": {"examples": 2, "ops": 2, "async_ops": 2, "specialised_grids": 5, "language": 6, "shapes": 16},
}
"""By tool: which files, and every how many-th of their tests. The longest come last, as they may not be finished."""
LEFT_OUT: dict[str, dict[str, str]] = {
    "memcheck": {
        "caller": "it captures allocations of PyTorch, which has no pool of its own here",
        "saved": "it runs behind that capture",
        "given_back": "it measures the free memory, of which the tool takes a part",
        "splits": "a block copies its own part of a sum by `cp.async.bulk.shared::cluster`, as it does others; the"
        " tool says that this is not in another block",
    },
    "racecheck": {
        "pingpong": "what a warpgroup hands to another one by an mbarrier is reported; why is not known, the emulator"
        " finds no race there",
        "sum_of_all": "what comes from another block by `st.async` is counted by an mbarrier, which it does not see",
    },
}
"""By tool: tests that are left out, by a word of their names, and why."""
MOST_SHOWN = 5
"""Findings of each file that are printed."""


@dataclass
class Outcome:
    """What a tool found in one file, or in all of them."""

    errors: int = 0
    warnings: int = 0
    passed: int = 0
    failed: int = 0
    seconds: float = 0.0
    unfinished: list[str] = field(default_factory=list[str])
    """The files that were not finished, or whose run said nothing."""
    findings: list[str] = field(default_factory=list[str])
    """The first lines of errors."""

    @property
    def is_good(self) -> bool:
        return self.passed > 0 and not (self.errors or self.warnings or self.failed or self.unfinished)

    def add(self, other: Outcome) -> None:
        self.errors += other.errors
        self.warnings += other.warnings
        self.passed += other.passed
        self.failed += other.failed
        self.seconds += other.seconds
        self.unfinished += other.unfinished
        self.findings += other.findings


_LINE = re.compile(r"^========= ?(.*)$", re.MULTILINE)
_ERRORS = re.compile(r"ERROR SUMMARY: (\d+) errors?")
_RACES = re.compile(r"RACECHECK SUMMARY: \d+ hazards? displayed \((\d+) errors?, (\d+) warnings?\)")
_COUNTS = re.compile(r"(\d+) (passed|failed|errors?)\b")


def read_log(text: str) -> Outcome | None:
    """What a log of compute-sanitizer counts; None for one without a summary, of a run that was ended early."""
    lines = _LINE.findall(text)
    found: Outcome | None = None
    for line in lines:
        if races := _RACES.match(line):
            found = Outcome(errors=int(races[1]), warnings=int(races[2]))
        elif errors := _ERRORS.match(line):
            found = Outcome(errors=int(errors[1]))
    if found is not None:
        found.findings = [
            f"{line}; {after.strip()}"
            for before, line, after in zip(["", *lines], lines, [*lines[1:], ""])
            if line and not line.startswith(" ") and after.startswith(" ") and not before.startswith(" ")
        ]
    return found


def read_tests(text: str) -> tuple[int, int]:
    """How many tests passed, and failed, by the last line of pytest that counts them."""
    for line in reversed(text.splitlines()):
        counts = {word.rstrip("s"): int(number) for number, word in _COUNTS.findall(line)}
        if counts:
            return counts.get("passed", 0), counts.get("failed", 0) + counts.get("error", 0)
    return 0, 0


def sanitizer() -> str | None:
    """Where compute-sanitizer is: on the path, in a toolkit, or in the package."""
    found = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if found is not None:
        return found
    try:
        inside = files("nvidia-cuda-sanitizer-api") or ()
    except PackageNotFoundError:
        return None
    places = [Path(str(file.locate())) for file in inside if file.parts[-2:] == ("bin", "compute-sanitizer")]
    return str(places[0]) if places else None


def run_tool(command: str, tool: str, every: int, seconds: float) -> Outcome:
    """Runs the part of a tool, file by file, for at most so many seconds."""
    total = Outcome()
    end = time.monotonic() + seconds
    for word, reason in LEFT_OUT.get(tool, {}).items():
        print(f"{tool} leaves out `{word}`: {reason}", flush=True)
    for name, step in PARTS[tool].items():
        left = end - time.monotonic()
        if left <= 0:
            total.unfinished.append(name)
            continue
        outcome = run_file(command, tool, name, step * every, left)
        total.add(outcome)
        print(f"{tool} {name}: {outcome.passed} passed, {outcome.failed} failed, {outcome.errors} errors", flush=True)
        for finding in outcome.findings[:MOST_SHOWN]:
            print(f"    {finding}", flush=True)
    return total


def chosen(tool: str) -> str:
    """What pytest is told to run of each file."""
    return " and ".join(f"not {word}" for word in ("script", *LEFT_OUT.get(tool, {})))


def run_file(command: str, tool: str, name: str, step: int, seconds: float) -> Outcome:
    """One file of tests in a process of its own, which is ended after so many seconds."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        log, output = Path(folder) / "log", Path(folder) / "output"
        tests = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.gpu.every_nth"]
        tests += ["--every", str(step), "-m", "gpu", "-k", chosen(tool), f"tests/gpu/test_{name}.py"]
        # tests ask for errors of the driver; that they are told of is what they test
        options = ["--tool", tool, "--target-processes", "application-only", "--report-api-errors", "no"]
        # memory that PyTorch keeps for itself would hide reads beyond the end of a tensor
        environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "PYTHONPATH": _search_path()}
        with output.open("wb") as file:
            process = subprocess.Popen(
                [command, *options, "--log-file", str(log), *tests],
                cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # its own session: what it started, and nothing else
                process.wait()
        said = output.read_text(encoding="utf-8", errors="replace")
        found = read_log(log.read_text(encoding="utf-8", errors="replace")) if log.is_file() else None
    if found is None or process.returncode < 0:
        found = found or Outcome()
        found.unfinished.append(name)
    found.passed, found.failed = read_tests(said)
    found.seconds = time.monotonic() - started
    if found.failed or found.unfinished:
        print("\n".join(said.splitlines()[-15:]), flush=True)
    return found


def _search_path() -> str:
    return os.pathsep.join(filter(None, [str(ROOT), str(ROOT / "examples"), os.environ.get("PYTHONPATH")]))


def table(outcomes: dict[str, Outcome]) -> str:
    """One line for each tool."""
    lines = [f"{'tool':<10} {'errors':>6} {'warnings':>8} {'passed':>6} {'failed':>6} {'seconds':>7}  not finished"]
    for tool, one in outcomes.items():
        rest = ", ".join(one.unfinished) or "-"
        lines.append(
            f"{tool:<10} {one.errors:>6} {one.warnings:>8} {one.passed:>6} {one.failed:>6} {one.seconds:>7.0f}  {rest}"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.gpu.sanitize", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tools", nargs="*", metavar="TOOL", help=", ".join(PARTS))
    parser.add_argument("--every", type=int, default=1, help="run every so many-th test of the part only")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each tool at most")
    chosen = parser.parse_args(arguments)
    tools: list[str] = chosen.tools or list(PARTS)
    if unknown := [tool for tool in tools if tool not in PARTS]:
        parser.error(f"{', '.join(unknown)}: no tool; there are {', '.join(PARTS)}")
    command = sanitizer()
    reason = "compute-sanitizer is not installed" if command is None else why_not()
    if command is None or reason:
        print(f"nothing was run: {reason}")
        return 2
    outcomes = {tool: run_tool(command, tool, chosen.every, chosen.seconds) for tool in tools}
    print(f"\n{table(outcomes)}")
    return 0 if all(outcome.is_good for outcome in outcomes.values()) else 1


if __name__ == "__main__":
    sys.exit(main())

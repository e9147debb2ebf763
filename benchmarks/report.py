"""Writes docs/performance.md from the runs in benchmarks/results: `python -m benchmarks.report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks import ROOT
from benchmarks.figures import MOST_LOAD, RESULTS, Run, load

PAGE = ROOT / "docs" / "performance.md"
HEAD = """\
# Performance

Made by `python -m benchmarks.report` from what `python -m benchmarks.cpu --save` keeps in `benchmarks/results`.
Each ratio is to NumPy in the same run, with as many threads, as the median of calls that take turns; the kernels are
those of the examples, and their results are checked before they are timed. Ratios hold within a run; times belong to
their machine. How the speed came about is in [performance-notes.md](performance-notes.md).
"""
BUSY = "The machine was busy with other programs (load {load}): to be repeated."


def saved_runs(directory: Path = RESULTS) -> list[Run]:
    """The runs that are kept, by name of their file."""
    return [load(path) for path in sorted(directory.glob("*.json"))]


def page(runs: Sequence[Run]) -> str:
    """The whole page."""
    return "\n".join([HEAD, *map(section, runs)])


def section(run: Run) -> str:
    """One machine: what it is, and a table of its figures."""
    software = ", ".join([f"Python {run.python}", *(f"{name} {number}" for name, number in run.versions.items())])
    lines = [
        f"## {run.device}, {run.cores} cores",
        f"{run.threads} threads; {software}; commit {run.commit or 'unknown'}, {run.date}.",
        *([BUSY.format(load=run.load)] if run.load > MOST_LOAD else []),
        "",
        "| what | measured | bar | | details |",
        "| --- | --- | --- | --- | --- |",
    ]
    for figure in run.figures:
        met = "met" if figure.met else "**not met**"
        lines.append(f"| {figure.what} | {figure.value_text} | {figure.bar_text} | {met} | {figure.detail} |")
    return "\n".join([*lines, ""])


def main() -> None:
    PAGE.write_text(page(saved_runs()), encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()

"""What is measured: figures with their bars, the machine they are from, and files that keep both."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import ROOT, THREADS

RESULTS = ROOT / "benchmarks" / "results"
MOST_LOAD = 0.5
"""Load from other programs above which ratios to NumPy mean little: a spinning thread waits for one that cannot run."""


@dataclass(frozen=True)
class Figure:
    """One measurement. `unit` `x` is a ratio to NumPy, where more is better; `s` and `us` are times, where less is."""

    what: str
    value: float
    unit: str
    bar: float
    detail: str

    @property
    def met(self) -> bool:
        return self.value >= self.bar if self.unit == "x" else self.value <= self.bar

    @property
    def value_text(self) -> str:
        return format_value(self.value, self.unit)

    @property
    def bar_text(self) -> str:
        return f"{'at least' if self.unit == 'x' else 'at most'} {format_value(self.bar, self.unit)}"


def format_value(value: float, unit: str) -> str:
    """A figure as it is printed: `0.85 x NumPy`, `0.042 s`, `4.1 us`."""
    match unit:
        case "x":
            return f"{value:.2f} x NumPy"
        case "s":
            return f"{value:.3f} s"
        case _:
            return f"{value:.1f} {unit}"


@dataclass(frozen=True)
class Run:
    """All figures of one run, and what they were measured with."""

    device: str
    cores: int
    threads: int
    python: str
    versions: dict[str, str]
    commit: str
    date: str
    load: float
    """Of other programs, in the minute before."""
    figures: tuple[Figure, ...]


def other_load() -> float:
    """The load average of the last minute; 0 where the system has none."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0  # not on Windows


def describe_run(figures: Sequence[Figure], load: float) -> Run:
    """The figures with the machine at hand, the versions that matter and the commit of the working tree.

    `load` is `other_load()` from before they were measured.
    """
    return Run(
        device=cpu_name(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        threads=THREADS,
        python=platform.python_version(),
        versions={"numpy": version("numpy"), "blas": blas_name(), "llvmlite": version("llvmlite")},
        commit=commit(),
        date=date.today().isoformat(),
        load=round(load, 2),
        figures=tuple(figures),
    )


def cpu_name() -> str:
    """What the processor calls itself."""
    cpuinfo = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.*)$", cpuinfo.read_text(), re.M) if cpuinfo.exists() else []
    return names[0] if names else platform.processor() or platform.machine()


def blas_name() -> str:
    """NumPy's BLAS with its version."""
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{blas['name']} {blas['version']}"


def commit() -> str:
    """The commit that is checked out, with a + if files have changed since; empty outside of a repository."""
    try:
        name, changed = (
            subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
            for command in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return name + "+" * bool(changed)


def save(run: Run, directory: Path = RESULTS) -> Path:
    """Writes the run as JSON, in place of an earlier one from such a machine. Gives the path."""
    name = re.sub(r"[^a-z0-9]+", "-", f"cpu {run.device} {run.cores} cores".lower()).strip("-")
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.json"
    path.write_text(json.dumps(asdict(run), indent=2) + "\n", encoding="utf-8")
    return path


def load(path: Path) -> Run:
    """The inverse of `save`."""
    stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    stored["figures"] = tuple(Figure(**figure) for figure in stored["figures"])
    return Run(**stored)

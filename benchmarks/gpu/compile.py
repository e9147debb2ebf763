"""Cold compilation, all stages: each in a fresh process with an empty cache directory. Needs no GPU.

The time is that of `kernel.compile` in a process that has imported tiledsl and compiled nothing: what the compiler
imports for it (cuda-bindings, NVRTC, the grammar) is part of it. Triton's is that of its own compiler, if it is there.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks import ROOT
from benchmarks.gpu.device import optional, software
from benchmarks.gpu.peers.common import first_line
from benchmarks.gpu.results import Results, verdict

REPEATS = 5
ARCH = "sm_90"
BARS = {
    "GEMM bf16": 1.0, "attention bf16": 2.0, "attention bf16 causal": 2.0, "add bf16": 0.3, "swiglu bf16": 0.3,
    "softmax bf16": None,
}  # fmt: skip
"""Seconds. A softmax has none: it is there to be watched."""
COLUMNS = ("what", "s", "bar", "", "fastest", "slowest", "parts")


def measure(only: str = "", *, repeats: int = REPEATS, arch: str = ARCH) -> Results:
    """Measures every kernel whose name contains `only`."""
    results = Results("compile", f"Cold compile time for {arch}", COLUMNS, software())
    results.start()
    for name, bar in BARS.items():
        if only not in name:
            continue
        runs, problem = fresh_runs(["-m", "benchmarks.gpu.first_compile", name, arch], repeats)
        if problem:
            results.failures += 1
            results.note(f"FAILED {name}: {problem}")
        else:
            results.add(*row(name, runs, bar))
    if optional("triton") is None:
        results.note("Triton is absent: it was not measured")
        return results
    for name in ("add", "GEMM"):
        if only in name:
            runs, problem = fresh_runs(["-m", "benchmarks.gpu.peers.first_triton_compile", name, arch], min(repeats, 3))
            if problem:
                results.note(f"Triton left out of {name}: {problem}")
            else:
                results.add(*row(f"Triton {name}", runs, None))
    return results


def fresh_runs(arguments: list[str], repeats: int) -> tuple[list[dict[str, Any]], str]:
    """What some runs of Python print as JSON, each with an empty cache; and what went wrong, if anything did."""
    runs: list[dict[str, Any]] = []
    for _ in range(repeats + 1):  # the first brings files into memory
        with tempfile.TemporaryDirectory() as empty:
            environment = {**os.environ, "TILEDSL_CACHE_DIR": empty, "TRITON_CACHE_DIR": empty}
            done = subprocess.run(
                [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
            )
        if done.returncode:
            named = [line for line in done.stderr.splitlines() if re.search(r"Error: \S", line)]
            return [], first_line(named[-1] if named else done.stderr)
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    return runs[1:], ""


def row(name: str, runs: list[dict[str, Any]], bar: float | None) -> tuple[list[str], dict[str, Any]]:
    """The cells of a row, and its numbers."""
    seconds = [float(run["seconds"]) for run in runs]
    median = statistics.median(seconds)
    met = None if bar is None else median <= bar
    parts = {part: statistics.median(run["parts"][part] for run in runs) for part in runs[0]["parts"]}
    cells = [
        name, f"{median:.3f}", "" if bar is None else f"{bar:.1f}", "" if met is None else verdict(met),
        f"{min(seconds):.3f}", f"{max(seconds):.3f}", ", ".join(f"{part} {t:.3f}" for part, t in parts.items()),
    ]  # fmt: skip
    return cells, {"what": name, "seconds": seconds, "bar": bar, "met": met, "parts": parts}

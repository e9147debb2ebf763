"""Small costs: importing, the first call with and without the disk cache, a call that is known already."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from benchmarks import ROOT
from benchmarks.figures import Figure
from beside_numpy import median_times
from vector_add import vector_add

IMPORT = "import time; t = time.perf_counter(); import tiledsl; print(time.perf_counter() - t)"
FIRST_CALL = ["-m", "benchmarks.first_call"]
REPEATS = 5
CALLS = 500


def printed_seconds(arguments: Sequence[str], cache: str) -> float:
    """Runs Python in a fresh process, which prints a number of seconds."""
    environment = {**os.environ, "TILEDSL_CACHE_DIR": cache}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout)


def median_seconds(measure: Callable[[], float], repeats: int) -> tuple[float, str]:
    """The median of several measurements, and their range, after one that brings files into memory."""
    measure()
    seconds = [measure() for _ in range(repeats)]
    return statistics.median(seconds), f"median of {repeats}: {min(seconds):.3f} to {max(seconds):.3f} s"


def import_time(repeats: int = REPEATS) -> Figure:
    with tempfile.TemporaryDirectory() as cache:
        seconds, detail = median_seconds(lambda: printed_seconds(["-c", IMPORT], cache), repeats)
    return Figure("import tiledsl", seconds, "s", 0.25, detail)


def first_call_cold(repeats: int = REPEATS) -> Figure:
    def measure() -> float:
        with tempfile.TemporaryDirectory() as empty:
            return printed_seconds(FIRST_CALL, empty)

    seconds, detail = median_seconds(measure, repeats)
    return Figure("first call of GEMM, cold cache", seconds, "s", 1.0, detail)


def first_call_from_disk(repeats: int = REPEATS) -> Figure:
    with tempfile.TemporaryDirectory() as cache:
        seconds, detail = median_seconds(lambda: printed_seconds(FIRST_CALL, cache), repeats)
    return Figure("first call of GEMM, from the disk cache", seconds, "s", 0.1, detail)


def cached_call(rounds: int = 7) -> Figure:
    """A vector add of 8 elements, all of it: what a call costs whatever it computes."""
    x, y, out = (np.ones(8, np.float32) for _ in range(3))
    times = median_times(
        partial(_repeat, lambda: vector_add(x, y)),
        partial(_repeat, lambda: vector_add(x, y, out=out)),
        partial(_repeat, lambda: x + y),
        rounds=rounds,
    )
    ours, into_out, numpys = (1e6 * seconds / CALLS for seconds in times)
    detail = f"with out= {into_out:.1f} us; NumPy's x + y {numpys:.1f} us"
    return Figure("call of vector add, 8 elements", ours, "us", 20, detail)


def _repeat(call: Callable[[], object]) -> None:
    for _ in range(CALLS):
        call()


CASES: dict[str, Callable[[], Figure]] = {
    "first-call-cold": first_call_cold,
    "first-call-disk": first_call_from_disk,
    "import": import_time,
    "cached-call": cached_call,
}

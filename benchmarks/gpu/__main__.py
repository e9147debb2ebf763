"""The speed on an NVIDIA GPU: `python -m benchmarks.gpu memory|launch|compile|gemm|all [--save] [--only NAME]`.

memory: memory-bound kernels beside a large copy, PyTorch, torch.compile and Triton. launch: the host cost of a call.
compile: cold compile times, which need no GPU. gemm: matrix products beside cuBLAS. all: memory, launch and gemm.
`--save` keeps the run in benchmarks/results; `python -m benchmarks.report` makes docs/performance.md of what is there.
Exit status: 0; 1 if a kernel failed or gave a wrong result; 2 where there is no GPU for what needs one.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.gpu.device import missing
from benchmarks.gpu.results import Results

ON_DEVICE = ("memory", "launch", "gemm")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["memory", "launch", "compile", "gemm", "all"])
    parser.add_argument("--save", action="store_true", help="keep the run in benchmarks/results")
    parser.add_argument("--only", default="", metavar="NAME", help="only what has this in its name")
    chosen = parser.parse_args(arguments)
    if chosen.save and chosen.only:
        parser.error("--save keeps whole runs: give no --only")
    if chosen.what == "compile":
        compiles = importlib.import_module("benchmarks.gpu.compile")  # the others need what may not be there
        if reason := missing():
            print(f"compile: {reason}; compiling needs none")
        return finish([compiles.measure(chosen.only)], save=chosen.save)
    if reason := missing():
        print(f"{chosen.what}: nothing measured: {reason}")
        return 2
    torch: Any = importlib.import_module("torch")
    started = time.perf_counter()
    done: list[Results] = []
    for name in ON_DEVICE if chosen.what == "all" else (chosen.what,):
        measure: Callable[[Any, str], Results] = importlib.import_module(f"benchmarks.gpu.{name}").measure
        done.append(measure(torch, chosen.only))
    print(f"\n{time.perf_counter() - started:.0f} s in all")
    return finish(done, save=chosen.save)


def finish(done: Sequence[Results], *, save: bool) -> int:
    """Says what met its bar and what did not; keeps the runs. Gives the exit status."""
    for results in done:
        bars = [row for row in results.numbers if row["bar"] is not None]
        met = sum(bool(row["met"]) for row in bars)
        print(f"{results.kind}: {met} of {len(bars)} bars met, {results.failures} failures")
        if save:
            print(f"saved as {results.save()}")
    return 1 if any(results.failures for results in done) else 0


if __name__ == "__main__":
    sys.exit(main())

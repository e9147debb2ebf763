"""The speed on an NVIDIA GPU: `python -m benchmarks.gpu gemm attention [--save] [--only NAME]`, one name or several.

memory: memory-bound kernels beside a large copy, PyTorch, torch.compile and Triton. launch: the host cost of a call.
compile: cold compile times, which need no GPU. gemm: matrix products beside cuBLAS. attention: beside FlashAttention,
cuDNN, Triton, TileLang. ranking: how good the first of the planner's plans is beside the next ones. graphs: fused
formulas beside tile form, bare products and PyTorch. zoo: formulas of the field beside PyTorch and their predictions;
`--family F` takes those of one family, `--workers N` compiles in so many processes. shapes: products of classes of
shapes, drawn with a seed. models: whole networks beside PyTorch. machine: how fast the parts of the GPU are, as a row
of the table of machines.
all: memory, launch, gemm and attention.
`--save` keeps the run in benchmarks/results; `python -m benchmarks.report` makes docs/performance.md of what is there.
Exit status: 0; 1 if a kernel failed or gave a wrong result; 2 where there is no GPU for what needs one.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.gpu.device import missing
from benchmarks.gpu.results import Results
from benchmarks.zoo.cases import families

ALL = ("memory", "launch", "gemm", "attention")
NAMES = (*ALL, "compile", "ranking", "graphs", "zoo", "shapes", "models", "machine")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="+", choices=[*NAMES, "all"])
    parser.add_argument("--save", action="store_true", help="keep the run in benchmarks/results")
    parser.add_argument("--only", default="", metavar="NAME", help="only what has this in its name")
    parser.add_argument("--family", default="", choices=families(), metavar="F", help=f"zoo: {', '.join(families())}")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="zoo: processes that compile (1)")
    chosen = parser.parse_args(arguments)
    if chosen.save and (chosen.only or chosen.family):
        parser.error("--save keeps whole runs: give no --only and no --family")
    if (chosen.family or chosen.workers != 1) and chosen.what != ["zoo"]:
        parser.error(f"--{'family' if chosen.family else 'workers'} is for the zoo alone")
    names = list(dict.fromkeys(name for what in chosen.what for name in (ALL if what == "all" else (what,))))
    reason = missing()
    if reason and "compile" in names:
        print(f"compile: {reason}; compiling needs none")
    if reason and names != ["compile"]:
        print(f"{', '.join(name for name in chosen.what if name != 'compile')}: nothing measured: {reason}")
        names = [name for name in names if name == "compile"]
        if not names:
            return 2
    started = time.perf_counter()
    of_zoo = {"family": chosen.family, "workers": chosen.workers}
    done = [measured(name, chosen.only, **(of_zoo if name == "zoo" else {})) for name in names]
    print(f"\n{time.perf_counter() - started:.0f} s in all")
    status = finish(done, save=chosen.save)
    return 2 if reason and chosen.what != ["compile"] else status


def measured(name: str, only: str, **more: Any) -> Results:
    """What one of NAMES gives."""
    module: Any = importlib.import_module(f"benchmarks.gpu.{name}")  # each needs what may not be there
    return module.measure(only) if name == "compile" else module.measure(importlib.import_module("torch"), only, **more)


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

"""How good searches are.

    python -m benchmarks.search landscape                      # beside random search, and without the residual
    python -m benchmarks.search tune --db D --rows softmax     # searches for rows of the zoo, on the first CUDA device
    python -m benchmarks.search measure --db D --rows softmax  # tuned and untuned, by a process that has not searched
    python -m benchmarks.search gains --db D --rows softmax    # both, one after the other
    python -m benchmarks.search winners --db D --rows softmax  # what `measure` confirms of `tune`: D/confirmed
    python -m benchmarks.search ship --db D [--to FOLDER]      # writes the winners of each GPU that D has

`--arch cpu` does the same on the CPU. `--models FILE.py:function` adds whole models: the function gives a graph and its
arguments.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import tiledsl
from benchmarks.search import gpu_landscape
from benchmarks.search.gains import GPU, clock_of, confirmed, measure, rows_of, tune, tune_apart
from benchmarks.search.landscape import table
from tiledsl.autotune.records.database import Database
from tiledsl.autotune.records.shipped import ship

SHIPPED = Path(tiledsl.__file__).parent / "autotune" / "shipped"


def main(given: Sequence[str]) -> int:
    """Does what it is told; 1 where there is nothing to do it with."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("act", choices=["landscape", "tune", "measure", "gains", "winners", "confirm", "ship"])
    parser.add_argument("--db", type=Path, help="the folder of the database")
    parser.add_argument("--rows", nargs="*", default=[], help="words that names of rows of the zoo contain")
    parser.add_argument("--models", nargs="*", default=[], metavar="FILE:FUNCTION", help="whole models")
    parser.add_argument("--arch", default=GPU, help="cpu, or that of the first CUDA device (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a search of a row (default: %(default)s)")
    parser.add_argument("--trials", type=int, default=20, help="plans of a program (default: %(default)s)")
    parser.add_argument("--most", type=float, default=600.0, help="seconds of `winners` (default: %(default)s)")
    parser.add_argument("--to", type=Path, default=SHIPPED, help="where to write what ships (default: the package)")
    options = parser.parse_args(given)
    if options.act == "landscape":
        for row in (*table(), *gpu_landscape.table()):
            print("  ".join(f"{cell:>16}" for cell in row))
        return 0
    if options.db is None:
        parser.error("--db is needed")
    if options.act == "ship":
        return shipped(options.db, options.to)
    rows = list(rows_of(options.rows, options.models, options.arch))
    if not rows:
        print("no row has such a name")
        return 1
    if options.act in ("tune", "gains"):
        tune(rows, options.arch, options.db, options.seconds, options.trials)
    if options.act == "measure":
        measure(rows, options.arch, options.db, clock_of(options.arch))
    if options.act == "winners":
        tune_apart(rows, options.arch, options.db, options.seconds, options.trials, options.most)
    if options.act == "confirm":
        count = confirmed(rows, options.arch, options.db, options.db / "confirmed", clock_of(options.arch))
        print(f"{count} rows are confirmed")
    if options.act in ("gains", "winners"):
        then = "measure" if options.act == "gains" else "confirm"
        command = [sys.executable, "-m", "benchmarks.search", then, *_without_act(given, options.act)]
        return subprocess.run(command, check=False).returncode
    return 0


def _without_act(given: Sequence[str], act: str) -> list[str]:
    left = list(given)
    left.remove(act)
    return left


def shipped(database: Path, folder: Path) -> int:
    """Writes a file for each GPU that a database has searches of; 1 where there is none."""
    read = Database(database)
    read.refresh()
    devices = sorted({question.device for question in read.entries.searches if question.target != "cpu"})
    for device in devices:
        path, count = ship(read, device, folder)
        print(f"{count} winners on {device} are in {path}")
    return 0 if devices else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

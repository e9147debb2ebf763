"""The programs of KernelBench, compiled and compared with eager PyTorch.

    python -m benchmarks.kernelbench --path KernelBench/KernelBench [--level 1 2 3] [--only conv] [--largest 16]
    python -m benchmarks.kernelbench --path KernelBench/KernelBench --device cuda [--dtype f16] [--workers 8]

On the CPU sizes are made smaller: numbers that a program names are halved until they are at most `--largest`, or left
larger where it does not run with these, or divided by one number. On a device programs run as they are (without tf32),
timed beside eager PyTorch and torch.compile.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from benchmarks.kernelbench.on_cpu import run_on_cpu
from benchmarks.kernelbench.on_device import TOLERANCE, run_on_device
from benchmarks.kernelbench.programs import programs


def main(given: Sequence[str]) -> int:
    """Runs the programs; 0 if none is wrong or fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, required=True, help="the folder with level1, level2 ...")
    parser.add_argument("--level", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--only", default="", help="programs in whose names this regular expression is found")
    parser.add_argument("--every", type=int, default=1, help="each so many programs only")
    parser.add_argument("--largest", type=int, default=16, help="CPU: sizes are halved until they are at most this")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=list(TOLERANCE), default="f32", help="device: of weights and arguments")
    parser.add_argument("--workers", type=int, default=4, help="device: how many processes compile")
    options = parser.parse_args(given)
    warnings.simplefilter("ignore")
    chosen = list(programs(options.path, options.level, options.only))[:: options.every]
    if options.device == "cuda":
        return run_on_device(chosen, options.dtype, options.workers)
    return run_on_cpu(chosen, options.largest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

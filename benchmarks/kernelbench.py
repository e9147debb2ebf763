"""The programs of KernelBench (a folder with level1, level2 ..., by path), compiled and compared with eager PyTorch.

    python -m benchmarks.kernelbench --path KernelBench/KernelBench [--level 1 2 3] [--only conv] [--largest 16]

On the CPU, where sizes are made smaller: numbers that a program names are halved until they are at most `--largest`, or
left larger where it does not run with these. Prints what is right without a fallback, right with one, wrong, or fails.
"""

from __future__ import annotations

import argparse
import ast
import re
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import tiledsl
from tiledsl.importers.torch.backend import COMPILED

TOLERANCE = 1e-4
LIMIT = 300
"""Seconds that one program may take."""
MOST = 2**22
"""Elements of an argument, at most: larger ones are for devices."""


def halved(source: str, largest: int) -> str:
    """A program with the numbers that it assigns to names halved until they are at most `largest`."""
    tree = ast.parse(source)

    class Halve(ast.NodeTransformer):
        def visit_Constant(self, node: ast.Constant) -> ast.Constant:
            value = node.value
            if not isinstance(value, int) or isinstance(value, bool):
                return node
            while value > largest:
                value = (value + 1) // 2
            return ast.copy_location(ast.Constant(value), node)

    for i, statement in enumerate(tree.body):
        if isinstance(statement, ast.Assign):
            tree.body[i] = Halve().visit(statement)
    return ast.unparse(ast.fix_missing_locations(tree))


def loaded(source: str, path: Path) -> tuple[Any, list[Any]]:
    """The model of a program, and the arguments of a call. Raises whatever the program does."""
    names: dict[str, Any] = {"__name__": "kernelbench"}
    exec(compile(source, str(path), "exec"), names)
    torch.manual_seed(0)
    model = names["Model"](*names["get_init_inputs"]()).eval()
    arguments = list(names["get_inputs"]())
    if any(isinstance(one, torch.Tensor) and one.numel() > MOST for one in arguments):
        raise MemoryError("too large")
    return model, arguments


def smallest(path: Path, largest: int) -> tuple[Any, list[Any], Any] | None:
    """The model with the smallest sizes with which it runs, its arguments and result; None if it runs with none."""
    source = path.read_text(encoding="utf-8")
    limits = (largest, 2 * largest, 4 * largest, 16 * largest, 2**31)
    return next((made for limit in limits if (made := run_eagerly(halved(source, limit), path)) is not None), None)


def run_eagerly(source: str, path: Path) -> tuple[Any, list[Any], Any] | None:
    """A program's model, its arguments and result; None if it does not run."""
    try:
        model, arguments = loaded(source, path)
        with torch.no_grad():
            return model, arguments, model(*arguments)
    except TimeoutExpiredError:
        raise
    except Exception:
        return None


class TimeoutExpiredError(Exception):
    """A program took too long."""


def _expired(number: int, frame: FrameType | None) -> None:
    raise TimeoutExpiredError


def outcome(path: Path, largest: int) -> tuple[str, str]:
    """What becomes of one program, and why."""
    made = smallest(path, largest)
    if made is None:
        return "unrunnable", "eager PyTorch does not run it"
    model, arguments, expected = made
    torch._dynamo.reset()
    COMPILED.clear()
    try:
        with torch.no_grad():
            actual = torch.compile(model, backend=tiledsl.torch.backend)(*arguments)
        torch.testing.assert_close(actual, expected, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
    except AssertionError as error:
        return "wrong", " ".join(str(error).split())[:200]
    reasons = [f"{node.target}: {why}" for graph in COMPILED for node, why in graph.fallbacks.items()]
    return ("fallback", "; ".join(reasons)) if reasons else ("right", "")


def main(given: Sequence[str]) -> int:
    """Runs the programs; 0 if none is wrong or fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, required=True, help="the folder with level1, level2 ...")
    parser.add_argument("--level", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--only", default="", help="programs in whose names this regular expression is found")
    parser.add_argument("--largest", type=int, default=16, help="sizes are halved until they are at most this")
    options = parser.parse_args(given)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _expired)
    counts: Counter[str] = Counter()
    for level in options.level:
        files = [p for p in (options.path / f"level{level}").glob("*.py") if re.search(options.only, p.stem)]
        for path in sorted(files, key=lambda p: int(p.stem.partition("_")[0])):
            start = time.perf_counter()
            signal.alarm(LIMIT)
            try:
                kind, detail = outcome(path, options.largest)
            except TimeoutExpiredError:
                kind, detail = "failed", f"took more than {LIMIT} s"
            except Exception as error:
                kind, detail = "failed", f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            finally:
                signal.alarm(0)
            counts[kind] += 1
            print(f"{level} {path.stem:60} {kind:10} {time.perf_counter() - start:6.1f} s  {detail}", flush=True)
    print(", ".join(f"{kind} {count}" for kind, count in counts.items()))
    return int(bool(counts["wrong"] or counts["failed"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

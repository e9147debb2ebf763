"""The zoo on this CPU, in f32 and at sizes for two cores: each formula beside eager PyTorch, and beside its prediction.

    python -m benchmarks.zoo [--family norms] [--only softmax] [--threads 2] [--seconds 1]

Results are checked against PyTorch's first. Contenders take turns; of each the least time counts. With one thread
that is processor time, which other programs hardly change; with more it is elapsed time.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean
from typing import Any

import numpy as np

from benchmarks.gpu.checking import relative_norm
from benchmarks.zoo.case import Sizes, ZooCase
from benchmarks.zoo.cases import CASES, families
from tiledsl.ir.dtypes import f32
from tiledsl.runtime.calls.outputs import as_tuple
from tiledsl.support.errors import TileError

MOST_BYTES = 32 << 20
"""Of all arguments together: the largest size of a case is halved until they take no more."""
MOST_SECONDS = 0.15
"""A call of PyTorch's on one thread: sizes are halved beyond that too."""
LEAST_CALLS = 5
TOLERANCE = 1e-4
"""||ours - theirs|| / ||theirs||, both in f32; more where one of the two is rounded to fewer bits."""
ROUNDING = {"float16": 2**-11, "bfloat16": 2**-8}
"""What one rounding makes of a number, at most."""
BARS = (1.2, 0.6)
"""The geometric mean of PyTorch's time over ours, and the least."""


@dataclass(frozen=True)
class Row:
    """What became of a case: seconds of a call, or why there are none."""

    case: ZooCase
    sizes: Sizes
    ours: float = math.nan
    eager: float = math.nan
    predicted: float = math.nan
    problem: str = ""

    def __str__(self) -> str:
        name = f"{self.case.family}: {self.case.name}"
        if self.problem:
            return f"{name:64} {self.problem}"
        times = " ".join(f"{1e3 * seconds:9.3f}" for seconds in (self.ours, self.eager, self.predicted))
        return f"{name:64} {times}   {self.eager / self.ours:6.2f}   {self.ours / self.predicted:6.2f}"


def main(given: Sequence[str]) -> int:
    """Prints a row for each case and a summary; 1 if a result was wrong or a case could not be built."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", choices=families(), help="one family (default: all)")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--threads", type=int, default=2, help="of both sides (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="that a case is measured for (default: %(default)s)")
    options = parser.parse_args(given)
    os.environ["TILEDSL_NUM_THREADS"] = str(options.threads)
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    print(f"{'ms':64} {'ours':>9} {'eager':>9} {'predicted':>9}   {'ratio':>6}   {'off':>6}")
    rows: list[Row] = []
    for case in CASES:
        if options.family in (None, case.family) and options.only in case.name and not case.tf32:
            rows.append(measure(torch, in_f32(case), clock, options.seconds))
            print(rows[-1], flush=True)
    summarise(rows)
    return int(any(row.problem.startswith(("wrong", "failed")) for row in rows))


def in_f32(case: ZooCase) -> ZooCase:
    """The case with f32 wherever it has a float."""
    arguments = tuple(replace(one, dtype=f32) if one.dtype.is_float else one for one in case.arguments)
    return replace(case, arguments=arguments)


def smaller(case: ZooCase, sizes: Sizes) -> Sizes:
    """Sizes with the largest one halved; multiples of four stay such."""
    name = max(sizes, key=lambda one: sizes[one])
    return {**sizes, name: max(1, sizes[name] // 2)}


def sizes_for_a_cpu(torch: Any, case: ZooCase) -> Sizes:
    """The case's own, cut down until its arguments, and a call of PyTorch's, are small enough."""
    sizes = dict(case.sizes)
    while argument_bytes(case, sizes) > MOST_BYTES:
        sizes = smaller(case, sizes)
    while True:
        tensors = case.tensors(torch, sizes, "cpu")
        case.expected(torch, *tensors, *case.extras(sizes))
        started = time.process_time()
        case.expected(torch, *tensors, *case.extras(sizes))
        if time.process_time() - started <= MOST_SECONDS * torch.get_num_threads() or max(sizes.values()) == 1:
            return sizes
        sizes = smaller(case, sizes)


def argument_bytes(case: ZooCase, sizes: Sizes) -> int:
    return sum(math.prod(one.shape(sizes)) * one.dtype.bytes for one in case.arguments)


def measure(torch: Any, case: ZooCase, clock: Callable[[], float], seconds: float) -> Row:
    """Checks and times a case."""
    sizes = dict(case.sizes)
    try:
        sizes = sizes_for_a_cpu(torch, case)
        tensors = case.tensors(torch, sizes, "cpu")
        expected = as_tuple(case.expected(torch, *tensors, *case.extras(sizes)))
    except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError) as error:
        return Row(case, sizes, problem=f"left out: PyTorch: {' '.join(str(error).split())[:80]}")
    try:
        fused = case.fused(sizes)
        built = fused.build("cpu")
        problem = differs(torch, as_tuple(built(*tensors)), expected, lambda: exact_results(case, tensors, sizes))
        predicted = fused.audit("cpu").predicted
    except TileError as error:
        return Row(case, sizes, problem=f"failed: {str(error).split(chr(10))[1][:100]}")
    if problem:
        return Row(case, sizes, problem=f"wrong: {problem}")
    ours, eager = least_times(
        lambda: built(*tensors), lambda: case.expected(torch, *tensors, *case.extras(sizes)), clock, seconds
    )
    return Row(case, sizes, ours, eager, predicted)


def differs(torch: Any, given: Sequence[Any], expected: Sequence[Any], exact: Callable[[], Sequence[Any]]) -> str:
    """What is wrong with results, if anything. Where both sides differ, results in f64 tell which of them errs."""
    for number, (given_one, theirs) in enumerate(zip(given, expected)):
        array: Any = np.asarray(given_one)
        ours: Any = torch.as_tensor(array.astype(np.float64))  # PyTorch does not know all narrow dtypes
        if tuple(ours.shape) != tuple(theirs.shape):
            return f"shape {tuple(ours.shape)}, PyTorch has {tuple(theirs.shape)}"
        rounded = [ROUNDING.get(str(one.dtype).rpartition(".")[2], 0.0) for one in (array, theirs)]
        allowed = max(TOLERANCE, *rounded)
        off = relative_norm(torch, ours, theirs)
        if not off <= allowed:
            off = relative_norm(torch, ours, torch.as_tensor(np.asarray(exact()[number], np.float64)))
        if not off <= allowed:
            return f"off by {off:.1e}, and {allowed:.0e} is allowed"
    return ""


def exact_results(case: ZooCase, tensors: Sequence[Any], sizes: Sizes) -> tuple[Any, ...]:
    """What NumPy makes of the tensors in f64."""
    return as_tuple(case.reference([tensor.numpy() for tensor in tensors], sizes))


def least_times(
    ours: Callable[[], Any], eager: Callable[[], Any], clock: Callable[[], float], seconds: float
) -> tuple[float, float]:
    """The least time of each of two calls that take turns."""
    least = [math.inf, math.inf]
    started, calls = time.perf_counter(), 0
    while calls < LEAST_CALLS or time.perf_counter() - started < seconds:
        for place, call in enumerate((ours, eager)):
            begun = clock()
            call()
            least[place] = min(least[place], clock() - begun)
        calls += 1
    return least[0], least[1]


def summarise(rows: Sequence[Row]) -> None:
    """Geometric means by family, the slowest cases, and how far predictions are off."""
    measured = [row for row in rows if not row.problem]
    if not measured:
        return
    print()
    for family in dict.fromkeys(row.case.family for row in measured):
        ratios = [row.eager / row.ours for row in measured if row.case.family == family]
        print(f"{family:20} {geometric_mean(ratios):6.2f} of {len(ratios):3}, least {min(ratios):.2f}")
    ratios = {row.case.name: row.eager / row.ours for row in measured}
    below = sorted((ratio, name) for name, ratio in ratios.items() if ratio < BARS[1])
    print(f"geometric mean {geometric_mean(ratios.values()):.3f} of {len(ratios)} (bar {BARS[0]})")
    print(f"below {BARS[1]}: {len(below)}" + "".join(f"\n  {ratio:.2f} {name}" for ratio, name in below))
    off = [abs(math.log(row.ours / row.predicted)) for row in measured]
    print(f"predictions: mean absolute log error {sum(off) / len(off):.2f}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What every example does with its kernel: check it against NumPy, time both, print the error and the speed."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Compute = Callable[[], Any]
"""Gives an array or a tuple of them."""


REST = 0.15
"""Seconds to wait before timing: a BLAS lets its threads spin for about 0.1 s after a product, on the CPUs that the
other side needs."""
SPELL = 0.02
"""Seconds for which one side is timed before the other has its turn; at least three calls."""


def command_line(description: str | None, default: int) -> tuple[int, str]:
    """The values of `--size` and `--device` on the command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--size", type=int, default=default, help="length of the long axes (default: %(default)s)")
    parser.add_argument(
        "--device", choices=["cpu", "cuda"], default="cpu", help="cuda: on the GPU, beside PyTorch (default: cpu)"
    )
    arguments = parser.parse_args()
    return arguments.size, arguments.device


def normal(*shape: int, seed: int = 0) -> Array:
    """Random float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def compare(
    title: str,
    ours: Callable[..., Any],
    numpys: Callable[..., Any],
    torchs: Callable[..., Any] | None,
    arrays: Sequence[Any],
    *,
    tolerance: float,
    device: str,
) -> None:
    """Checks `ours(*arrays)` against `numpys(*arrays)` and times both; exits with status 1 if the results differ.

    On the device `cuda` both `ours` and `torchs(torch, *arrays)`, if there is one, get CUDA tensors and are timed.
    Numbers may be among the arrays.
    """
    if device == "cuda":
        import beside_torch  # only here: it needs PyTorch

        beside_torch.compare(title, ours, partial(numpys, *arrays), torchs, arrays, tolerance=tolerance)
    else:
        check_and_time(title, partial(ours, *arrays), partial(numpys, *arrays), tolerance=tolerance)


def check_and_time(title: str, ours: Compute, numpys: Compute, *, tolerance: float) -> None:
    """Prints the largest error and both times. Exits with status 1 if the error exceeds `tolerance`."""
    check(title, ours(), numpys(), tolerance)
    our_time, numpy_time = median_times(ours, numpys)
    ratio = numpy_time / our_time
    print(f"{title}: {1e3 * our_time:.3f} ms, NumPy {1e3 * numpy_time:.3f} ms: {ratio:.2f} x NumPy's speed")


def check(title: str, actual: Any, expected: Any, tolerance: float) -> None:
    """Prints the largest error, of tuples that of all arrays in them. Exits with status 1 if it exceeds `tolerance`."""
    error = largest_error(actual, expected)
    print(f"{title}: max error {error:.1e} (at most {tolerance:.0e})")
    if not error <= tolerance:
        sys.exit(f"{title}: the results differ")


def largest_error(actual: Any, expected: Any) -> float:
    """`relative_error` of two arrays, or the largest one of two tuples of arrays."""
    if isinstance(expected, tuple):
        pairs = zip(cast("tuple[Array, ...]", actual), cast("tuple[Array, ...]", expected), strict=True)
        return max(relative_error(ours, theirs) for ours, theirs in pairs)
    return relative_error(actual, expected)


def relative_error(actual: Array, expected: Array) -> float:
    """The largest difference over the largest magnitude of `expected`; infinite where the shapes differ."""
    if actual.shape != expected.shape:
        return float("inf")
    if not expected.size:
        return 0.0
    wide = expected.astype(np.float64)
    return float(np.abs(actual.astype(np.float64) - wide).max() / (np.abs(wide).max() or 1.0))


def median_times(*computations: Callable[[], object], rounds: int = 3) -> list[float]:
    """The median seconds of a call of each. They take turns, so that a busy machine slows all of them alike."""
    return [statistics.median(taken) for taken in _times_in_turns(computations, rounds)]


def least_times(*computations: Callable[[], object], rounds: int = 5) -> list[float]:
    """The least seconds of a call of each, in turns: what a machine that others use too comes to when they rest."""
    return [min(taken) for taken in _times_in_turns(computations, rounds)]


def _times_in_turns(computations: Sequence[Callable[[], object]], rounds: int) -> list[list[float]]:
    seconds: list[list[float]] = [[] for _ in computations]
    for _ in range(rounds):
        for computation, taken in zip(computations, seconds):
            time.sleep(REST)
            computation()  # not timed: caches hold what the other side left
            taken += _spell(computation)
    return seconds


def _spell(computation: Callable[[], object]) -> list[float]:
    taken: list[float] = []
    end = time.perf_counter() + SPELL
    while len(taken) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        computation()
        taken.append(time.perf_counter() - start)
    return taken

"""Long straight programs for GPUs: the work of compiling and emulating grows with their length, the stack does not."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest

from tests.support.kernels.lowered_kernels import kernel_from_text
from tiledsl import Kernel, tile

SPEC = tile.spec((1000,), tile.f32)
STEPS = {
    "a chain": "v = v * 1.5 + 0.5",
    "values read twice": "v = 3.7 * v * (1.0 - v)",
    "values read twice, far apart": "w = w + v\n        v = v * 1.5 + 0.25",
    "casts": "v = (v * 1.5).to(tile.bf16).to(tile.f32)",
    "reshapes": "v = (v + 1.0).reshape((1, i)).reshape((i,))",
    "choices": "v = tile.where(v > 0.5, v * 0.5, v + 1.0)",
    "scalars": "s = s * 1.5 + 0.5",
    "sums": "v = v - tile.sum(v, axis=0) * 0.5",
}
ROOM = 210
"""Frames of Python that compiling may be deep, however long the program is."""


def program(step: str, count: int) -> Kernel:
    lines = "\n".join([f"        {step}"] * count)
    function = kernel_from_text(f"""
def long(x):
    N = x.shape[0]
    y = tile.empty(N, x.dtype)
    for i in tile.grid(N, block=64):
        v = x[i]
        w = v * 2.0
        s = x[0]
{lines}
        y[i] = v + w + s
    return y
""")
    return tile.kernel(function)


@contextmanager
def little_stack() -> Generator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + ROOM)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def calls_of(act: Callable[[], object]) -> Counter[str]:
    """How often each function of this package is called."""
    counts: Counter[CodeType] = Counter()

    def seen(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            counts[frame.f_code] += 1

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        act()
    finally:
        sys.setprofile(before)
    named: Counter[str] = Counter()
    for code, count in counts.items():
        if "tiledsl" in code.co_filename:
            named[f"{code.co_filename}:{code.co_firstlineno} {code.co_name}"] += count
    return named


@pytest.mark.parametrize("step", STEPS)
def test_compiling_takes_no_stack(step: str) -> None:
    program(STEPS[step], 1).compile(SPEC, arch="sm_90")  # what is imported late needs a stack too
    long = program(STEPS[step], 20 if step == "sums" else 120)
    with little_stack():
        assert long.compile(SPEC, arch="sm_90").cubin


@pytest.mark.parametrize("step", ["values read twice, far apart", "casts", "scalars", "sums"])
def test_compiling_grows_with_the_program(step: str) -> None:
    """Twice as many more steps take about twice as many more calls of every function."""
    few = 4 if step == "sums" else 10
    program(STEPS[step], 1).compile(SPEC, arch="sm_90")
    once, twice, thrice = (
        calls_of(lambda steps=steps: program(STEPS[step], steps).compile(SPEC, arch="sm_90"))
        for steps in (few, 2 * few, 4 * few)
    )
    assert [
        name for name, count in thrice.items() if count - twice[name] > 2.2 * (twice[name] - once[name]) + 100
    ] == []


def test_emulating_takes_no_stack() -> None:
    x = np.linspace(0, 1, 70, dtype=np.float32)
    program(STEPS["a chain"], 1).emulate(x, arch="sm_90")
    long = program("v = v * 0.5 + 0.5", 120)
    with little_stack():
        found = long.emulate(x, arch="sm_90")
    assert np.isfinite(found).all()

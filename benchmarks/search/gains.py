"""What searches gain outside of themselves: programs are tuned, and then measured by a process that knows nothing but
the database, tuned and untuned in turns."""

from __future__ import annotations

import importlib
import os
import re
import runpy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any
from unittest.mock import patch

import numpy as np

import tiledsl
from benchmarks.gpu.timing import Clock, CudaClock, State, in_turns
from benchmarks.zoo.__main__ import MOST_BYTES, argument_bytes, in_f32, smaller
from benchmarks.zoo.case import ZooCase
from benchmarks.zoo.cases import CASES
from tiledsl.autotune.records.database import Database
from tiledsl.autotune.records.upkeep import merge
from tiledsl.ir.dtypes import bf16, f8e4m3, f8e5m2, to_numpy
from tiledsl.runtime.arrays.compare_arrays import compare
from tiledsl.runtime.calls.outputs import as_tuple

GPU = "sm_90"
NARROW = {"bfloat16": bf16, "float8_e4m3fn": f8e4m3, "float8_e5m2": f8e5m2}
"""What NumPy has no own dtypes for, by PyTorch's names."""
LEAST = 1.01
"""How many times as fast a row is with what ships, measured apart from the search."""
ROUNDS = 40
"""Turns: memory and clocks that change for a while meet all contenders."""


@dataclass(frozen=True)
class Row:
    """A program: `fused` makes it, `arguments` what it is called with, on its device."""

    name: str
    fused: Callable[[], Any]
    arguments: Callable[[], Sequence[Any]]


def rows_of(only: Sequence[str], models: Sequence[str], arch: str) -> Iterator[Row]:
    """Rows of the zoo whose names contain one of some words, in f32 for a CPU; and whole models, `FILE.py:function`,
    whose function gives a graph and its arguments as NumPy arrays."""
    for case in CASES:
        if any(word in f"{case.family}: {case.name}" for word in only):
            yield row_of(in_f32(case) if arch == "cpu" else case, arch)
    for text in models:
        file, _, function = text.rpartition(":")
        graph, arrays = runpy.run_path(file)[function]()
        yield Row(text, lambda graph=graph: tiledsl.fuse(graph), lambda arrays=arrays: on_device(arrays, arch))


def row_of(case: ZooCase, arch: str) -> Row:
    """A row of the zoo; on a CPU with sizes for it."""
    sizes = dict(case.sizes)
    while arch == "cpu" and argument_bytes(case, sizes) > MOST_BYTES:
        sizes = smaller(case, sizes)
    name = f"{case.family}: {case.name}"
    return Row(name, lambda: case.fused(sizes), lambda: on_device(case.arrays(sizes), arch))


def on_device(arrays: Sequence[Any], arch: str) -> list[Any]:
    """The arrays where the program runs."""
    if arch == "cpu":
        return list(arrays)
    torch: Any = importlib.import_module("torch")
    return [torch.from_numpy(array).cuda() if array.dtype.kind != "V" else _narrow(torch, array) for array in arrays]


def _narrow(torch: Any, array: Any) -> Any:
    """bf16 and f8, which NumPy has no own dtypes for."""
    names = {"bfloat16": "bfloat16", "float8_e4m3fn": "float8_e4m3fn", "float8_e5m2": "float8_e5m2"}
    bits = torch.from_numpy(array.view(np.uint8)).cuda()
    return bits.view(getattr(torch, names[array.dtype.name]))


def tune(rows: Sequence[Row], arch: str, database: Path, seconds: float, trials: int) -> None:
    """Searches for each row, and prints what came of it."""
    for row in rows:
        started = time.perf_counter()
        report = tiledsl.tune(row.fused(), arch=arch, seconds=seconds, trials=trials, database=database)
        gains = ", ".join(f"{outcome.gain:.3f}" for outcome in report.outcomes)
        state = "done" if report.finished else "not finished"
        print(f"{row.name:60} {time.perf_counter() - started:7.2f} s  gains {gains}  {state}", flush=True)
        for outcome in report.outcomes:
            phases = ", ".join(f"{name} {part:.2f}" for name, part in outcome.phases.items())
            print(f"  {outcome.kernel}: {outcome.measured} plans in {outcome.seconds:.2f} s: {phases}", flush=True)


def folder_of(database: Path, row: Row) -> Path:
    """Where the searches of one row are kept, beside those of others."""
    return database / re.sub(r"[^a-z0-9]+", "-", row.name.lower()).strip("-")


def tune_apart(rows: Sequence[Row], arch: str, database: Path, seconds: float, trials: int, most: float) -> None:
    """Searches for each row, kept by themselves, for as long as there is time: `most` seconds for all."""
    end = time.perf_counter() + most
    for row in rows:
        if time.perf_counter() >= end:
            print(f"{row.name:60} there was no time left for it")
            continue
        tune([row], arch, folder_of(database, row), seconds, trials)


def confirmed(rows: Sequence[Row], arch: str, database: Path, into: Path, clock: Clock) -> int:
    """Copies the searches of those rows that are at least `LEAST` times as fast, measured again here: in a process that
    has searched for nothing. Gives how many rows these are."""
    kept = 0
    for row in rows:
        read = Database(folder_of(database, row))
        read.refresh()
        searches = [read.best(question) for question in read.entries.searches]
        if not any(search is not None and search.winner != search.pick for search in searches):
            continue
        one = measured(row, arch, read.folder, clock)
        print(f"{row.name:60} {one.ratio:7.3f} {one.noise:7.3f} {'confirmed' if one.is_confirmed else ''}", flush=True)
        if one.is_confirmed:
            merge(Database(into), [read])
            kept += 1
    return kept


class HostClock:
    """Times calls on the CPU."""

    def time(self, call: Callable[[], object], calls: int, *, state: State = "clean") -> list[float]:
        """As `Clock.time`; caches are as the call before left them."""
        del state
        found: list[float] = []
        for _ in range(calls):
            started = time.perf_counter()
            call()
            found.append(time.perf_counter() - started)
        return found


def clock_of(arch: str) -> Clock:
    return HostClock() if arch == "cpu" else CudaClock(importlib.import_module("torch"))


def measure(rows: Sequence[Row], arch: str, database: Path, clock: Clock) -> dict[str, float]:
    """How many times as fast as the model's plans the tuned ones are, by row; prints them, their mean and the least.
    Noise is the same between two builds of the model's plans: ratios that are no further from 1 say nothing.

    Raises ValueError where results differ.
    """
    ratios: dict[str, float] = {}
    print(f"{'us':60} {'untuned':>10} {'tuned':>10} {'ratio':>7} {'noise':>7}")
    for row in rows:
        one = measured(row, arch, database, clock)
        ratios[row.name] = one.ratio
        print(
            f"{row.name:60} {1e6 * one.before:10.2f} {1e6 * one.after:10.2f} {one.ratio:7.3f} {one.noise:7.3f}",
            flush=True,
        )
    if ratios:
        least = min(ratios, key=lambda name: ratios[name])
        print(f"geometric mean {geometric_mean(ratios.values()):.3f}; least {ratios[least]:.3f}: {least}")
    return ratios


@dataclass(frozen=True)
class Measured:
    """Seconds of a call, untuned and tuned. `noise`: how many times as fast as the first one the second of two equal
    builds is."""

    before: float
    after: float
    noise: float

    @property
    def ratio(self) -> float:
        return self.before / self.after

    @property
    def is_confirmed(self) -> bool:
        """Whether it is as much faster as what ships has to be, and as noise cannot be."""
        return self.ratio >= LEAST and self.ratio - 1 > 2 * abs(self.noise - 1)


def measured(row: Row, arch: str, database: Path, clock: Clock) -> Measured:
    """One row. Raises ValueError where results differ."""
    with patch.dict(os.environ, TILEDSL_TUNING="off"):
        untuned, again = row.fused().build(arch), row.fused().build(arch)
    tuned = row.fused().build(arch, tuning=database)
    arguments = row.arguments()
    calls: Mapping[str, Callable[[], Any]] = {
        "untuned": lambda m=untuned, a=arguments: m(*a),
        "tuned": lambda m=tuned, a=arguments: m(*a),
        "again": lambda m=again, a=arguments: m(*a),
    }
    _must_agree(row.name, calls["untuned"](), calls["tuned"]())
    times = in_turns(clock, calls, state="held", rounds=ROUNDS)
    return Measured(times["untuned"].median, times["tuned"].median, times["untuned"].median / times["again"].median)


def _must_agree(name: str, one: Any, other: Any) -> None:
    for first, second in zip(as_tuple(one), as_tuple(other)):
        figures = compare(_on_host(second), _on_host(first))
        if figures.wrong:
            raise ValueError(f"{name}: tuned and untuned results differ {figures}")


def _on_host(value: Any) -> Any:
    """As an array of its dtype: how far results may be apart is a matter of its digits."""
    if not hasattr(value, "cpu"):
        return value
    narrow = NARROW.get(str(value.dtype).removeprefix("torch."))
    return value.cpu().numpy() if narrow is None else value.float().cpu().numpy().astype(to_numpy(narrow))

"""Workloads whose plans are faults: what they do to a process and to results is real, and other processes open them."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tiledsl.autotune.measuring.cases import Case
from tiledsl.autotune.measuring.runner import Checked
from tiledsl.autotune.measuring.tensors import Tensor
from tiledsl.autotune.measuring.verify import Oracle, verify
from tiledsl.runtime.arrays.arrays import Array

F32: Any = np.dtype(np.float32)
CASE = Case(
    "given", {"N": 8}, (Tensor("x", "input", (8,), (1,), F32), Tensor("y", "result", (8,), (1,), F32)),
    (np.arange(8, dtype=np.float32),), (),
)  # fmt: skip


@dataclass(frozen=True)
class Faulty:
    """Doubles a vector, by plans that are named after what goes wrong with them. `opens`: whether it can be opened."""

    opens: str = "well"

    def open(self) -> FaultyBench:
        if self.opens == "error":
            raise ValueError("no such program")
        if self.opens == "crash":
            os.abort()
        if self.opens == "hang":
            time.sleep(1000)
        return FaultyBench()


@dataclass
class FaultyBench:
    """What a plan is called is what it does."""

    _runs: int = 0
    _timed: int = 0
    _seconds: dict[str, float] = field(default_factory=lambda: {"fast": 0.5e-6, "good": 1e-6})

    def prepare(self, *, others: bool = False) -> None:
        """The reference is there already."""

    def check(self, plan: str) -> Checked:
        return verify(
            [CASE], lambda case, arrays: self._execute(plan, arrays), Oracle(lambda case, arrays: double(arrays))
        )

    def confirm(self, plan: str) -> Checked:
        return self.check(plan)

    def ready(self, plans: Sequence[str]) -> None:
        for plan in plans:
            if plan == "crashes when made ready":
                segfault()
            if plan == "raises when made ready":
                raise RuntimeError("it cannot be")

    def seconds(self, plan: str) -> float:
        self._timed += 1
        if plan == "crashes when timed":
            segfault()
        if plan == "raises when timed":
            raise RuntimeError("it cannot be")
        if plan == "hangs when timed":
            time.sleep(1000)
        return self._seconds.get(plan, 1e-6)

    def _execute(self, plan: str, arrays: list[Array]) -> None:
        self._runs += 1
        if plan == "hangs":
            time.sleep(1000)
        if plan == "crashes":
            segfault()
        if plan == "exits":
            print("something was said before the end")
            os._exit(3)
        if plan == "raises":
            raise RuntimeError("it cannot be")
        double(arrays)
        if plan == "wrong":
            arrays[1][3] += 1
        if plan == "writes too little":
            arrays[1][7:] = np.nan
        if plan == "corrupts its inputs":
            arrays[0][0] = 5
        if plan == "racy":
            arrays[1][self._runs % 8] *= 1 + 1e-6


def double(arrays: list[Array]) -> None:
    np.multiply(arrays[0], 2, out=arrays[1])


def segfault() -> None:
    ctypes.string_at(0)

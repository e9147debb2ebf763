"""Arrays as they should be, made ready once to be held against the results of many plans."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tiledsl.ir.dtypes import from_numpy
from tiledsl.runtime.arrays.arrays import Array
from tiledsl.runtime.arrays.compare_arrays import ROUNDING, Figures, compare

MOST_KNOWN = 4
"""Results that are remembered as good: plans that sum in one order agree in every bit."""


@dataclass
class Wanted:
    """What one tensor should come to."""

    expected: Array
    partial: bool = False
    """Whether some of it is still poison: the reference did not come so far."""
    _good: list[tuple[Array, float]] = field(default_factory=list["tuple[Array, float]"])

    def difference(self, result: Array) -> float | Figures:
        """The worst difference as a part of the typical size; or the figures, where it is more than rounding explains.

        As `compare` has it, in a fraction of the time.
        """
        for known, relative in self._good:
            if same_bits(known, result):
                return relative
        relative = self._near(result)
        if relative is None:
            figures = compare(result, self.expected)
            if figures.wrong:
                return figures
            relative = figures.relative
        if len(self._good) < MOST_KNOWN:
            self._good.append((np.array(result), relative))
        return relative

    def complete(self, result: Array) -> float | Figures:
        """Holds what the model's pick gives against what is known, and takes the rest from it if it is right: plans
        have to agree with the reference where it was run, and with the pick everywhere."""
        unknown = _is_poison(self.expected)
        filled = Wanted(np.where(unknown, result, self.expected))
        found = filled.difference(result)
        if isinstance(found, float):
            self.expected, self.partial = filled.expected, False
        return found

    def _near(self, result: Array) -> float | None:
        """The difference, if all of it is within what rounding explains and all numbers are finite."""
        if self._limits is None:
            return None
        wide, limit, typical = self._limits
        with np.errstate(all="ignore"):
            wide_result: Any = result.astype(wide.dtype)
            apart: Any = np.abs(wide_result - wide)
            within: Any = apart <= limit
            if not within.all():
                return None
        return float(apart.max(initial=0.0)) / (typical or 1.0)

    @cached_property
    def _limits(self) -> tuple[Any, Any, float] | None:
        """What is expected as wide floats, how far each may be off, and the typical size; None where it is not as
        simple as that."""
        dtype = from_numpy(self.expected.dtype)
        part = 0.0 if dtype is None else ROUNDING.get(dtype.name, 0.0)
        finite: Any = np.isfinite(self.expected.astype(np.float64))
        if not part or not finite.all():
            return None
        wide: Any = np.float64 if self.expected.dtype.itemsize > 2 else np.float32
        want: Any = self.expected.astype(wide)
        squares: Any = want.astype(np.float64) ** 2
        typical = float(np.sqrt(squares.mean())) if want.size else 0.0
        return want, part * (np.abs(want) + wide(typical)), typical


def same_bits(one: Array, other: Array) -> bool:
    """Whether two arrays of one shape and dtype are the same in memory, NaN included."""
    first, second = _flat(one), _flat(other)
    size = first.nbytes
    kind = next(kind for kind in (np.uint64, np.uint32, np.uint16, np.uint8) if size % np.dtype(kind).itemsize == 0)
    return bool(np.array_equal(first.view(kind), second.view(kind)))


def _flat(array: Array) -> Any:
    whole: Any = np.ascontiguousarray(array)
    return whole.reshape(-1)


def _is_poison(array: Array) -> Any:
    """Where an array was never written."""
    whole: Any = np.ascontiguousarray(array)
    kind = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[array.dtype.itemsize]
    return whole.view(kind) == np.iinfo(kind).max

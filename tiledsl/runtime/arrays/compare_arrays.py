"""How far an array is from what the reference gives, and whether that is more than rounding explains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tiledsl.ir.dtypes import from_numpy
from tiledsl.runtime.arrays.arrays import Array

ROUNDING = {"f64": 1e-11, "f32": 1e-4, "f16": 1e-2, "bf16": 6e-2, "f8e4m3": 0.3, "f8e5m2": 0.6}
"""How far results may be from the reference, as a part of their size and of the typical size of all.

Sums are taken in another order and narrow dtypes round, several times perhaps; what is plainly wrong is far beyond.
"""


@dataclass(frozen=True)
class Figures:
    """`worst`: the largest difference between finite elements; `typical`: the root of the mean square of what is
    expected. `wrong` of `count` elements differ by more than rounding explains, the `first` of them at that place."""

    worst: float
    typical: float
    wrong: int
    count: int
    first: tuple[int, ...]
    actual: Any
    expected: Any

    @property
    def relative(self) -> float:
        """The worst difference as a part of the typical size."""
        return self.worst / self.typical if self.typical else self.worst

    def __str__(self) -> str:
        return (
            f"in {self.wrong} of {self.count} elements, first at {list(self.first)}: {self.actual}, not {self.expected}"
        )


def compare(actual: Array, expected: Array) -> Figures:
    """The figures of an array beside those that it should have; both have one shape."""
    dtype = from_numpy(expected.dtype)
    part = ROUNDING.get(dtype.name, 0.0) if dtype is not None else 0.0
    got, want = actual.astype(np.float64), expected.astype(np.float64)
    finite = want[np.isfinite(want)]
    typical = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
    with np.errstate(invalid="ignore"):
        apart = np.abs(got - want)
        near = apart <= part * (np.abs(np.where(np.isfinite(want), want, 0)) + typical)
    same = (actual == expected) | (np.isnan(got) & np.isnan(want)) | (near & bool(part))
    measured = apart[np.isfinite(apart)]
    worst = float(measured.max()) if measured.size else 0.0
    places = np.argwhere(~same)
    first = tuple(int(i) for i in places[0]) if len(places) else ()
    at = (actual[first], expected[first]) if len(places) else (None, None)
    return Figures(worst, typical, len(places), int(same.size), first, *at)

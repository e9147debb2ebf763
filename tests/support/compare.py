"""Comparing arrays, with tolerances that follow from the dtype."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

RELATIVE = {
    "float64": 1e-12,
    "float32": 1e-5,
    "float16": 2e-3,
    "bfloat16": 1.6e-2,
    "float8_e4m3fn": 0.13,
    "float8_e5m2": 0.26,
}
"""About four units in the last place for wide floats, and two for narrow ones; integers must be equal."""


def assert_close(
    actual: npt.ArrayLike,
    expected: npt.ArrayLike,
    *,
    relative: float | None = None,
    absolute: float | None = None,
    terms: int = 1,
) -> None:
    """Fails unless the arrays have one shape and dtype and `|actual - expected| <= absolute + relative * |expected|`.

    The tolerances default to those of the dtype (`absolute` to `relative`, as for numbers around 1). For sums of
    `terms` addends rounding grows like their square root, and so do the defaults. NaN is close to NaN, an infinity
    to itself; integers and bools are compared exactly. The message shows the worst element.
    """
    got: npt.NDArray[Any] = np.asarray(actual)
    want: npt.NDArray[Any] = np.asarray(expected)
    assert got.dtype == want.dtype, f"dtype is {got.dtype}, expected {want.dtype}"
    assert got.shape == want.shape, f"shape is {got.shape}, expected {want.shape}"
    name = str(want.dtype)
    wide_got, wide_want = got.astype(np.float64), want.astype(np.float64)
    if name not in RELATIVE:
        relative = absolute = 0.0
        difference = np.maximum(_difference(wide_got, wide_want), np.asarray(got != want, np.float64))
    else:
        relative = RELATIVE[name] * math.sqrt(terms) if relative is None else relative
        absolute = relative if absolute is None else absolute
        difference = _difference(wide_got, wide_want)
    magnitude = np.where(np.isfinite(wide_want), np.abs(wide_want), 0.0)
    allowed = absolute + relative * magnitude
    wrong = difference > allowed
    if wrong.any():
        excess = np.where(wrong, difference - allowed, -1.0)
        worst = tuple(int(i) for i in np.unravel_index(int(np.argmax(excess)), excess.shape))
        raise AssertionError(
            f"{np.count_nonzero(wrong)} of {wrong.size} elements of {name}{list(want.shape)} differ; worst at "
            f"{list(worst)}: {got[worst]}, expected {want[worst]} (difference {difference[worst]:.3g}, "
            f"allowed {allowed[worst]:.3g})"
        )


def _difference(got: npt.NDArray[np.float64], want: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """|got - want|; 0 where both are NaN or the same infinity, infinite where only one is."""
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(invalid="ignore"):
        difference = np.abs(got - want)
    return np.where(same, 0.0, np.where(np.isnan(difference), np.inf, difference))

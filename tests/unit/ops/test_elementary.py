"""Trigonometric and hyperbolic functions against NumPy in f64."""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl
from tiledsl import ops

LARGE = [0.0, 1e-30, 1e-8, 1e-4, 0.1, 0.49, 0.5, 0.99, 1.0, 1.5, 3.0, 20.0, 88.9, 1e5, 1e20, 3e38, np.inf]
SMALL = [0.0, 1e-30, 1e-8, 1e-4, 0.1, 0.5, 0.9, 0.999999, 1.0]
POINTS = {
    "tan": [0.1, 0.7, 1.5, 3.0], "sinh": LARGE, "cosh": LARGE, "atan": LARGE, "asinh": LARGE, "acosh": LARGE,
    "asin": [*SMALL, 1.5], "acos": [*SMALL, 1.5], "atanh": SMALL,
}  # fmt: skip
NUMPY = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh"}


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 3e-15)])
def test_they_are_numpys(dtype: Any, tolerance: float) -> None:
    def all_of_them(points: dict[str, Any]) -> Any:
        return {name: getattr(ops, name)(x) for name, x in points.items()}

    points = {name: np.array([*(-np.array(x)), *x], dtype) for name, x in POINTS.items()}
    found = tiledsl.fuse(tiledsl.trace(all_of_them, points)).build("cpu")(points)
    with np.errstate(all="ignore"):
        for name, x in points.items():
            expected = getattr(np, NUMPY.get(name, "arctanh" if name == "atanh" else name))(x.astype(np.float64))
            np.testing.assert_allclose(found[name], expected.astype(dtype), tolerance, err_msg=name)

"""Functions made by arithmetic are right to a few units in the last place, compared with more digits."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownLambdaType=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiledsl
from tiledsl import tile

scipy = pytest.importorskip("scipy.special")

Array = np.ndarray[Any, Any]


def numbers(low: float, high: float) -> Array:
    """Some of each order of magnitude within bounds, evenly and by logarithm."""
    even = np.linspace(low, high, 801)
    small = np.geomspace(1e-30, max(abs(low), abs(high)), 400)
    both = np.concatenate([even, small, -small, [low, high, 0.0]])
    return both[(both >= low) & (both <= high)]


CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[float, float], float]] = {
    "tan": (tile.tan, np.tan, (-1.5, 1.5), 4),
    "asin": (tile.asin, np.arcsin, (-1, 1), 4),
    "acos": (tile.acos, np.arccos, (-1, 1), 4),
    "atan": (tile.atan, np.arctan, (-1e6, 1e6), 3),
    "sinh": (tile.sinh, np.sinh, (-88, 88), 6),
    "cosh": (tile.cosh, np.cosh, (-88, 88), 6),
    "asinh": (tile.asinh, np.arcsinh, (-1e15, 1e15), 5),
    "acosh": (tile.acosh, np.arccosh, (1, 1e15), 5),
    "atanh": (tile.atanh, np.arctanh, (-0.999, 0.999), 6),
    "expm1": (tile.expm1, np.expm1, (-80, 80), 5),
    "log1p": (tile.log1p, np.log1p, (-0.999, 1e6), 5),
    "log10": (tile.log10, np.log10, (1e-30, 1e6), 4),
    "erfc": (tile.erfc, np.vectorize(math.erfc), (-5, 9), 5),
    "erfinv": (tile.erfinv, scipy.erfinv, (-0.9999, 0.9999), 5),
}


def both_ways(word: Callable[..., Any], *arrays: Array) -> list[Array]:
    """By the reference, and compiled for the CPU."""
    graph = tiledsl.trace(word, *arrays)
    return [graph(*arrays), tiledsl.fuse(graph).build("cpu")(*arrays)]


def off_by(result: Array, exact: Array) -> float:
    """The largest distance in units in the last place."""
    unit = np.spacing(np.abs(exact).astype(result.dtype)).astype(exact.dtype)
    return float(np.max(np.abs(result.astype(exact.dtype) - exact) / unit))


@pytest.mark.parametrize("name", CASES)
def test_some_units_in_the_last_place(name: str) -> None:
    word, exact, bounds, units = CASES[name]
    with np.errstate(all="ignore"):
        for dtype, wider in ((np.float32, np.float64), (np.float64, np.longdouble)):
            x = numbers(*bounds).astype(dtype)
            special = name.startswith("erf")  # SciPy has these in f64 alone
            wanted = exact(x if special and dtype == np.float64 else x.astype(wider)).astype(wider)
            for result in both_ways(word, x):
                assert off_by(result, wanted) <= units, dtype


def test_gamma() -> None:
    x = np.concatenate([numbers(1e-6, 200), numbers(-9.9, 0) + 0.037]).astype(np.float64)
    x = x[np.abs(x - np.round(x)) > 1e-3]
    for dtype, relative in ((np.float32, 3e-6), (np.float64, 4e-14)):
        given = x.astype(dtype)
        for word, exact in ((tile.lgamma, scipy.gammaln), (tile.digamma, scipy.digamma)):
            wanted = exact(given.astype(np.float64))
            for result in both_ways(word, given):
                assert np.all(np.abs(result - wanted) <= relative * np.maximum(np.abs(wanted), 1.0) * 10)


EDGES = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.5, -2.5, 1e-40, 3e38], np.float32)


@pytest.mark.parametrize(
    ("word", "exact"),
    [
        (tile.tan, np.tan), (tile.asin, np.arcsin), (tile.acos, np.arccos), (tile.atan, np.arctan),
        (tile.sinh, np.sinh), (tile.cosh, np.cosh), (tile.asinh, np.arcsinh), (tile.acosh, np.arccosh),
        (tile.atanh, np.arctanh), (tile.expm1, np.expm1), (tile.log1p, np.log1p), (tile.log10, np.log10),
        (tile.erfc, scipy.erfc), (tile.erfinv, scipy.erfinv), (tile.lgamma, np.vectorize(math.lgamma)),
        (tile.sign, np.sign), (tile.trunc, np.trunc), (tile.isnan, np.isnan), (tile.isinf, np.isinf),
        (tile.isfinite, np.isfinite), (tile.logical_not, np.logical_not),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)  # fmt: skip
def test_edges(word: Callable[..., Any], exact: Callable[..., Any]) -> None:
    x = EDGES if word is not tile.lgamma else EDGES[[2, 3, 4, 5, 6, 7, 8]]
    with np.errstate(all="ignore"):
        wanted = (
            exact(x)
            if word is not tile.lgamma
            else np.array([0, np.inf, np.inf, np.inf, np.nan, 0.2846829, -0.0562437])
        )
        for result in both_ways(word, x):
            kept = wanted.astype(result.dtype)
            large = np.abs(x) < 1e38 if word is tile.tan else np.full(x.shape, True)
            assert np.allclose(
                result[large], kept[large], rtol=1e-6, atol=2e-6 if word is tile.lgamma else 1e-7, equal_nan=True
            )
            if result.dtype.kind == "f" and word not in (tile.lgamma, tile.sign, tile.erfinv):
                zeros = (kept == 0) & large
                assert np.array_equal(np.signbit(result[zeros]), np.signbit(kept[zeros]))


def test_digamma_at_its_poles() -> None:
    x = np.array([0.0, -1.0, -2.0, np.inf, np.nan], np.float32)
    with np.errstate(all="ignore"):
        for result in both_ways(tile.digamma, x):
            assert np.array_equal(result, [-np.inf, np.nan, np.nan, np.inf, np.nan], equal_nan=True)


OF_TWO: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (tile.atan2, np.arctan2), (tile.fmod, np.fmod), (tile.copysign, np.copysign), (tile.logaddexp, np.logaddexp),
    (tile.logical_and, np.logical_and), (tile.logical_or, np.logical_or), (tile.logical_xor, np.logical_xor),
]  # fmt: skip


@pytest.mark.parametrize(("word", "exact"), OF_TWO, ids=lambda v: getattr(v, "__name__", ""))
def test_of_two(word: Callable[..., Any], exact: Callable[..., Any]) -> None:
    values = np.array([0.0, -0.0, 1.0, -1.0, 0.3, -7.25, 1e5, np.inf, -np.inf, np.nan], np.float32)
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        wanted = exact(x, y)
        for result in both_ways(word, x, y):
            assert result.dtype == wanted.dtype
            assert np.allclose(result, wanted, rtol=3e-7, atol=0, equal_nan=True)
            if word in (tile.atan2, tile.copysign):
                here = wanted == 0
                assert np.array_equal(np.signbit(result[here]), np.signbit(wanted[here]))


def test_integers() -> None:
    x = np.array([7, -7, 7, -7, 0, -128], np.int8)
    y = np.array([3, 3, -3, -3, 5, 7], np.int8)
    for result in both_ways(lambda x, y: tile.fmod(x, y), x, y):
        assert result.dtype == np.int8
        assert result.tolist() == np.fmod(x, y).tolist()
    for result in both_ways(lambda x: tile.sign(x) + tile.trunc(x) * 0, x):
        assert result.tolist() == np.sign(x).tolist()
    for word, wanted in ((tile.isnan, False), (tile.isinf, False), (tile.isfinite, True)):
        for result in both_ways(lambda x, word=word: word(x), x):
            assert result.tolist() == [wanted] * 6
    unsigned = np.array([0, 3, 255], np.uint8)
    for result in both_ways(lambda x: tile.sign(x) + tile.fmod(x, 2), unsigned):
        assert result.tolist() == [0, 2, 2]


def test_narrow_floats_are_rounded_once() -> None:
    x = np.linspace(-0.9, 0.9, 60).astype(np.float16)
    for result in both_ways(tile.atanh, x):
        assert np.array_equal(result, np.arctanh(x.astype(np.float64)).astype(np.float16))

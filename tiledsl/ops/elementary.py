"""Trigonometric and hyperbolic functions and their inverses, of each element.

All take a tensor of any shape and give one of the same shape. Narrow floats are computed in f32 and rounded once;
integers become the float that NumPy gives for them.
"""

from __future__ import annotations

import math
from typing import Any

from tiledsl import tile
from tiledsl.ops.checks import as_tensor, float_dtype, widened


@tile.kernel
def tan(x: Any) -> Any:
    """sin(x) / cos(x)."""
    x = as_tensor(x)
    wide = widened(x)
    return (tile.sin(wide) / tile.cos(wide)).to(float_dtype(x))


@tile.kernel
def sinh(x: Any) -> Any:
    """(exp(x) - exp(-x)) / 2."""
    x = as_tensor(x)
    wide = widened(x)
    size = tile.abs(wide)
    half = _half_of_exp(size)
    large = half - 0.25 / half
    square = wide * wide
    # x + x^3 / 6 + ...: near 0 the two exponentials would cancel
    series: Any = 1.0
    for n in (156, 110, 72, 42, 20, 6):
        series = 1.0 + square / float(n) * series
    small = wide * series
    return tile.where(size < 0.5, small, tile.where(wide < 0, -large, large)).to(float_dtype(x))


@tile.kernel
def cosh(x: Any) -> Any:
    """(exp(x) + exp(-x)) / 2."""
    x = as_tensor(x)
    half = _half_of_exp(tile.abs(widened(x)))
    return (half + 0.25 / half).to(float_dtype(x))


def _half_of_exp(x: Any) -> Any:
    """exp(x) / 2, which is finite where exp(x) may no longer be."""
    root = tile.exp(x * 0.5)
    return root * 0.5 * root


@tile.kernel
def atan(x: Any) -> Any:
    """The angle between -pi / 2 and pi / 2 whose tangent is x."""
    x = as_tensor(x)
    return _angle(widened(x), 1.0).to(float_dtype(x))


@tile.kernel
def asin(x: Any) -> Any:
    """The angle between -pi / 2 and pi / 2 whose sine is x; NaN where |x| > 1."""
    x = as_tensor(x)
    wide = widened(x)
    return _angle(wide, tile.sqrt((1.0 - wide) * (1.0 + wide))).to(float_dtype(x))


@tile.kernel
def acos(x: Any) -> Any:
    """The angle between 0 and pi whose cosine is x; NaN where |x| > 1."""
    x = as_tensor(x)
    wide = widened(x)
    return (2.0 * _angle(tile.sqrt(1.0 - wide), tile.sqrt(1.0 + wide))).to(float_dtype(x))


def _angle(y: Any, x: Any) -> Any:
    """The angle of the point (x, y), with x >= 0.

    Each step halves the angle, tan(a / 2) = y / (x + sqrt(x^2 + y^2)), until few terms of the series are enough. The
    point is scaled to size 1 first, so that no square overflows.
    """
    size = tile.maximum(tile.abs(y), x)
    unbounded = tile.abs(y) == math.inf
    small, large = y / size, x / size
    small = tile.where(unbounded, tile.where(y < 0, -1.0, 1.0), tile.where(size == 0, y, small))
    large = tile.where(unbounded, 0.0, tile.where(size == 0, 1.0, large))
    tangent = small / (large + tile.sqrt(large * large + small * small))
    for _ in range(2):
        tangent = tangent / (1.0 + tile.sqrt(1.0 + tangent * tangent))
    square = tangent * tangent
    series = 1.0 / 19
    for n in (17, 15, 13, 11, 9, 7, 5, 3, 1):
        series = 1.0 / n - square * series
    return tangent * series * 8.0


@tile.kernel
def asinh(x: Any) -> Any:
    """log(x + sqrt(x^2 + 1)), the inverse of sinh."""
    x = as_tensor(x)
    wide = widened(x)
    size = tile.abs(wide)
    # for large x: log(2 * x); its square may overflow
    capped = tile.minimum(size, 1e9)
    extra = capped * capped / (1.0 + tile.sqrt(capped * capped + 1.0))
    result = tile.where(size > 1e9, tile.log(size) + math.log(2.0), _log1p(capped + extra))
    return tile.where(wide < 0, -result, result).to(float_dtype(x))


@tile.kernel
def acosh(x: Any) -> Any:
    """log(x + sqrt(x^2 - 1)), the inverse of cosh; NaN where x < 1."""
    x = as_tensor(x)
    wide = widened(x)
    above = tile.minimum(wide, 1e9) - 1.0
    near = _log1p(above + tile.sqrt(above) * tile.sqrt(above + 2.0))
    return tile.where(wide > 1e9, tile.log(wide) + math.log(2.0), near).to(float_dtype(x))


@tile.kernel
def atanh(x: Any) -> Any:
    """log((1 + x) / (1 - x)) / 2, the inverse of tanh; NaN where |x| > 1."""
    x = as_tensor(x)
    wide = widened(x)
    size = tile.abs(wide)
    result = 0.5 * _log1p(2.0 * size / (1.0 - size))
    return tile.where(wide < 0, -result, result).to(float_dtype(x))


def _log1p(x: Any) -> Any:
    """log(1 + x) of x >= 0, exact near 0: the rounding of 1 + x is made good by the quotient."""
    one_more = 1.0 + x
    kept = one_more - 1.0
    return tile.where(kept == 0, x, tile.where(x == math.inf, x, tile.log(one_more) * (x / kept)))

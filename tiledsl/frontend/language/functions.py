"""Further elementwise words of the language, in tile form and in formulas: NumPy's, and some of SciPy.

Each is a stub, as in `language.math`, and made of the functions there (`language.special`). Unless it says otherwise a
function is right to a few units in the last place.
"""

from __future__ import annotations

from tiledsl.frontend.language.active_trace import word
from tiledsl.frontend.language.values import Tile, TileLike, kernel_only


@word
def tan(x: TileLike) -> Tile:
    """The tangent of `x` in radians. *float*"""
    kernel_only("tan", "numpy.tan")


@word
def asin(x: TileLike) -> Tile:
    """The angle from -pi/2 to pi/2 whose sine is `x`; NaN beyond 1. *float*"""
    kernel_only("asin", "numpy.arcsin")


@word
def acos(x: TileLike) -> Tile:
    """The angle from 0 to pi whose cosine is `x`; NaN beyond 1. *float*"""
    kernel_only("acos", "numpy.arccos")


@word
def atan(x: TileLike) -> Tile:
    """The angle from -pi/2 to pi/2 whose tangent is `x`. *float*"""
    kernel_only("atan", "numpy.arctan")


@word
def atan2(y: TileLike, x: TileLike) -> Tile:
    """The angle from -pi to pi of the point (x, y). *float*"""
    kernel_only("atan2", "numpy.arctan2")


@word
def sinh(x: TileLike) -> Tile:
    """(exp(x) - exp(-x)) / 2. *float*"""
    kernel_only("sinh", "numpy.sinh")


@word
def cosh(x: TileLike) -> Tile:
    """(exp(x) + exp(-x)) / 2. *float*"""
    kernel_only("cosh", "numpy.cosh")


@word
def asinh(x: TileLike) -> Tile:
    """The number whose hyperbolic sine is `x`. *float*"""
    kernel_only("asinh", "numpy.arcsinh")


@word
def acosh(x: TileLike) -> Tile:
    """The number from 0 on whose hyperbolic cosine is `x`; NaN below 1. *float*"""
    kernel_only("acosh", "numpy.arccosh")


@word
def atanh(x: TileLike) -> Tile:
    """The number whose hyperbolic tangent is `x`; NaN beyond 1. *float*"""
    kernel_only("atanh", "numpy.arctanh")


@word
def expm1(x: TileLike) -> Tile:
    """exp(x) - 1, accurate near 0. *float*"""
    kernel_only("expm1", "numpy.expm1")


@word
def log1p(x: TileLike) -> Tile:
    """log(1 + x), accurate near 0. *float*"""
    kernel_only("log1p", "numpy.log1p")


@word
def log10(x: TileLike) -> Tile:
    """The logarithm to base 10. *float*"""
    kernel_only("log10", "numpy.log10")


@word
def logaddexp(x: TileLike, y: TileLike) -> Tile:
    """log(exp(x) + exp(y)), without overflow. *float*"""
    kernel_only("logaddexp", "numpy.logaddexp")


@word
def erfc(x: TileLike) -> Tile:
    """1 - erf(x), accurate where that is small. *float*"""
    kernel_only("erfc", "math.erfc")


@word
def erfinv(x: TileLike) -> Tile:
    """The number whose error function is `x`; NaN beyond 1. *float*"""
    kernel_only("erfinv", "scipy.special.erfinv")


@word
def lgamma(x: TileLike) -> Tile:
    """The logarithm of the absolute value of the gamma function. *float*

    Off by some units in the last place of 10, so not accurate to the last digit near its zeros.
    """
    kernel_only("lgamma", "math.lgamma")


@word
def digamma(x: TileLike) -> Tile:
    """The derivative of `lgamma`. NaN at -1, -2 ..., -inf at 0. *float*"""
    kernel_only("digamma", "scipy.special.digamma")


@word
def fmod(x: TileLike, y: TileLike) -> Tile:
    """What is left of `x` after whole multiples of `y`, with the sign of `x`; `%` has that of `y`. Keeps the dtype."""
    kernel_only("fmod", "numpy.fmod")


@word
def copysign(x: TileLike, y: TileLike) -> Tile:
    """The absolute value of `x` with the sign of `y`, which a zero has too. *float*"""
    kernel_only("copysign", "numpy.copysign")


@word
def sign(x: TileLike) -> Tile:
    """-1, 0 or 1, or NaN; keeps the dtype."""
    kernel_only("sign", "numpy.sign")


@word
def trunc(x: TileLike) -> Tile:
    """Rounds towards 0; keeps the dtype."""
    kernel_only("trunc", "numpy.trunc")


@word
def isnan(x: TileLike) -> Tile:
    """Whether `x` is NaN. Gives bool."""
    kernel_only("isnan", "numpy.isnan")


@word
def isinf(x: TileLike) -> Tile:
    """Whether `x` is inf or -inf. Gives bool."""
    kernel_only("isinf", "numpy.isinf")


@word
def isfinite(x: TileLike) -> Tile:
    """Whether `x` is neither NaN nor infinite. Gives bool."""
    kernel_only("isfinite", "numpy.isfinite")


@word
def logical_and(x: TileLike, y: TileLike) -> Tile:
    """Whether both are true (not 0). Gives bool."""
    kernel_only("logical_and", "numpy.logical_and")


@word
def logical_or(x: TileLike, y: TileLike) -> Tile:
    """Whether one of both is true (not 0). Gives bool."""
    kernel_only("logical_or", "numpy.logical_or")


@word
def logical_xor(x: TileLike, y: TileLike) -> Tile:
    """Whether just one of both is true (not 0). Gives bool."""
    kernel_only("logical_xor", "numpy.logical_xor")


@word
def logical_not(x: TileLike) -> Tile:
    """Whether `x` is 0. Gives bool."""
    kernel_only("logical_not", "numpy.logical_not")

"""Functions that are made of the language's scalar functions by arithmetic: inverse and hyperbolic ones, logarithms
near 1, the error function's and the gamma function's relatives, tests and signs.

Each is a formula of `Term`s, which compute in the dtype that the operands have once narrow floats are f32. Polynomials
are Chebyshev fits of that accuracy, the constant term first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, cast

from tiledsl.frontend.language import functions as language
from tiledsl.frontend.language.composites import apply, elementwise, in_compute_dtype, rounded, truth, where
from tiledsl.frontend.language.promotion import float_for, promote_all
from tiledsl.frontend.language.steps import Steps, V
from tiledsl.ir.dtypes import bool_, compute_dtype, f64

_ATAN_F32 = (
    0.999999999367698, -0.3333330677111068, 0.19998176466108397, -0.14239410856830653, 0.10568920783713333,
    -0.060239631775997365,
)  # fmt: skip
_ATAN_F64 = (
    1.0, -0.3333333333333312, 0.1999999999994035, -0.14285714279197312, 0.11111110742286896,
    -0.0909089673297879, 0.0769204396500265, -0.06662936116136517, 0.058467627400560856, -0.05034575594522044,
    0.03795171422296338, -0.017790395523288063,
)  # fmt: skip
"""atan(z) / z by z * z, for z up to tan(pi / 8)."""
_ERFC_F32 = (
    1.253008044150494, -0.13562115446005002, -0.04756108133756665, 0.12964612203308334, -0.1192907644983466,
    0.06830648987779364, -0.023683902522647036, 0.0025020174764838698, 0.0017049559844900752,
    -0.0006678357410415021, 3.6265670480373715e-05,
)  # fmt: skip
_ERFC_F64 = (
    1.2530080582697296, -0.1356211061245817, -0.0475622943534571, 0.12964515870282672, -0.11927366341492666,
    0.06830802734148166, -0.023770514927307543, 0.002529391860413148, 0.0018886904549149965,
    -0.0007798327144878937, -0.00010516036691941479, 0.00012510204965000544, 4.951246766427832e-06,
    -2.01109956856979e-05, -7.334500023711382e-07, 3.498025292870223e-06, 3.524226023162574e-07,
    -6.551721540776487e-07, -1.237777117349052e-07, 1.3376611832429944e-07, 1.841441031767194e-08,
    -2.36472213710538e-08, 3.4857616598855605e-09,
)  # fmt: skip
"""exp(x * x) * erfc(x) * (1 + 2 * x) by (x - 3) / (x + 3), for x from 1 / 2 on."""
_LGAMMA = (
    1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400,
)  # fmt: skip
"""Stirling's series: lgamma(z) - (z - 1 / 2) * log(z) + z - log(2 * pi) / 2, times z, by 1 / z^2."""
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
"""log(z) - 1 / (2 * z) - digamma(z), times z^2, by 1 / z^2."""
_SHIFT = 8
"""Both series are read from here on."""


class Term(Generic[V]):
    """An operand in a formula of Python's operators."""

    def __init__(self, steps: Steps[V], value: V) -> None:
        self.steps = steps
        self.value = value

    def of(self, fn: str, *others: Term[V] | float) -> Term[V]:
        """A scalar function of this and others."""
        given = [self.value, *(self._value(other) for other in others)]
        return Term(self.steps, elementwise(self.steps, fn, *given))

    def _value(self, other: Term[V] | float) -> V:
        return other.value if isinstance(other, Term) else self.steps.number(self.value, other)

    def __add__(self, other: Term[V] | float) -> Term[V]:
        return self.of("add", other)

    def __sub__(self, other: Term[V] | float) -> Term[V]:
        return self.of("sub", other)

    def __mul__(self, other: Term[V] | float) -> Term[V]:
        return self.of("mul", other)

    def __truediv__(self, other: Term[V] | float) -> Term[V]:
        return self.of("div", other)

    def __rsub__(self, other: float) -> Term[V]:
        return Term(self.steps, elementwise(self.steps, "sub", self._value(other), self.value))

    def __rtruediv__(self, other: float) -> Term[V]:
        return Term(self.steps, elementwise(self.steps, "div", self._value(other), self.value))

    def __neg__(self) -> Term[V]:
        return self.of("neg")

    def __lt__(self, other: Term[V] | float) -> Term[V]:
        return self.of("lt", other)

    def __le__(self, other: Term[V] | float) -> Term[V]:
        return self.of("le", other)

    def __gt__(self, other: Term[V] | float) -> Term[V]:
        return self.of("gt", other)

    def __ge__(self, other: Term[V] | float) -> Term[V]:
        return self.of("ge", other)

    def __and__(self, other: Term[V]) -> Term[V]:
        return self.of("and", other)

    def __or__(self, other: Term[V]) -> Term[V]:
        return self.of("or", other)

    def equals(self, other: Term[V] | float) -> Term[V]:
        """Whether both are equal."""
        return self.of("eq", other)

    def then(self, yes: Term[V] | float, no: Term[V] | float) -> Term[V]:
        """One of two, by this condition."""
        return Term(self.steps, where(self.steps, self.value, self._value(yes), self._value(no)))

    @property
    def is_wide(self) -> bool:
        """Whether the formula computes in f64."""
        return self.steps.strength(self.value).dtype == f64

    def polynomial(self, terms: Sequence[float]) -> Term[V]:
        """The sum of terms[i] * self ** i, by fused multiplications and additions from the last on."""
        total: Term[V] | float = terms[-1]
        for term in reversed(terms[:-1]):
            total = self.of("fma", total, term)
        assert isinstance(total, Term)
        return total


def _abs(x: Term[V]) -> Term[V]:
    return x.of("abs")


def _exp(x: Term[V]) -> Term[V]:
    return x.of("exp")


def _log(x: Term[V]) -> Term[V]:
    return x.of("log")


def _sqrt(x: Term[V]) -> Term[V]:
    return x.of("sqrt")


def _is_negative(x: Term[V]) -> Term[V]:
    """Whether there is a minus sign: also that of a zero."""
    return (x < 0.0) | (x.equals(0.0) & ((1.0 / x) < 0.0))


def _signed(size: Term[V], x: Term[V]) -> Term[V]:
    """`size`, which is not negative, with the sign of `x`; a zero stays what it is."""
    return x.equals(0.0).then(x, (x < 0.0).then(-size, size))


def _tan(x: Term[V]) -> Term[V]:
    return x.of("sin") / x.of("cos")


def _atan(x: Term[V]) -> Term[V]:
    """# atan(t) = pi/2 - atan(1/t), atan(t) = pi/4 + atan((t - 1) / (t + 1))"""
    size = _abs(x)
    large = size > 1.0
    small = large.then(1.0 / size, size)
    middle = small > math.tan(math.pi / 8)
    near = middle.then((small - 1.0) / (small + 1.0), small)
    series = (near * near).polynomial(_ATAN_F64 if x.is_wide else _ATAN_F32) * near
    angle = middle.then(series + math.pi / 4, series)
    return _signed(large.then(math.pi / 2 - angle, angle), x)


def _atan2(y: Term[V], x: Term[V]) -> Term[V]:
    high, wide = _abs(y), _abs(x)
    steep = high > wide
    small, large = steep.then(wide, high), steep.then(high, wide)
    # 0 / 0 is 0 and inf / inf is 1, by the signs alone
    share = small.equals(large).then(large.equals(0.0).then(large, 1.0), small / large)
    share = (x.of("ne", x) | y.of("ne", y)).then(x + y, share)
    angle = _atan(share)
    angle = steep.then(math.pi / 2 - angle, angle)
    angle = _is_negative(x).then(math.pi - angle, angle)
    return _is_negative(y).then(-angle, angle)


def _asin(x: Term[V]) -> Term[V]:
    return _atan(x / _sqrt((1.0 - x) * (x + 1.0)))


def _acos(x: Term[V]) -> Term[V]:
    return _atan(_sqrt((1.0 - x) / (x + 1.0))) * 2.0


def _expm1(x: Term[V]) -> Term[V]:
    """# the rounding of u = exp(x) divides out of (u - 1) / log(u), so (u - 1) * x / log(u)"""
    u = _exp(x)
    near = u.equals(1.0).then(x, (u - 1.0) * (x / _log(u)))
    return (_abs(x) > 0.5).then(u - 1.0, near)


def _log1p(x: Term[V]) -> Term[V]:
    """# the rounding of u = 1 + x divides out of log(u) / (u - 1), so log(u) * x / (u - 1)"""
    u = x + 1.0
    near = u.equals(1.0).then(x, _log(u) * (x / (u - 1.0)))
    return x.equals(math.inf).then(x, near)


def _log10(x: Term[V]) -> Term[V]:
    return _log(x) * (1.0 / math.log(10.0))


def _sinh(x: Term[V]) -> Term[V]:
    size = _abs(x)
    less = _expm1(size)
    half = _exp(size * 0.5)
    return _signed((size > 20.0).then(half * 0.5 * half, (less + less / (less + 1.0)) * 0.5), x)


def _cosh(x: Term[V]) -> Term[V]:
    half = _exp(_abs(x) * 0.5)
    return half * 0.5 * half + 0.5 / half / half


def _asinh(x: Term[V]) -> Term[V]:
    size = _abs(x)
    square = size * size
    near = _log1p(size + square / (_sqrt(square + 1.0) + 1.0))
    return _signed((size > 1e9).then(_log(size) + math.log(2.0), near), x)


def _acosh(x: Term[V]) -> Term[V]:
    over = x - 1.0
    near = _log1p(over + _sqrt(over * 2.0 + over * over))
    return (x > 1e9).then(_log(x) + math.log(2.0), near)


def _atanh(x: Term[V]) -> Term[V]:
    size = _abs(x)
    return _signed(_log1p(size * 2.0 / (1.0 - size)) * 0.5, x)


def _logaddexp(x: Term[V], y: Term[V]) -> Term[V]:
    high, low = x.of("maximum", y), x.of("minimum", y)
    apart = high.equals(low).then(0.0, low - high)  # two infinities of one sign
    return high + _log1p(_exp(apart))


def _erfc(x: Term[V]) -> Term[V]:
    """# exp(-x^2) * f(x), where the square is as if it had twice the digits"""
    size = x.of("maximum", 0.5).of("minimum", 30.0)
    square = size * size
    left = size.of("fma", size, -square)
    place = (size - 3.0) / (size + 3.0)
    series = place.polynomial(_ERFC_F64 if x.is_wide else _ERFC_F32) / (size * 2.0 + 1.0)
    far = _exp(-square) * (1.0 - left) * series
    return (x < 0.5).then(1.0 - x.of("erf"), far)


def _erfinv(x: Term[V]) -> Term[V]:
    """# from an estimate that is right to 0.3%, steps of Halley's method, by erfc where erf is near 1"""
    size = _abs(x)
    rest = 1.0 - size
    logarithm = _log(rest * (size + 1.0))
    centre = logarithm * 0.5 + 2.0 / (math.pi * 0.147)
    far = _sqrt(_sqrt(centre * centre - logarithm / 0.147) - centre)
    y = (size < 0.25).then(size * (math.sqrt(math.pi) / 2.0), far)
    for _ in range(3 if x.is_wide else 2):
        error = (size < 0.5).then(y.of("erf") - size, rest - _erfc(y))
        step = error * _exp(y * y) * (math.sqrt(math.pi) / 2.0)
        y = y - step / (step * y + 1.0)
    return _signed(size.equals(1.0).then(math.inf, y), x)


def _from_shift(x: Term[V]) -> tuple[Term[V], Term[V], Term[V]]:
    """Whether an argument is reflected (1 - x in place of x), then itself, and moved on until the series hold."""
    reflected = x < 0.5
    z = reflected.then(1.0 - x, x)
    return reflected, z, (z < float(_SHIFT)).then(z + float(_SHIFT), z)


def _sine_of_turns(x: Term[V]) -> Term[V]:
    """x less the nearest integer, times pi."""
    return (x - x.of("round")) * math.pi


def _lgamma(x: Term[V]) -> Term[V]:
    """# lgamma(z) = lgamma(z + 8) - log(z * ... * (z + 7)); lgamma(x) = log(pi / sin(pi * x)) - lgamma(1 - x)"""
    reflected, z, moved = _from_shift(x)
    product = z
    for i in range(1, _SHIFT):
        product = product * (z + float(i))
    inverse = 1.0 / moved
    series = (inverse * inverse).polynomial(_LGAMMA) * inverse
    total = (moved - 0.5) * (_log(moved) - 1.0) + (math.log(2.0 * math.pi) / 2.0 - 0.5) + series
    total = total - (z < float(_SHIFT)).then(_log(product), 0.0)
    total = z.equals(math.inf).then(z, total)
    mirror = math.log(math.pi) - _log(_abs(_sine_of_turns(x).of("sin"))) - total
    mirror = x.equals(-math.inf).then(math.inf, mirror)
    return reflected.then(mirror, total)


def _digamma(x: Term[V]) -> Term[V]:
    """# digamma(z) = digamma(z + 8) - 1 / z - ... - 1 / (z + 7); digamma(x) = digamma(1 - x) - pi / tan(pi * x)"""
    reflected, z, moved = _from_shift(x)
    steps = 1.0 / z
    for i in range(1, _SHIFT):
        steps = steps + 1.0 / (z + float(i))
    inverse = 1.0 / moved
    square = inverse * inverse
    total = _log(moved) - inverse * 0.5 - square * square.polynomial(_DIGAMMA)
    total = total - (z < float(_SHIFT)).then(steps, 0.0)
    mirror = total - math.pi / _tan(_sine_of_turns(x))
    mirror = ((x < 0.0) & x.equals(x.of("round"))).then(math.nan, mirror)
    return x.equals(0.0).then(-1.0 / x, reflected.then(mirror, total))


def _copysign(x: Term[V], y: Term[V]) -> Term[V]:
    size = _abs(x)
    return _is_negative(y).then(-size, size)


def formula(written: Callable[..., Term[Any]]) -> Callable[..., Any]:
    """A formula of terms as a composite of any operands: computed in the float for their dtype, rounded once."""

    def composite(steps: Steps[V], *operands: V) -> V:
        if len(operands) == 1:
            return in_compute_dtype(steps, operands[0], lambda x: written(Term(steps, x)).value)
        given = [steps.read(x) for x in operands]
        strength = promote_all([steps.strength(x) for x in given])
        dtype = float_for(strength.dtype)
        terms = [Term(steps, steps.convert(x, compute_dtype(dtype), strength.weak)) for x in given]
        return steps.convert(cast("V", written(*terms).value), dtype, strength.weak)

    return composite


def fmod(steps: Steps[V], x: V, y: V) -> V:
    """# of floats x mod y of the sizes, with the sign of x; of integers x mod y, less y where the signs differ"""
    first, second = steps.tensor(x), steps.tensor(y)
    if promote_all([steps.strength(first), steps.strength(second)]).dtype.is_float:
        left = elementwise(steps, "mod", apply(steps, "abs", first), apply(steps, "abs", second))
        below = elementwise(steps, "lt", first, steps.number(x, 0))
        return where(steps, below, elementwise(steps, "neg", left), left)
    left = elementwise(steps, "mod", first, second)
    if not _has_sign(steps, left):
        return left
    zero = steps.number(x, 0)
    differ = elementwise(steps, "ne", elementwise(steps, "lt", first, zero), elementwise(steps, "lt", left, zero))
    beyond = elementwise(steps, "and", differ, elementwise(steps, "ne", left, zero))
    return where(steps, beyond, elementwise(steps, "sub", left, second), left)


def sign(steps: Steps[V], x: V) -> V:
    """-1, 0, 1; what is neither (NaN) stays."""
    value = steps.tensor(x)
    if steps.strength(value).dtype == bool_:
        return value
    above = elementwise(steps, "gt", value, steps.number(x, 0))
    rest = value
    if _has_sign(steps, value):
        rest = where(steps, elementwise(steps, "lt", value, steps.number(x, 0)), steps.number(x, -1), value)
    return where(steps, above, steps.number(x, 1), rest)


def trunc(steps: Steps[V], x: V) -> V:
    """Rounded towards 0; integers and bools are that already."""
    if not steps.strength(x).dtype.is_float:
        return x
    below = elementwise(steps, "lt", x, steps.number(x, 0))
    return where(steps, below, rounded("ceil", steps, x), rounded("floor", steps, x))


def isnan(steps: Steps[V], x: V) -> V:
    """# x != x"""
    value = steps.tensor(x)
    return elementwise(steps, "ne", value, value)


def isinf(steps: Steps[V], x: V) -> V:
    """# |x| == inf"""
    value = steps.tensor(x)
    if not steps.strength(value).dtype.is_float:
        return elementwise(steps, "ne", value, value)
    return elementwise(steps, "eq", elementwise(steps, "abs", value), steps.number(x, math.inf))


def isfinite(steps: Steps[V], x: V) -> V:
    """# |x| < inf"""
    value = steps.tensor(x)
    if not steps.strength(value).dtype.is_float:
        return elementwise(steps, "eq", value, value)
    return elementwise(steps, "lt", elementwise(steps, "abs", value), steps.number(x, math.inf))


def logical(fn: str) -> Callable[..., Any]:
    """A function of truth."""

    def composite(steps: Steps[V], *operands: V) -> V:
        return elementwise(steps, fn, *(truth(steps, x) for x in operands))

    return composite


def _has_sign(steps: Steps[V], x: V) -> bool:
    dtype = steps.strength(x).dtype
    return dtype.is_float or (dtype.is_integer and dtype.is_signed)


SPECIAL_WORDS: dict[Callable[..., Any], Callable[..., Any]] = {
    language.tan: formula(_tan), language.asin: formula(_asin), language.acos: formula(_acos),
    language.atan: formula(_atan), language.atan2: formula(_atan2), language.sinh: formula(_sinh),
    language.cosh: formula(_cosh), language.asinh: formula(_asinh), language.acosh: formula(_acosh),
    language.atanh: formula(_atanh), language.expm1: formula(_expm1), language.log1p: formula(_log1p),
    language.log10: formula(_log10), language.logaddexp: formula(_logaddexp), language.erfc: formula(_erfc),
    language.erfinv: formula(_erfinv), language.lgamma: formula(_lgamma), language.digamma: formula(_digamma),
    language.copysign: formula(_copysign), language.fmod: fmod, language.sign: sign, language.trunc: trunc,
    language.isnan: isnan, language.isinf: isinf, language.isfinite: isfinite, language.logical_and: logical("and"),
    language.logical_or: logical("or"), language.logical_xor: logical("xor"), language.logical_not: logical("not"),
}  # fmt: skip
"""Words of several steps, as `ELEMENTWISE_WORDS`."""

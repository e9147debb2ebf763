"""Exponentials, logarithms, and what is made of them, on vectors of f32 and f64.

The coefficients are those of minimax polynomials (Remez), found in 40 digits and then rounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tiledsl.backend_cpu.functions.lane_calls import call_library
from tiledsl.backend_cpu.functions.lanes import Lanes
from tiledsl.ir.dtypes import f32, i32


@dataclass(frozen=True)
class _Precision:
    """What differs between f32 and f64. Coefficients run from the highest power down."""

    mantissa: int
    bias: int
    exp_range: tuple[float, float]
    """Below the first exp is 0, above the second it is inf."""
    exp2_range: tuple[float, float]
    exp: tuple[float, ...]
    """exp(r) - 1 over r, for |r| <= ln 2."""
    exp2: tuple[float, ...]
    """2**r - 1 over r, for |r| <= 1."""
    log: tuple[float, ...]
    """(2 atanh(s) - 2 s) / s**3 of s * s, for |s| <= 0.172."""
    two_ln2: tuple[float, float]
    """2 ln 2 as a sum of two numbers; likewise below."""
    ln2: tuple[float, float]
    log2_e: tuple[float, float]
    tanh_is_one: float
    """From here on tanh rounds to 1."""


_F32 = _Precision(
    mantissa=23,
    bias=127,
    exp_range=(-104.0, 88.75),
    exp2_range=(-151.0, 129.0),
    exp=(
        0.00019611600146163255, 0.0014104469446465373, 0.008336103521287441, 0.04166126996278763,
        0.16666613519191742, 0.5000003576278687, 1.0,
    ),
    exp2=(
        1.3404993296717294e-05, 0.00015635351883247495, 0.0013367717619985342, 0.009616975672543049,
        0.05550239980220795, 0.2402266561985016, 0.6931473612785339,
    ),
    log=(0.298730731010437, 0.399774968624115, 0.6666677594184875),
    two_ln2=(1.3862943649291992, -3.809308424251867e-09),
    ln2=(0.6931471824645996, -1.9046542121259336e-09),
    log2_e=(1.4426950216293335, 1.925963033500011e-08),
    tanh_is_one=9.1,
)  # fmt: skip
_F64 = _Precision(
    mantissa=52,
    bias=1023,
    exp_range=(-746.0, 710.0),
    exp2_range=(-1076.0, 1025.0),
    exp=(
        1.593091125263726e-10, 2.106743246132743e-09, 2.5055247973495837e-08, 2.7556081436916687e-07,
        2.7557298205309638e-06, 2.4801591266689996e-05, 0.00019841269904636178, 0.001388888888240733,
        0.008333333333242734, 0.04166666666671671, 0.16666666666667215, 0.49999999999999856, 0.9999999999999999,
    ),
    exp2=(
        1.358224661843806e-12, 2.591296705324997e-11, 4.446095396989295e-10, 7.054594736625721e-09,
        1.0178078246151681e-07, 1.3215488902943044e-06, 1.5252733852771937e-05, 0.00015403530386193207,
        0.0013333558146283481, 0.009618129107640028, 0.0555041086648234, 0.24022650695910003, 0.6931471805599453,
    ),
    log=(
        0.14797508505509036, 0.15313903164648562, 0.18183569743148353, 0.2222219847591838, 0.28571428743263383,
        0.3999999999941109, 0.6666666666666735,
    ),
    two_ln2=(1.3862943611198906, 4.638093627692599e-17),
    ln2=(0.6931471805599453, 2.3190468138462996e-17),
    log2_e=(1.4426950408889634, 2.0355273740931033e-17),
    tanh_is_one=19.1,
)  # fmt: skip


def _precision(lanes: Lanes) -> _Precision:
    return _F32 if lanes.type.dtype == f32 else _F64


@dataclass(frozen=True)
class _Scaled:
    """An exponential as scale * scale * (1 + fraction), with |fraction| <= 1; `scale` is a power of two."""

    scale: str
    fraction: str


def exp(lanes: Lanes, x: str) -> str:
    """e to the x: at most 2 units in the last place off, subnormal results included."""
    return _product(lanes, _scaled_exp(lanes, _clamp(lanes, x, _precision(lanes).exp_range)))


def exp2(lanes: Lanes, x: str) -> str:
    """2 to the x."""
    p = _precision(lanes)
    x = _clamp(lanes, x, p.exp2_range)
    half, scale = _round_to_scale(lanes, x, 0.5)
    rest = lanes.fma(half, lanes.constant(-2.0), x)
    return _product(lanes, _Scaled(scale, lanes.mul(rest, lanes.polynomial(rest, p.exp2))))


def _clamp(lanes: Lanes, x: str, limits: tuple[float, float]) -> str:
    """x within limits; NaN stays. Each select is a single instruction."""
    low, high = (lanes.constant(limit) for limit in limits)
    x = lanes.select(lanes.compare("olt", high, x), high, x)
    return lanes.select(lanes.compare("ogt", low, x), low, x)


def _round_to_scale(lanes: Lanes, x: str, factor: float) -> tuple[str, str]:
    """h = round(x * factor) and 2**h.

    h is half the exponent of the result: 2**h is then never subnormal and never overflows, and multiplying by it twice
    rounds a subnormal result only once.
    """
    p = _precision(lanes)
    # Adding 1.5 * 2**mantissa rounds to an integer and leaves it in the low bits, here with the bias of exponents.
    magic = lanes.constant(1.5 * 2**p.mantissa + p.bias)
    shifted = lanes.fma(x, lanes.constant(factor), magic)
    word = lanes.integers
    scale = lanes.from_bits(word.binary("shl", lanes.bits(shifted), word.constant(p.mantissa)))
    return lanes.sub(shifted, magic), scale


def _scaled_exp(lanes: Lanes, x: str) -> _Scaled:
    """e to the x, for x in `exp_range`: x = 2 h ln 2 + r."""
    p = _precision(lanes)
    half, scale = _round_to_scale(lanes, x, 0.5 / math.log(2))
    rest = lanes.fma(half, lanes.constant(-p.two_ln2[0]), x)
    rest = lanes.fma(half, lanes.constant(-p.two_ln2[1]), rest)
    return _Scaled(scale, lanes.mul(rest, lanes.polynomial(rest, p.exp)))


def _product(lanes: Lanes, value: _Scaled) -> str:
    once = lanes.fma(value.scale, value.fraction, value.scale)
    return lanes.mul(once, value.scale)


def log(lanes: Lanes, x: str) -> str:
    """The natural logarithm; -inf at 0, NaN below."""
    p = _precision(lanes)
    exponent, f, small = _log1p_of_mantissa(lanes, x)
    small = lanes.fma(exponent, lanes.constant(p.ln2[1]), small)
    result = lanes.fma(exponent, lanes.constant(p.ln2[0]), lanes.add(f, small))
    return _at_limits_of_log(lanes, x, result)


def log2(lanes: Lanes, x: str) -> str:
    """The logarithm to base 2; exact at powers of two."""
    p = _precision(lanes)
    exponent, f, small = _log1p_of_mantissa(lanes, x)
    high, low = (lanes.constant(part) for part in p.log2_e)
    tail = lanes.fma(small, high, lanes.mul(f, low))
    return _at_limits_of_log(lanes, x, lanes.add(exponent, lanes.fma(f, high, tail)))


def _log1p_of_mantissa(lanes: Lanes, x: str) -> tuple[str, str, str]:
    """(e, f, g) where x = 2**e * (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), and log(1 + f) = f + g."""
    p = _precision(lanes)
    word = lanes.integers
    subnormal = lanes.compare("olt", x, lanes.constant(2.0 ** (1 - p.bias)))
    lifted = lanes.select(subnormal, lanes.mul(x, lanes.constant(2.0 ** (p.mantissa + 1))), x)
    bits = lanes.bits(lifted)
    # The bits less those of sqrt(1/2): what is above the mantissa is then the exponent that leaves 1 + f in its range.
    root = math.frexp(math.sqrt(0.5))[0] * 2 - 1
    root_bits = ((p.bias - 1) << p.mantissa) + int(root * 2**p.mantissa)
    exponent = word.binary("ashr", word.sub(bits, word.constant(root_bits)), word.constant(p.mantissa))
    mantissa = word.sub(bits, word.binary("shl", exponent, word.constant(p.mantissa)))
    f = lanes.sub(lanes.from_bits(mantissa), lanes.constant(1.0))
    # log(1 + f) = 2 atanh(s) = 2 s + s R(s * s) = f - (f*f/2 - s (f*f/2 + R)) for s = f / (2 + f)
    s = lanes.div(f, lanes.add(f, lanes.constant(2.0)))
    z = lanes.mul(s, s)
    series = lanes.mul(z, lanes.polynomial(z, p.log))
    square = lanes.mul(lanes.mul(f, lanes.constant(0.5)), f)
    small = lanes.sub(lanes.mul(s, lanes.add(square, series)), square)
    lift = lanes.select(subnormal, lanes.constant(-(p.mantissa + 1.0)), lanes.constant(0.0))
    return lanes.add(_to_float(lanes, exponent), lift), f, small


def _to_float(lanes: Lanes, exponent: str) -> str:
    """Small integers as floats; from 32 bits, which every machine converts as vectors."""
    word = lanes.of(i32)
    if lanes.type.dtype != f32:
        exponent = lanes.integers.change("trunc", exponent, word)
    return word.change("sitofp", exponent, lanes)


def _at_limits_of_log(lanes: Lanes, x: str, result: str) -> str:
    zero, infinity = lanes.constant(0.0), lanes.constant(math.inf)
    result = lanes.select(lanes.compare("olt", x, infinity), result, x)  # inf and NaN
    below = lanes.select(lanes.compare("oeq", x, zero), lanes.constant(-math.inf), lanes.constant(math.nan))
    return lanes.select(lanes.compare("ole", x, zero), below, result)


def tanh(lanes: Lanes, x: str) -> str:
    """The hyperbolic tangent: e / (e + 2) for e = exp(2|x|) - 1, with the sign of x."""
    limit = lanes.constant(_precision(lanes).tanh_is_one)
    size = lanes.intrinsic("fabs", x)
    size = lanes.select(lanes.compare("olt", limit, size), limit, size)
    value = _scaled_exp(lanes, lanes.add(size, size))
    scale = lanes.mul(value.scale, value.scale)
    e = lanes.fma(scale, value.fraction, lanes.sub(scale, lanes.constant(1.0)))
    return lanes.intrinsic("copysign", lanes.div(e, lanes.add(e, lanes.constant(2.0))), x)


def sigmoid(lanes: Lanes, x: str) -> str:
    """1 / (1 + exp(-x))."""
    one = lanes.constant(1.0)
    return lanes.div(one, lanes.add(one, exp(lanes, lanes.neg(x))))


def sigmoid2(lanes: Lanes, x: str) -> str:
    """1 / (1 + 2**-x)."""
    one = lanes.constant(1.0)
    return lanes.div(one, lanes.add(one, exp2(lanes, lanes.neg(x))))


# erf(x) / x of x * x, for |x| <= 0.9
_ERF_NEAR = (
    8.513105422025546e-05, -0.0008175639668479562, 0.00520385941490531, -0.02686050906777382, 0.11283715069293976,
    -0.37612634897232056, 1.128379225730896,
)  # fmt: skip
# log(1 - erf(x)), for 0.9 <= x <= 3.95; from there on erf rounds to 1
_ERF_FAR = (
    0.00019718155090231448, -0.003055606037378311, 0.02227708138525486, -0.104037344455719, -0.63705974817276,
    -1.1277495622634888, -0.00017749630205798894,
)  # fmt: skip


def erf(lanes: Lanes, x: str) -> str:
    """The error function."""
    if lanes.type.dtype != f32:
        return call_library(lanes, "erf", x)
    size = lanes.intrinsic("fabs", x)
    near = lanes.mul(x, lanes.polynomial(lanes.mul(x, x), _ERF_NEAR))
    limit = lanes.constant(3.95)
    size = lanes.select(lanes.compare("olt", limit, size), limit, size)
    rest = _product(lanes, _scaled_exp(lanes, lanes.polynomial(size, _ERF_FAR)))
    far = lanes.intrinsic("copysign", lanes.sub(lanes.constant(1.0), rest), x)
    return lanes.select(lanes.compare("ogt", size, lanes.constant(0.9)), far, near)

"""Sine and cosine of f32 vectors; of f64, lane by lane."""

from __future__ import annotations

import math

from tiledsl.backend_cpu.functions.lane_calls import call_library
from tiledsl.backend_cpu.functions.lanes import Lanes
from tiledsl.ir.dtypes import f32, f64, i32

# (sin(r) - r) / r**3 and (cos(r) - 1 + r*r/2) / r**4 of r * r, for |r| <= pi / 4
_SIN = (-0.0001951463200384751, 0.008332155644893646, -0.16666655242443085)
_COS = (2.443241282890085e-05, -0.0013887309469282627, 0.04166664555668831)
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
_LARGEST = 2.0**50
"""Up to here two f64 hold enough of pi / 2 to subtract its multiples from an f32."""


def sin(lanes: Lanes, x: str) -> str:
    """The sine of x in radians."""
    return _with_any_size(lanes, "sin", x, quarter_turns=0)


def cos(lanes: Lanes, x: str) -> str:
    """The cosine of x in radians."""
    return _with_any_size(lanes, "cos", x, quarter_turns=1)


def _with_any_size(lanes: Lanes, name: str, x: str, quarter_turns: int) -> str:
    """Branches to the library where a lane is too large for the fast way."""
    if lanes.type.dtype != f32:
        return call_library(lanes, name, x)
    writer = lanes.writer
    huge, done = writer.new_label(f"{name}.huge"), writer.new_label(f"{name}.done")
    slot = writer.alloca(str(lanes.type))
    fast = _sine(lanes, x, quarter_turns)
    writer.line(f"store {lanes.type} {fast}, ptr {slot}")
    too_large = lanes.compare("ogt", lanes.intrinsic("fabs", x), lanes.constant(_LARGEST))
    writer.branch_if(_any(lanes, too_large), huge, done)
    writer.start(huge)
    # only in the lanes that need it: a result must not depend on its neighbours
    exact = lanes.select(too_large, call_library(lanes, name, x), fast)
    writer.line(f"store {lanes.type} {exact}, ptr {slot}")
    writer.branch(done)
    writer.start(done)
    return writer.emit(f"load {lanes.type}, ptr {slot}")


def _any(lanes: Lanes, condition: str) -> str:
    """Whether the condition holds in any lane, as an i1."""
    if lanes.type.lanes == 1:
        return condition
    type_ = lanes.condition_type
    return lanes.writer.call(f"llvm.vector.reduce.or.v{lanes.type.lanes}i1", "i1", [(type_, condition)])


def _sine(lanes: Lanes, x: str, quarter_turns: int) -> str:
    """sin(x + quarter_turns * pi / 2), for |x| <= _LARGEST: x = n pi / 2 + r, |r| <= pi / 4."""
    double, word = lanes.of(f64), lanes.of(i32)
    wide = lanes.change("fpext", x, double)
    # Adding 1.5 * 2**52 rounds to an integer and leaves it in the low bits.
    magic = double.constant(1.5 * 2**52)
    shifted = double.fma(wide, double.constant(2 / math.pi), magic)
    n = double.sub(shifted, magic)
    rest = double.fma(n, double.constant(-_HALF_PI[0]), wide)
    rest = double.fma(n, double.constant(-_HALF_PI[1]), rest)
    r = double.change("fptrunc", rest, lanes)
    quarter = word.add(double.integers.change("trunc", double.bits(shifted), word), word.constant(quarter_turns))
    z = lanes.mul(r, r)
    sine = lanes.fma(lanes.mul(z, r), lanes.polynomial(z, _SIN), r)
    sine = lanes.intrinsic("copysign", sine, r)  # for -0
    cosine = lanes.fma(z, lanes.constant(-0.5), lanes.constant(1.0))
    cosine = lanes.fma(lanes.mul(z, z), lanes.polynomial(z, _COS), cosine)
    odd = word.compare("ne", word.binary("and", quarter, word.constant(1)), word.constant(0))
    value = lanes.bits(lanes.select(odd, cosine, sine))
    sign = word.binary("shl", word.binary("and", quarter, word.constant(2)), word.constant(30))
    return lanes.from_bits(word.binary("xor", value, sign))

"""What every elementwise function computes, in NumPy: the oracle that back ends are compared with.

Narrow floats (f16, bf16, f8) are computed in f32 and rounded once. Functions that are not exact to the last bit in
f32 are computed in f64 and rounded, so that they are as good as exact. Nothing traps and nothing warns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tiledsl.ir.dtypes import DType, bf16, bool_, from_numpy, is_narrow_float, to_numpy
from tiledsl.ir.fold_identities import least, most
from tiledsl.ir.scalar_functions import SCALAR_FUNCTIONS

Array: TypeAlias = npt.NDArray[Any]
NumpyFunction: TypeAlias = Callable[..., Any]


def element_type(array: Array) -> DType:
    """The IR dtype of an array, which must have one."""
    return _element_type(array.dtype)


@cache
def _element_type(dtype: np.dtype[Any]) -> DType:
    found = from_numpy(dtype)
    assert found is not None, f"no element type for {dtype}"
    return found


def apply(name: str, *operands: Array) -> Array:
    """The function of row `name` of SCALAR_FUNCTIONS, elementwise under broadcasting.

    The operands have one dtype, which is the result's too (comparisons give bool, `float_bits` u32; the condition
    of `where` is bool).
    """
    dtype = element_type(operands[-1])
    wide = [x.astype(np.float32) if is_narrow_float(element_type(x)) else x for x in operands]
    with np.errstate(all="ignore"):
        result = np.asarray(FUNCTIONS[name](*wide))
        if is_narrow_float(dtype) and result.dtype == np.float64:
            result = result.astype(np.float32)
    return cast(result, SCALAR_FUNCTIONS[name].result(dtype))


def cast(array: Array, dtype: DType) -> Array:
    """`array` as `dtype`: floats round to nearest even, once; integers wrap; anything but zero is true.

    Floats are cut off towards zero to become integers; out of range they give the nearest integer, and NaN gives 0.
    Integers become narrow floats through f32.
    """
    source = element_type(array)
    if source == dtype:
        return array
    with np.errstate(all="ignore"):
        if is_narrow_float(source):
            array = array.astype(np.float32)
        if dtype == bool_:
            return np.asarray(array != 0)
        if is_narrow_float(dtype):
            array = _round_to_odd(array) if source.name == "f64" else array.astype(np.float32)
        return _saturate(array, dtype) if source.is_float and dtype.is_integer else array.astype(to_numpy(dtype))


def _round_to_odd(array: Array) -> Array:
    """f64 to f32 such that rounding once more, to a narrower type, is as good as rounding once.

    What is not exact becomes the neighbour whose last bit is 1, so that it never looks like a tie.
    """
    nearest: npt.NDArray[np.float32] = np.asarray(array, np.float32)
    inexact = (nearest != array) & ~np.isnan(array)
    significand = nearest.astype(np.float64) / np.spacing(nearest)  # a whole number
    even = np.isinf(nearest) | (significand % 2 == 0)
    other = np.nextafter(nearest, np.where(nearest < array, np.inf, -np.inf).astype(np.float32))
    return np.where(inexact & even, other, nearest)


def _saturate(array: Array, dtype: DType) -> Array:
    """Floats to integers; the limits are powers of 2, hence exact in any float type."""
    low = -(2.0 ** (dtype.bits - 1)) if dtype.is_signed else 0.0
    high = 2.0 ** (dtype.bits - 1 if dtype.is_signed else dtype.bits)
    integers = array.astype(to_numpy(dtype))
    limited = np.where(array < low, constant(least(dtype), dtype), integers)
    limited = np.where(array >= high, constant(most(dtype), dtype), limited)
    return np.where(np.isnan(array), constant(0, dtype), limited)


def constant(value: float, dtype: DType) -> Array:
    """A Python number as an array of rank 0; integers wrap."""
    if dtype.is_integer:
        bits = int(value) & 0xFFFF_FFFF_FFFF_FFFF
        return np.asarray(bits, np.uint64).astype(to_numpy(dtype))
    return cast(np.asarray(value, np.float64), dtype)


def _in_f64(function: NumpyFunction) -> NumpyFunction:
    """`function` of f64 copies of its operands; `apply` rounds the result to their dtype."""
    return lambda *operands: function(*(x.astype(np.float64) for x in operands))


def _pow(base: Array, exponent: Array) -> Array:
    if base.dtype.kind == "f":
        return np.power(base.astype(np.float64), exponent.astype(np.float64))
    if base.dtype.kind == "u":
        return np.power(base, exponent)
    # NumPy refuses negative powers of integers. Here they are truncated: 1 for 1, +-1 for -1, else 0 (of 0 too).
    inverse = np.where(base == 1, 1, np.where(base == -1, 1 - 2 * (exponent & 1), 0))
    power = np.power(base, np.maximum(exponent, 0))
    return np.where(exponent < 0, inverse, power).astype(base.dtype)


def _fma(a: Array, b: Array, c: Array) -> Array:
    if a.dtype == np.float32:
        # the product is exact in f64
        return a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)
    exact = np.frompyfunc(_fma_of_floats, 3, 1)
    return np.asarray(exact(a, b, c), np.float64)


def _fma_of_floats(a: float, b: float, c: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    product = Fraction(a) * Fraction(b)
    total = product + Fraction(c)
    if total == 0:
        return 0.0 if product else a * b + c  # the sign of a zero, which fractions do not have
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _sigmoid2(x: Array) -> Array:
    small = np.exp2(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _erf(x: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x), np.float64)


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


def _plane(number: int, x: Array) -> Array:
    """The first, second or third of the bf16 planes of x * 2**16, as f32."""
    rest = x * np.float32(65536)
    plane = rest
    for _ in range(number):
        plane = rest.astype(to_numpy(bf16)).astype(np.float32)
        rest = rest - plane
    return plane


def _float_bits(x: Array) -> Array:
    return np.reshape(np.frombuffer(x.tobytes(), np.uint32), x.shape)


def _nibble(x: Array, i: Array) -> Array:
    found = np.right_shift(x, 4 * (i & 1)) & 15
    return (found ^ 8) - 8 if np.issubdtype(x.dtype, np.signedinteger) else found


FUNCTIONS: dict[str, NumpyFunction] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "pow": _pow,
    "neg": np.negative,
    "abs": np.abs,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "fma": _fma,
    "exp": _in_f64(np.exp),
    "exp2": _in_f64(np.exp2),
    "log": _in_f64(np.log),
    "log2": _in_f64(np.log2),
    "sqrt": np.sqrt,
    "rsqrt": _in_f64(_rsqrt),
    "tanh": _in_f64(np.tanh),
    "sigmoid": _in_f64(_sigmoid),
    "sigmoid2": _in_f64(_sigmoid2),
    "erf": _in_f64(_erf),
    "sin": _in_f64(np.sin),
    "cos": _in_f64(np.cos),
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "nibble": _nibble,
    "float_bits": _float_bits,
    "where": np.where,
    "plane_1": partial(_plane, 1),
    "plane_2": partial(_plane, 2),
    "plane_3": partial(_plane, 3),
}

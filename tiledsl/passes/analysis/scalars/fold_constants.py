"""What functions of constants are, as far as every back end agrees to the last bit.

Left alone are functions that are not exact (exp, sin, pow ...) and conversions whose result is not specified.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tiledsl.ir.core import Number
from tiledsl.ir.dtypes import DType, bool_, compute_dtype, to_numpy
from tiledsl.ir.scalar_functions import SCALAR_FUNCTIONS

_Array: TypeAlias = "npt.NDArray[Any]"


def _nibble(x: _Array, i: _Array) -> _Array:
    found = np.right_shift(x, 4 * (i & 1)) & 15
    return (found ^ 8) - 8 if np.issubdtype(x.dtype, np.signedinteger) else found


def _float_bits(x: _Array) -> _Array:
    return np.reshape(np.frombuffer(x.tobytes(), np.uint32), x.shape)


_EXACT: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "abs": np.abs,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "sqrt": np.sqrt,
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
}
_EXACT_FOR_INTEGERS: dict[str, Callable[..., Any]] = {"floordiv": np.floor_divide, "mod": np.remainder}


def fold(fn: str, operands: Sequence[tuple[Number, DType]]) -> Number | None:
    """The value of a scalar function of constants; None where it is better left to the run."""
    dtype = operands[-1][1]
    function = _EXACT.get(fn) or (_EXACT_FOR_INTEGERS.get(fn) if dtype.is_integer else None)
    if function is None or any(d.bits < 8 for _, d in operands):
        return None
    with np.errstate(all="ignore"):
        result: _Array = np.asarray(
            function(*(_array(value, d).astype(to_numpy(compute_dtype(d))) for value, d in operands))
        )
        return _number(result.astype(to_numpy(SCALAR_FUNCTIONS[fn].result(dtype))))


def fold_cast(value: Number, source: DType, dtype: DType) -> Number | None:
    """A constant of dtype `source` as `dtype`; None where what that gives is not specified."""
    if source.bits < 8 or dtype.bits < 8:
        return None
    with np.errstate(all="ignore"):
        array = _array(value, source)
        if source.is_float and dtype.is_integer and not _fits(float(array), dtype):
            return None
        return _number(_converted(array, source, dtype))


def _fits(number: float, dtype: DType) -> bool:
    """Whether a float, cut off to an integer, is one that the integer type has."""
    smallest = -(2 ** (dtype.bits - 1)) if dtype.is_signed else 0
    largest = 2 ** (dtype.bits - 1 if dtype.is_signed else dtype.bits) - 1
    return math.isfinite(number) and smallest <= math.trunc(number) <= largest


def _array(value: Number, dtype: DType) -> _Array:
    """A constant as the program holds it: integers wrap, floats are rounded."""
    if dtype.is_integer:
        return np.asarray(int(value) & 0xFFFF_FFFF_FFFF_FFFF, np.uint64).astype(to_numpy(dtype))
    from_dtype = np.asarray(value, np.float64)
    if dtype == bool_:
        return np.asarray(from_dtype != 0)
    return from_dtype.astype(to_numpy(compute_dtype(dtype))).astype(to_numpy(dtype))


def _converted(array: _Array, source: DType, dtype: DType) -> _Array:
    if dtype == bool_:
        return np.asarray(array != 0)
    if compute_dtype(source) != source or compute_dtype(dtype) != dtype:
        array = array.astype(np.float32)  # conversions to and from narrow floats go through f32
    return array.astype(to_numpy(dtype))


def _number(array: _Array) -> Number:
    """The Python number of an array of rank 0."""
    if array.dtype.kind == "b":
        return bool(array)
    return int(array) if array.dtype.kind in "iu" else float(array)

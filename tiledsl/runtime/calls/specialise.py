"""What a kernel is specialised on: dtypes, ranks, which sizes divide by 16, the axis of unit stride, constants.

Two calls with the same keys run the same code. Sizes themselves are not part of a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeGuard, Union, cast

import numpy as np
from typing_extensions import assert_never

from tiledsl.ir import dtypes
from tiledsl.ir.dtypes import DType
from tiledsl.runtime.arrays.arrays import ArrayLayout, element_strides
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail

DIVISOR = 16
"""Sizes are told apart by whether they are multiples of this."""


@dataclass(frozen=True)
class TensorKey:
    """A tensor. `shape` has None for every size that is a run-time value; a spec may know or name sizes."""

    dtype: DType
    shape: tuple[int | str | None, ...]
    unit: int | None
    divisible: tuple[bool, ...]

    def __str__(self) -> str:
        sizes = [
            str(size) if size is not None else f"{DIVISOR}*?" if whole else "?"
            for size, whole in zip(self.shape, self.divisible)
        ]
        unit = "" if not self.shape or self.unit == len(self.shape) - 1 else f", unit={self.unit}"
        return f"{self.dtype}[{', '.join(sizes)}{unit}]"


@dataclass(frozen=True)
class ScalarKey:
    """A run-time number. Without a dtype it is a Python number, which gives way to the dtypes it meets."""

    kind: Literal["int", "float", "bool"]
    dtype: DType | None = None

    def __str__(self) -> str:
        return self.kind if self.dtype is None else f"scalar {self.dtype}"


@dataclass(frozen=True)
class ConstantKey:
    """A compile-time value. Compared by its text, so that 1, 1.0 and True are three constants."""

    text: str
    value: object = field(compare=False)

    def __str__(self) -> str:
        return self.text


ArgumentKey: TypeAlias = Union[TensorKey, ScalarKey, ConstantKey]


def tensor_key(array: ArrayLayout) -> TensorKey:
    """The key of an array. Axes with at most one element have whatever stride suits."""
    dtype = dtypes.from_numpy(array.dtype)
    assert dtype is not None, "as_array let an unknown dtype through"
    strides = element_strides(array)
    units = [axis for axis in range(array.ndim - 1, -1, -1) if strides[axis] == 1]
    divisible = tuple(size % DIVISOR == 0 for size in array.shape)
    return TensorKey(dtype, (None,) * array.ndim, units[0] if units else None, divisible)


def is_numpy_number(value: object) -> TypeGuard[np.generic[Any]]:
    """Whether `value` is a NumPy scalar."""
    return isinstance(value, np.generic)


def scalar_key(value: object) -> ScalarKey | None:
    """The key of a number, or None for anything else (complex numbers and dates too)."""
    if is_numpy_number(value):  # before Python's: np.float64 is a float
        dtype = dtypes.from_numpy(np.result_type(value))
        if dtype is None:
            return None
        kind = "bool" if dtype.kind == "bool" else "float" if dtype.is_float else "int"
        return ScalarKey(kind, dtype)
    if isinstance(value, bool):
        return ScalarKey("bool")
    if isinstance(value, int):
        return ScalarKey("int")
    return ScalarKey("float") if isinstance(value, float) else None


def constant_key(value: object, parameter: str) -> ConstantKey:
    """The key of a compile-time value. Raises TileTypeError for a value that cannot be one (arrays, lists ...)."""
    value = _plain(value)
    if not _is_constant(value):
        fail("constant-value", caller_location(), parameter=parameter, kind=type(value).__name__)
    return ConstantKey(repr(value), value)


def _plain(value: object) -> object:
    """NumPy's numbers and dtypes as Python's and ours."""
    if is_tuple(value):
        return tuple(_plain(item) for item in value)
    if is_numpy_number(value):
        return value.item()
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, (np.generic, bool))):
        return dtypes.from_numpy(np.dtype(cast("np.dtype[Any]", value))) or cast("object", value)
    return cast("object", value)


def is_tuple(value: object) -> TypeGuard[tuple[object, ...]]:
    return isinstance(value, tuple)


def _is_constant(value: object) -> bool:
    if is_tuple(value):
        return all(_is_constant(item) for item in value)
    if value is None or isinstance(value, (bool, int, float, str, DType)):
        return True
    # words of the language: tile.auto, tile.shared
    return type(value).__module__.startswith("tiledsl.") and not hasattr(value, "__call__")  # noqa: B004


def difference(names: Sequence[str], old: Sequence[ArgumentKey], new: Sequence[ArgumentKey]) -> list[str]:
    """What makes two specialisations two, one line for each argument that differs."""
    return [
        f"`{name}`: {reason}"
        for name, before, after in zip(names, old, new)
        if before != after
        for reason in _reasons(before, after)
    ]


def _reasons(old: ArgumentKey, new: ArgumentKey) -> list[str]:
    match new:
        case TensorKey():
            if isinstance(old, TensorKey) and len(old.shape) == len(new.shape):
                return _tensor_reasons(old, new)
            return [f"{old} became {new}"]
        case ScalarKey() | ConstantKey():
            return [f"{old} became {new}"]
        case _:
            assert_never(new)


def _tensor_reasons(old: TensorKey, new: TensorKey) -> list[str]:
    reasons: list[str] = []
    if old.dtype != new.dtype:
        reasons.append(f"dtype {old.dtype} became {new.dtype}")
    if old.unit != new.unit:
        before, after = ("no axis" if unit is None else f"axis {unit}" for unit in (old.unit, new.unit))
        reasons.append(f"unit stride moved from {before} to {after}")
    for axis, (before, after) in enumerate(zip(old.divisible, new.divisible)):
        if before != after:
            reasons.append(f"the size of axis {axis} is {'now' if after else 'no longer'} a multiple of {DIVISOR}")
    for axis, (before, after) in enumerate(zip(old.shape, new.shape)):
        if before != after:
            reasons.append(f"the size of axis {axis}, {before} before, is specified as {after}")
    return reasons

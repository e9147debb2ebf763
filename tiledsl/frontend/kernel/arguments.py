"""What a kernel is specialised on: one of these for each of its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, Union

from tiledsl.ir.dtypes import DType

ScalarKind = Literal["int", "float", "bool"]


@dataclass(frozen=True)
class TensorArgument:
    """A tensor parameter.

    An axis of `shape` is an int (known), a string (a size named by the caller: equal names are equal sizes) or None
    (unknown). `unit` is the axis whose stride is one element, if any. `divisible` says for each axis whether its size
    is promised to be a multiple of 16.
    """

    dtype: DType
    shape: tuple[int | str | None, ...]
    unit: int | None
    divisible: tuple[bool, ...]


@dataclass(frozen=True)
class ScalarArgument:
    """A run-time scalar parameter. Without a dtype it is a Python number: i64, f64 or bool that gives way to tiles."""

    kind: ScalarKind
    dtype: DType | None = None


@dataclass(frozen=True)
class ConstantArgument:
    """The value of a `tile.constexpr` parameter."""

    value: object


Argument: TypeAlias = Union[TensorArgument, ScalarArgument, ConstantArgument]

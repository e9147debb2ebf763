"""What a name or an expression of a kernel stands for while the front end runs it: the kinds of values.

`Tile` and `Tensor` are IR values with what the front end knows besides; the others exist at compile time only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import TypeAlias, Union

from tiledsl.ir.core import Index, Value
from tiledsl.ir.dtypes import DType
from tiledsl.ir.symbolic import Dim
from tiledsl.support.location import Location


@dataclass(frozen=True)
class Static:
    """A Python value known at compile time: a number, bool, string, None, dtype, level, function, module."""

    value: object


@dataclass(frozen=True)
class TensorAxis:
    """One axis of a tensor, by the tensor's name in the kernel's signature (None for one that `tile.empty` made)."""

    parameter: str | None
    axis: int


@dataclass(frozen=True)
class Size:
    """A size: an integer known at the call. Behaves as a Python int. `axis` is set where `x.shape` gave it just now."""

    dim: Dim
    axis: TensorAxis | None = None


@dataclass(frozen=True, eq=False)
class Tile:
    """A tile, or a scalar if its rank is 0. A weak one came from Python numbers and gives way to other dtypes."""

    value: Value
    weak: bool = False


@dataclass(frozen=True, eq=False)
class Coordinate(Tile):
    """The block of an axis whose block size is 1: an integer scalar that leaves no axis in shapes."""

    stop: Dim | None = None
    name: str = ""


@dataclass(frozen=True, eq=False)
class AxisBlock:
    """A block of an axis, as `m` of a grid. `stop` is the size that the blocks run to, if that is a size."""

    value: Value
    name: str
    stop: Dim | None
    is_shifted: bool = False


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor or a transposed view of one: axis i of the view is axis `permutation[i]` of `value`."""

    value: Value
    name: str
    permutation: tuple[int, ...]
    is_parameter: bool


@dataclass(frozen=True, eq=False)
class Access:
    """A subscripted tensor, not yet read or written. `indices` are in the order of the tensor's own axes.

    The IR's load gives axes in that order; `permutation` then brings them into the order that was written, and
    `new_axes` are positions in that result where an axis of size 1 goes.
    """

    tensor: Tensor
    indices: tuple[Index, ...]
    permutation: tuple[int, ...]
    new_axes: tuple[int, ...]


@dataclass(frozen=True)
class Tuple:
    items: tuple[FrontValue, ...]


@dataclass(frozen=True, eq=False)
class Method:
    """A method of a tile, such as `x.sum`, before it is called."""

    receiver: Operand
    name: str


@dataclass(frozen=True)
class Undefined:
    """Bound to a name that has no value here though it is assigned somewhere: reading it is an error that says why."""

    reason: str
    location: Location
    notes: Sequence[str] = field(default=())


FrontValue: TypeAlias = Union[Static, Size, Tile, AxisBlock, Tensor, Access, Tuple, Method, Undefined]
FRONT_VALUES = (Static, Size, Tile, AxisBlock, Tensor, Access, Tuple, Method, Undefined)
"""The same, for isinstance."""


@dataclass(frozen=True)
class Operand:
    """A value with how the user wrote it and where: what an error message needs.

    `is_literal`: an int that stands as such in a subscript, where a negative one counts from the end.
    """

    value: FrontValue
    text: str
    location: Location
    is_literal: bool = False


@dataclass(frozen=True)
class SliceText:
    """A subscript `start:stop:step` as it was written; None where a bound was left out."""

    start: Operand | None
    stop: Operand | None
    location: Location
    step: int = 1


Subscript: TypeAlias = Union[Operand, SliceText]
"""One entry of a subscript; `None` and `...` are operands of these Python values."""


def static_number(value: FrontValue) -> int | float | bool | None:
    """The compile-time number that `value` is, if it is one."""
    if isinstance(value, Size) and isinstance(value.dim, int):
        return value.dim
    if isinstance(value, Static) and isinstance(value.value, (int, float)):
        return value.value
    return None


def static_integer(value: FrontValue) -> int | None:
    """The compile-time int that `value` is, if it is one (bools are not)."""
    number = static_number(value)
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def size_of(value: FrontValue) -> Dim | None:
    """The size that `value` is, if it is an int or a size (not yet resolved)."""
    return value.dim if isinstance(value, Size) else static_integer(value)


def dim_value(dim: Dim) -> FrontValue:
    """The front-end value of a size: a compile-time int where it is known."""
    return Static(dim) if isinstance(dim, int) else Size(dim)


def describe(value: FrontValue) -> str:
    """What a value is, in the words of an error message."""
    match value:
        case Static(value=DType() as dtype):
            return f"the dtype {dtype}"
        case Static(value=FunctionType() as function):
            return f"the function {function.__name__}"
        case Static(value=ModuleType() as module):
            return f"the module {module.__name__}"
        case Static(value=None):
            return "None"
        case Static(value=bool() | int() | float() | str() as constant):
            return f"the {type(constant).__name__} {constant!r}"
        case Static(value=other):
            return f"a {type(other).__name__}"
        case Size(dim=dim):
            return f"the size {dim}"
        case Coordinate(name=name):
            return f"the coordinate {name} (an integer scalar)"
        case Tile(value=v) if v.shape:
            return str(v.type)
        case Tile(value=v, weak=weak):
            return f"a run-time Python {_PYTHON_KIND[v.dtype.kind]}" if weak else f"a scalar of {v.dtype}"
        case AxisBlock(name=name):
            return f"the block {name} of an axis"
        case Tensor(value=v):
            return str(v.type)
        case Access(tensor=tensor):
            return f"a part of the tensor {tensor.name}"
        case Tuple(items=items):
            return f"a tuple of {len(items)}"
        case Method(name=name):
            return f"the method {name}"
        case Undefined():
            return "a name without a value"


_PYTHON_KIND = {"float": "float", "int": "int", "uint": "int", "bool": "bool"}

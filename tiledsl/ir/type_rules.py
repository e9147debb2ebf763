"""What the types of operands have to be, and what follows from them for results: for the declarations of ops."""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.ir.core import Index, InvalidIRError, Value
from tiledsl.ir.dtypes import DType, bool_
from tiledsl.ir.scalar_functions import SCALAR_FUNCTIONS
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.types import AxisType, Shape, Slice, TensorType, TileType, Whole, format_shape


def require(condition: bool, message: str) -> None:
    """Raises InvalidIRError with the message unless the condition holds."""
    if not condition:
        raise InvalidIRError(message)


def tile_type(value: Value) -> TileType:
    """The tile type of an operand. Raises InvalidIRError for tensors and axes."""
    if not isinstance(value.type, TileType):
        raise InvalidIRError(f"%{value.name} must be a tile or a scalar, not {value.type}")
    return value.type


def tensor_type(value: Value) -> TensorType:
    """The tensor type of an operand. Raises InvalidIRError for tiles and axes."""
    if not isinstance(value.type, TensorType):
        raise InvalidIRError(f"%{value.name} must be a tensor, not {value.type}")
    return value.type


def require_scalar_integer(value: Value) -> None:
    type_ = tile_type(value)
    require(not type_.shape and type_.dtype.is_integer, f"%{value.name} must be an integer scalar, not {type_}")


def broadcast_shapes(a: Shape, b: Shape) -> Shape | None:
    """The NumPy broadcast of two shapes, or None if they do not fit."""
    rank = max(len(a), len(b))
    left, right = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    result: list[Dim] = []
    for p, q in zip(left, right):
        if p != q and p != 1 and q != 1:
            return None
        result.append(q if p == 1 else p)
    return tuple(result)


def indexed_shape(shape: Shape, subscripts: Sequence[Index]) -> Shape:
    """The shape that a subscript selects from a tensor or tile of `shape`. Raises InvalidIRError if it does not fit.

    Scalars drop their axis. Int tiles broadcast together and put their shape where the first of them stands.
    """
    require(len(subscripts) == len(shape), f"{len(subscripts)} subscripts for {len(shape)} axes")
    result: list[Dim] = []
    gathered: Shape | None = None
    at = 0
    for subscript, dim in zip(subscripts, shape):
        if isinstance(subscript, Whole):
            result.append(dim)
        elif isinstance(subscript, Slice):
            result.append(subscript.stop - subscript.start)
        elif isinstance(subscript.type, AxisType):
            result.append(subscript.type.extent)
        else:
            type_ = tile_type(subscript)
            require(type_.dtype.is_integer, f"subscript %{subscript.name} must be of integers, not {type_.dtype}")
            if type_.shape:
                at = len(result) if gathered is None else at
                gathered = broadcast_shapes(gathered or (), type_.shape)
                if gathered is None:
                    raise InvalidIRError("the int tiles of a subscript do not broadcast together")
    return tuple(result) if gathered is None else (*result[:at], *gathered, *result[at:])


def mapped(fn: str, types: Sequence[TileType | TensorType]) -> tuple[DType, Shape]:
    """What the scalar function `fn` gives elementwise for operands of these types. Raises InvalidIRError."""
    function = SCALAR_FUNCTIONS[fn]
    # the most frequent op of all: texts are made only where there is something to say
    if len(types) != function.arity:
        raise InvalidIRError(f"{fn} takes {function.arity} operands, not {len(types)}")
    alike = types[1:] if fn == "where" else types
    require(fn != "where" or types[0].dtype == bool_, "the condition of where must be bool")
    dtype = alike[0].dtype
    for type_ in alike:
        if type_.dtype is not dtype and type_.dtype != dtype:
            raise InvalidIRError(f"{fn} of {' and '.join(str(t.dtype) for t in alike)}")
    if not function.accepts(dtype):
        raise InvalidIRError(f"{fn} does not take {dtype}")
    shape: Shape = ()
    for type_ in types:
        if not shape:
            shape = type_.shape
        elif type_.shape and type_.shape is not shape and type_.shape != shape:
            raise InvalidIRError(f"{fn} of {type_} beside {format_shape(shape)}")
    return function.result(dtype), shape


def require_combinable(fn: str, dtype: DType) -> None:
    """Raises InvalidIRError where a fold or an atomic by `fn` does not make sense for the dtype."""
    require(fn not in ("add", "mul") or dtype != bool_, f"{fn} does not take bool")
    require(fn not in ("and", "or", "xor") or not dtype.is_float, f"{fn} does not take {dtype}")


def reduced_shape(shape: Shape, axes: Sequence[int], keepdims: bool) -> Shape:
    """The shape that is left when `axes` are folded. Raises InvalidIRError for axes that are not there."""
    rank = len(shape)
    require(bool(axes) and all(0 <= axis < rank for axis in axes), f"axes {list(axes)} of rank {rank}")
    require(len(set(axes)) == len(axes), "an axis is reduced twice")
    if keepdims:
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)

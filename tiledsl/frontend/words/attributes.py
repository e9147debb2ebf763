"""What stands after a dot: attributes and methods of tensors, tiles and blocks, members of modules."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from tiledsl.frontend.language import math as language
from tiledsl.frontend.language.element_counts import element_count
from tiledsl.frontend.language.word_advice import method_advice
from tiledsl.frontend.words.access import selected_shape, tensor_type, view_shape
from tiledsl.frontend.words.builtin_shapes import permuted
from tiledsl.frontend.words.lowering import Lowering
from tiledsl.frontend.words.operands import as_tile, operand_like
from tiledsl.frontend.words.values import (
    Access,
    AxisBlock,
    Coordinate,
    FrontValue,
    Method,
    Operand,
    Size,
    Static,
    Tensor,
    TensorAxis,
    Tile,
    Tuple,
    dim_value,
)
from tiledsl.ir.dtypes import DType
from tiledsl.ir.tile_ops import Coordinates, Start
from tiledsl.ir.types import AxisType

METHODS: dict[str, Callable[..., Any]] = {
    "to": language.cast, "reshape": language.reshape, "transpose": language.transpose, "sum": language.sum,
    "prod": language.prod, "max": language.max, "min": language.min, "any": language.any, "all": language.all,
    "mean": language.mean,
    "argmax": language.argmax, "argmin": language.argmin, "cumsum": language.cumsum,
}  # fmt: skip
"""The methods of a tile: the word of the language that takes it as its first argument."""
_TILE_ATTRIBUTES = ("shape", "dtype", "ndim", "size", "T", "mT")
_BLOCK_ATTRIBUTES = ("index", "start", "size")
_DTYPE_ATTRIBUTES = ("name", "bits", "bytes", "is_float", "is_integer", "is_signed")


def attribute(low: Lowering, operand: Operand, name: str) -> FrontValue | object:
    """What `operand.name` stands for: a front-end value, or the member of a module as a plain Python object."""
    match operand.value:
        case Tensor() as tensor if name in _TILE_ATTRIBUTES:
            return _of_tensor(low, operand, tensor, name)
        case (Tile() | Access()) as value if name in METHODS:
            return Method(operand_like(operand, value), name)
        case Coordinate() as coordinate if name in _BLOCK_ATTRIBUTES:
            return Static(1) if name == "size" else coordinate
        case Tile() | Access() if name in _TILE_ATTRIBUTES:
            return _of_tile(low, operand, name)
        case AxisBlock() as block if name in _BLOCK_ATTRIBUTES:
            return _of_block(low, block, name)
        case Static(value=ModuleType() as module) if hasattr(module, name):
            return getattr(module, name)
        case Static(value=DType() as dtype) if name in _DTYPE_ATTRIBUTES:
            return getattr(dtype, name)
        case _:
            low.fail_at(operand, "attribute-unknown", name=name, hint=_advice(operand, name))


def _advice(operand: Operand, name: str) -> str:
    """What to write instead of an attribute that a value does not have."""
    text, known = operand.text, attributes_of(operand.value)
    if isinstance(operand.value, Tensor) and name in METHODS:
        return f"subscript it first: `{text}[...].{name}`"
    if isinstance(operand.value, Static) and not known:
        return f"pass an array as `{text}`" if name in _TILE_ATTRIBUTES else "use tensors, tiles, numbers and tuples"
    return method_advice(text, name, known) or f"it has: {', '.join(known) or 'nothing'}"


def attributes_of(value: FrontValue) -> list[str]:
    """The attributes that a value has, for messages."""
    match value:
        case Tensor():
            return list(_TILE_ATTRIBUTES)
        case Tile() | Access():
            return [*_TILE_ATTRIBUTES, *METHODS]
        case AxisBlock():
            return list(_BLOCK_ATTRIBUTES)
        case Static(value=DType()):
            return list(_DTYPE_ATTRIBUTES)
        case _:
            return []


def _of_tensor(low: Lowering, operand: Operand, tensor: Tensor, name: str) -> FrontValue:
    rank = len(tensor.permutation)
    match name:
        case "shape":
            parameter = tensor.name if tensor.is_parameter else None
            dims = zip(view_shape(tensor), tensor.permutation)
            return Tuple(tuple(Size(dim, TensorAxis(parameter, axis)) for dim, axis in dims))
        case "dtype":
            return Static(tensor_type(tensor).dtype)
        case "ndim":
            return Static(rank)
        case "size":
            return dim_value(element_count(view_shape(tensor)))
        case _:
            permutation = tuple(tensor.permutation[i] for i in transposition(low, operand, name, rank))
            return Tensor(tensor.value, tensor.name, permutation, tensor.is_parameter)


def _of_tile(low: Lowering, operand: Operand, name: str) -> FrontValue:
    value = operand.value
    if isinstance(value, Access):
        shape, dtype = selected_shape(low, value), tensor_type(value.tensor).dtype
    else:
        tile = as_tile(low, operand)
        shape, dtype = tile.value.shape, tile.value.dtype
    match name:
        case "shape":
            return Tuple(tuple(map(dim_value, shape)))
        case "dtype":
            return Static(dtype)
        case "ndim":
            return Static(len(shape))
        case "size":
            return dim_value(element_count(shape))
        case _:
            return permuted(low, as_tile(low, operand), transposition(low, operand, name, len(shape)))


def transposition(low: Lowering, operand: Operand, name: str, rank: int) -> tuple[int, ...]:
    """The permutation of axes that `.T` and `.mT` stand for."""
    if name == "T":
        return tuple(reversed(range(rank)))
    if rank < 2:
        low.fail_at(operand, "transpose-rank", rank=rank)
    return (*range(rank - 2), rank - 1, rank - 2)


def _of_block(low: Lowering, block: AxisBlock, name: str) -> FrontValue:
    match name:
        case "index":
            return Tile(low.builder.emit(Coordinates, axis=block.value).result)
        case "start":
            return Tile(low.builder.emit(Start, axis=block.value).result, weak=True)
        case _:
            assert isinstance(block.value.type, AxisType)
            return dim_value(block.value.type.extent)

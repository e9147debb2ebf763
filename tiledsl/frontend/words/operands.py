"""Turns operands into IR values: constants, sizes and loads are made where a value is needed, dtypes are converted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from tiledsl.frontend.language.promotion import Strength, constant_in, weak_strength
from tiledsl.frontend.words.access import emit_load, tensor_type
from tiledsl.frontend.words.lowering import Lowering
from tiledsl.frontend.words.values import (
    Access,
    AxisBlock,
    FrontValue,
    Operand,
    Size,
    Static,
    Tensor,
    Tile,
    Tuple,
    describe,
    static_number,
)
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import DType, i64
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.tile_ops import Reshape
from tiledsl.ir.types import Shape, format_shape
from tiledsl.support.errors import fail


def read(low: Lowering, operand: Operand) -> Operand:
    """`operand`, loaded if it is a subscripted tensor."""
    if isinstance(operand.value, Access):
        return Operand(Tile(_load(low, operand.value, operand)), operand.text, operand.location)
    return operand


def _load(low: Lowering, access: Access, operand: Operand) -> Value:
    """An implicit load, located where the subscript stands."""
    with low.builder.at(operand.location):
        return emit_load(low, access)


def strength_of(operand: Operand) -> Strength:
    """How an operand takes part in promotion. Raises TileTypeError if it is no tile, scalar or number."""
    number = static_number(operand.value)
    if number is not None:
        return weak_strength(number)
    match operand.value:
        case Size():
            return Strength(i64, weak=True)
        case Tile(value=value, weak=weak):
            return Strength(value.dtype, weak)
        case Access(tensor=tensor):
            return Strength(tensor_type(tensor).dtype, weak=False)
        case _:
            fail_no_value(operand)


def fail_no_value(operand: Operand) -> NoReturn:
    """Raises the error for an operand that is no tile, scalar or number, with what to write instead."""
    fail("not-a-value", operand.location, text=operand.text, what=describe(operand.value), advice=_advice(operand))


def _advice(operand: Operand) -> str:
    text = operand.text
    match operand.value:
        case AxisBlock():
            return f"`{text}.index` are its coordinates, `{text}.start` the first, `{text}.size` their number"
        case Tensor():
            return f"subscript it: `{text}[...]` reads all of it, `{text}[m]` a block"
        case Tuple():
            return "take one of its elements"
        case Static(value=DType() as dtype):
            return f"convert with `x.to(tile.{dtype})`"
        case Static(value=function) if callable(function):
            return f"call it: `{text}(...)`"
        case _:
            return "give a tile, a scalar or a number"


def shape_of(operand: Operand) -> Shape:
    """The shape of an operand that was read: () for numbers and sizes."""
    return operand.value.value.shape if isinstance(operand.value, Tile) else ()


def as_tile(low: Lowering, operand: Operand) -> Tile:
    """The operand as an IR value; Python numbers and sizes become weak scalars."""
    if isinstance(operand.value, Tile):
        return operand.value
    if isinstance(operand.value, Access):
        return Tile(_load(low, operand.value, operand))
    strength = strength_of(operand)
    return Tile(coerce(low, operand, strength.dtype), weak=strength.weak)


def coerce(low: Lowering, operand: Operand, dtype: DType) -> Value:
    """The operand converted to `dtype`."""
    low.require_supported(dtype)
    number = static_number(operand.value)
    if number is not None:
        return constant(low, operand, number, dtype)
    match operand.value:
        case Size(dim=dim):
            return low.builder.cast(low.integer(dim), dtype)
        case Tile(value=value):
            return low.builder.cast(value, dtype)
        case Access():
            return low.builder.cast(_load(low, operand.value, operand), dtype)
        case _:
            fail_no_value(operand)


def constant(low: Lowering, operand: Operand, number: float, dtype: DType) -> Value:
    """A number as a scalar constant. Raises TileTypeError for an int that the dtype cannot hold."""
    value = constant_in(number, dtype)
    if value is None:
        low.fail_at(operand, "constant-range", dtype=dtype)
    return low.builder.constant(value, dtype)


def common_shape(low: Lowering, operands: Sequence[Operand]) -> Shape:
    """The NumPy broadcast of operands that were read.

    Axes of two sizes where one has no name in the kernel are taken to be equal (checked at the call); otherwise
    raises TileShapeError with both operands.
    """
    result: list[Dim] = []
    owner: list[Operand] = []
    for operand in operands:
        shape = low.sizes.resolve_shape(shape_of(operand))
        result[:0] = [1] * (len(shape) - len(result))
        owner[:0] = [operand] * (len(result) - len(owner))
        for back in range(1, len(shape) + 1):
            left, right = low.sizes.resolve(result[-back]), shape[-back]
            if left == 1:
                result[-back], owner[-back] = right, operand
            elif right != 1 and not low.sizes.unify(left, right):
                fail_shapes(low, owner[-back], operand, left, right)
    return low.sizes.resolve_shape(tuple(result))


def fail_shapes(low: Lowering, a: Operand, b: Operand, left: Dim, right: Dim) -> NoReturn:
    """Raises the error for two operands that do not broadcast together because of the sizes `left` and `right`."""
    first, second = (format_shape(low.sizes.resolve_shape(shape_of(o))) for o in (a, b))
    low.fail("shapes-differ", a=a.text, b=b.text, first=first, second=second, left=left, right=right)


def broadcast(low: Lowering, value: Value, shape: Shape) -> Value:
    """A value under a larger shape. It is known to fit, but for sizes that were found equal by now."""
    return low.builder.broadcast(value, shape)


def reshape(low: Lowering, value: Value, shape: Shape) -> Value:
    """The same elements under another shape of the same size."""
    return value if value.shape == shape else low.builder.emit(Reshape, source=value, shape=shape).result


def operand_like(operand: Operand, value: FrontValue) -> Operand:
    """Another value under the same words."""
    return Operand(value, operand.text, operand.location)

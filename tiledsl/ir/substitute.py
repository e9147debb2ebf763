"""Puts sizes in place of size symbols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tiledsl.ir.core import Fact, Function, Index, Op
from tiledsl.ir.symbolic import Dim, substitute
from tiledsl.ir.types import AxisType, Shape, Slice, TensorType, TileType, Type


def substitute_symbols(function: Function, values: Mapping[str, Dim]) -> None:
    """Replaces the named symbols wherever `function` speaks of sizes; changes it in place.

    A symbol that a block declares may be replaced too: by another symbol, or by a size that each program's block has.
    Facts that come to speak of a known size vanish if they hold, and stay for the verifier to report if not.

    # {"M": 64}: `%a: tensor<f32, [M, K]>` => `%a: tensor<f32, [64, K]>`, facts [M % 16 == 0] => none
    """
    for parameter in function.parameters:
        parameter.type = substitute_in_type(parameter.type, values)
    substitute_in_ops(function.body.ops, values)
    facts = [Fact(substitute(fact.dim, values), fact.divisor) for fact in function.facts]
    function.facts = tuple(f for f in facts if not isinstance(f.dim, int) or f.dim % f.divisor != 0)


def substitute_in_ops(ops: Iterable[Op], values: Mapping[str, Dim]) -> None:
    """The same for some ops and those nested in them."""
    for op in ops:
        for nested in op.walk():
            _substitute_in_op(nested, values)


def substitute_in_type(type_: Type, values: Mapping[str, Dim]) -> Type:
    """The type with the named symbols replaced."""
    match type_:
        case TensorType():
            return TensorType(type_.dtype, substitute_in_shape(type_.shape, values), type_.unit)
        case TileType():
            return TileType(type_.dtype, substitute_in_shape(type_.shape, values), type_.level, type_.layout)
        case AxisType():
            return AxisType(substitute(type_.extent, values))


def substitute_in_shape(shape: Shape, values: Mapping[str, Dim]) -> Shape:
    """The shape with the named symbols replaced."""
    return tuple(substitute(dim, values) for dim in shape)


def _substitute_in_op(op: Op, values: Mapping[str, Dim]) -> None:
    for result in op.results:
        result.type = substitute_in_type(result.type, values)
    for body in op.bodies.values():
        for argument in body.arguments:
            argument.type = substitute_in_type(argument.type, values)
    for name, field in op.attribute_fields.items():
        if field.kind == "dim":
            op.attributes[name] = substitute(op.attributes[name], values)
        elif field.kind == "shape":
            op.attributes[name] = substitute_in_shape(op.attributes[name], values)
    for name, operand in op.fields.items():
        if isinstance(operand, tuple) and any(isinstance(item, Slice) for item in operand):
            op.set_field(name, tuple(_substitute_in_index(item, values) for item in operand))


def _substitute_in_index(index: Index, values: Mapping[str, Dim]) -> Index:
    if isinstance(index, Slice):
        return Slice(substitute(index.start, values), substitute(index.stop, values))
    return index

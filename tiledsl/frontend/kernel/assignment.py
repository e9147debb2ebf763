"""Binds names: variables, sizes of tensors, elements of tuples, parts of tensors."""

from __future__ import annotations

import ast

from tiledsl.frontend.kernel.expressions import evaluate, frozen, operand, reject
from tiledsl.frontend.kernel.frame import Frame
from tiledsl.frontend.source.jumps import printable_name
from tiledsl.frontend.words.builtin_memory import store
from tiledsl.frontend.words.values import (
    Access,
    AxisBlock,
    FrontValue,
    Operand,
    Size,
    Tensor,
    Tile,
    Tuple,
    describe,
    dim_value,
    size_of,
)
from tiledsl.support.errors import Label


def assign(frame: Frame, target: ast.expr, value: Operand) -> None:
    """`target = value`"""
    match target:
        case ast.Name():
            bind(frame, target, value.value)
        case ast.Tuple():
            _unpack(frame, target, value)
        case ast.Subscript():
            destination = operand(frame, target)
            if not isinstance(destination.value, Access):
                frame.fail(target, "store-target", text=destination.text, what=_owner(frame, target))
            with frame.low.builder.at(frame.location(target)):
                store(frame.low, destination.value, value, destination.text)
        case ast.Attribute():
            frame.fail(target, "assign-attribute", text=frame.source.segment(target))
        case _:
            reject(frame, target)


def _owner(frame: Frame, target: ast.Subscript) -> str:
    return describe(evaluate(frame, target.value))


def _unpack(frame: Frame, target: ast.Tuple, value: Operand) -> None:
    if not isinstance(value.value, Tuple):
        frame.fail(target, "unpack-kind", text=value.text, what=describe(value.value))
    items = value.value.items
    owner = value.text.removesuffix(".shape")
    if len(items) != len(target.elts) and owner != value.text:
        frame.fail(target, "unpack-rank", text=value.text, name=owner, count=len(items), expected=len(target.elts))
    if len(items) != len(target.elts):
        frame.fail(target, "unpack-count", text=value.text, count=len(items), expected=len(target.elts))
    for element, item in zip(target.elts, items):
        assign(frame, element, Operand(item, value.text, value.location))


def bind(frame: Frame, target: ast.Name, value: FrontValue) -> None:
    """Gives a variable its value. The size of an axis takes the variable's name, or must equal what has it."""
    name, location = target.id, frame.location(target)
    if isinstance(value, Size) and value.axis is not None and not name.startswith("_"):
        _name_size(frame, target, value)
    else:
        frame.size_names.pop(name, None)
        value = Size(value.dim) if isinstance(value, Size) else frozen(frame, name_tensor(name, value))
        _hint(name, value)
        frame.scope[name] = value
    frame.assigned[name] = location


def _name_size(frame: Frame, target: ast.Name, value: Size) -> None:
    """`M, K = a.shape`: names the sizes; where a name is taken by a size already, the two are equal."""
    sizes, name = frame.low.sizes, target.id
    assert value.axis is not None
    earlier = frame.scope.get(name) if name in frame.size_names else None
    known = None if earlier is None else size_of(earlier)
    if known is not None and not sizes.equate(known, value.dim):
        label = Label(frame.size_names[name], "named here")
        first, second = sizes.resolve(known), sizes.resolve(value.dim)
        frame.fail(target, "size-conflict", labels=[label], name=name, first=first, second=second)
    sizes.name_axis(value.axis, value.dim, name, frame.location(target))
    frame.scope[name] = dim_value(sizes.resolve(value.dim))
    frame.size_names.setdefault(name, frame.location(target))


def _hint(name: str, value: FrontValue) -> None:
    """The printed IR calls a value as the kernel does."""
    if isinstance(value, (Tile, Tensor, AxisBlock)) and not value.value.name and value.value.op is not None:
        value.value.name = printable_name(name)


def name_tensor(name: str, value: FrontValue) -> FrontValue:
    """A tensor that the kernel made goes by the variable's name in messages."""
    if isinstance(value, Tensor) and not value.name:
        return Tensor(value.value, name, value.permutation, value.is_parameter)
    return value

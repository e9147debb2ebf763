"""Finds the size symbols from the shapes of a call and checks all that the kernel says of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from tiledsl.ir.symbolic import Dim, evaluate, symbol_name, symbols_of
from tiledsl.runtime.programs.interface import Interface, NewTensor, TensorParameter
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import Label, fail
from tiledsl.support.location import Location

Sizes = dict[str, int]
ArrayShape = tuple[int, ...]


def bind_sizes(interface: Interface, shapes: Sequence[ArrayShape]) -> Sizes:
    """The size symbols of a call, from the shape of each tensor parameter (whose ranks are right already).

    Raises TileShapeError where sizes that must be equal are not, where a size is not what the kernel asks for, where
    one breaks a promise that the kernel was compiled with, and where a part of an array has less than no elements.
    """
    sizes: Sizes = {}
    first_axis: dict[str, tuple[int, int]] = {}
    axes = [
        (number, axis, dim) for number, tensor in enumerate(interface.tensors) for axis, dim in enumerate(tensor.shape)
    ]
    for number, axis, dim in axes:
        name = symbol_name(dim)
        if name is not None and name not in sizes:
            sizes[name] = shapes[number][axis]
            first_axis[name] = (number, axis)
    for number, axis, dim in axes:
        if evaluate(dim, sizes) != shapes[number][axis]:
            _fail_size(interface, shapes, sizes, first_axis, number, axis)
    for fact in interface.facts:
        actual = evaluate(fact.dim, sizes)
        if actual % fact.divisor != 0:
            fail(
                "size-divisible", caller_location(),
                size=fact.dim, actual=actual, divisor=fact.divisor, kernel=interface.name,
            )  # fmt: skip
    for part in interface.part_sizes:
        actual = evaluate(part.size, sizes)
        if actual < 0:
            fail(
                "part-negative", caller_location(), labels=[Label(part.location, "it is made here")],
                axis=part.axis, size=part.size, actual=actual, values=_values(part.size, sizes),
            )  # fmt: skip
    return sizes


def _fail_size(
    interface: Interface,
    shapes: Sequence[ArrayShape],
    sizes: Sizes,
    first_axis: dict[str, tuple[int, int]],
    number: int,
    axis: int,
) -> NoReturn:
    tensor = interface.tensors[number]
    dim, actual, shape = tensor.shape[axis], shapes[number][axis], shapes[number]
    labels, way_out = _said(interface, tensor, axis), _way_out(interface, tensor, axis)
    location = caller_location()
    name = symbol_name(dim)
    if name is not None:
        other_number, other_axis = first_axis[name]
        other = interface.tensors[other_number]
        way_out = way_out or _way_out(interface, other, other_axis)
        fail(
            "size-mismatch", location, labels=_said(interface, other, other_axis) + labels, size=name, way_out=way_out,
            first=sizes[name], first_parameter=other.name, first_axis=other_axis, first_shape=shapes[other_number],
            second=actual, second_parameter=tensor.name, second_axis=axis, second_shape=shape,
        )  # fmt: skip
    if isinstance(dim, int):
        fail(
            "size-fixed", location, labels=labels,
            parameter=tensor.name, axis=axis, expected=dim, actual=actual, shape=shape, way_out=way_out,
        )  # fmt: skip
    fail(
        "size-expression", location, labels=labels, parameter=tensor.name, axis=axis, size=dim, shape=shape,
        expected=evaluate(dim, sizes), actual=actual, values=_values(dim, sizes), way_out=way_out,
    )  # fmt: skip


def _said(interface: Interface, tensor: TensorParameter, axis: int) -> list[Label]:
    """Where the kernel says how long the axis is."""
    origin = interface.origin(tensor.name, axis)
    place: Location = interface.location if origin is None else origin.location
    dim = tensor.shape[axis]
    says = f"must be {dim}" if isinstance(dim, int) else f"is `{dim}`"
    by_block = "" if origin is None or not origin.block else f", for `{origin.block}` runs over it"
    return [Label(place, f"here axis {axis} of `{tensor.name}` {says}{by_block}")]


def _way_out(interface: Interface, tensor: TensorParameter, axis: int) -> str:
    """What to write where a block of another axis is meant to subscript an axis of another size."""
    origin = interface.origin(tensor.name, axis)
    if origin is None or not origin.block:
        return ""
    named = f"size_of_{tensor.name} = {tensor.name}.shape[{axis}]"
    return f"; or, if `{origin.block}` runs over a part of `{tensor.name}`, name its size first: `{named}`"


def _values(dim: Dim, sizes: Sizes) -> str:
    return ", ".join(f"{name} = {sizes[name]}" for name in sorted(symbols_of(dim)))


def new_shape(tensor: NewTensor, sizes: Sizes) -> ArrayShape:
    """The shape of a tensor that the kernel makes. Raises TileShapeError if a size comes out negative."""
    shape = tuple(evaluate(dim, sizes) for dim in tensor.shape)
    for axis, (dim, actual) in enumerate(zip(tensor.shape, shape)):
        if actual < 0:
            fail(
                "size-negative", caller_location(), labels=[Label(tensor.location, f"`{tensor.name}` is made here")],
                output=tensor.name, axis=axis, size=dim, actual=actual, values=_values(dim, sizes),
            )  # fmt: skip
    return shape

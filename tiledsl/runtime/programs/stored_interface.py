"""Calling conventions as JSON, for the artifact cache: small, and read back without the parser of IR text."""

from __future__ import annotations

from typing import Any, TypeAlias

from tiledsl.ir.core import Fact, SizeOrigin
from tiledsl.ir.dtypes import BY_NAME
from tiledsl.ir.symbolic import OPERATIONS, Atom, Dim, Opaque, Symbol, symbol
from tiledsl.runtime.programs.interface import (
    Interface,
    NewTensor,
    Parameter,
    PartSize,
    Result,
    ScalarParameter,
    TensorParameter,
)
from tiledsl.support.location import Location

Json: TypeAlias = Any
"""What `json` reads and writes. Lists rather than dicts: the order of fields is the order in the classes."""


def interface_to_json(interface: Interface) -> Json:
    """Everything in an interface as lists, strings and numbers."""
    return [
        interface.name,
        _location_to_json(interface.location),
        [_parameter_to_json(p) for p in interface.parameters],
        [_new_tensor_to_json(tensor) for tensor in interface.new_tensors],
        [[r.kind, r.index] for r in interface.results],
        [[dim_to_json(f.dim), f.divisor] for f in interface.facts],
        [[o.parameter, o.axis, dim_to_json(o.size), _location_to_json(o.location), o.block] for o in interface.origins],
        [[p.axis, dim_to_json(p.size), _location_to_json(p.location)] for p in interface.part_sizes],
    ]


def interface_from_json(stored: Json) -> Interface:
    """The inverse of `interface_to_json`."""
    name, location, parameters, new_tensors, results, facts, origins, part_sizes = stored
    return Interface(
        name,
        _location_from_json(location),
        tuple(_parameter_from_json(p) for p in parameters),
        tuple(
            NewTensor(name, BY_NAME[dtype], _shape_from_json(shape), unit, _location_from_json(place))
            for name, dtype, shape, unit, place in new_tensors
        ),
        tuple(Result(kind, index) for kind, index in results),
        tuple(Fact(dim_from_json(dim), divisor) for dim, divisor in facts),
        tuple(
            SizeOrigin(parameter, axis, dim_from_json(dim), _location_from_json(place), block)
            for parameter, axis, dim, place, block in origins
        ),
        tuple(PartSize(axis, dim_from_json(dim), _location_from_json(place)) for axis, dim, place in part_sizes),
    )


def _new_tensor_to_json(tensor: NewTensor) -> Json:
    shape, place = _shape_to_json(tensor.shape), _location_to_json(tensor.location)
    return [tensor.name, tensor.dtype.name, shape, tensor.unit, place]


def _parameter_to_json(parameter: Parameter) -> Json:
    match parameter:
        case TensorParameter(name, dtype, shape, unit, written):
            return [name, dtype.name, _shape_to_json(shape), unit, written]
        case ScalarParameter(name, dtype):
            return [name, dtype.name]


def _parameter_from_json(stored: Json) -> Parameter:
    name, dtype, *rest = stored
    if not rest:
        return ScalarParameter(name, BY_NAME[dtype])
    shape, unit, written = rest
    return TensorParameter(name, BY_NAME[dtype], _shape_from_json(shape), unit, written)


def _shape_to_json(shape: tuple[Dim, ...]) -> Json:
    return [dim_to_json(dim) for dim in shape]


def _shape_from_json(stored: Json) -> tuple[Dim, ...]:
    return tuple(dim_from_json(dim) for dim in stored)


def dim_to_json(dim: Dim) -> Json:
    """A number, or a list of [coefficient, atom, atom ...]; an atom is a name or [operation, left, right]."""
    if isinstance(dim, int):
        return dim
    return [[coefficient, *map(_atom_to_json, monomial)] for monomial, coefficient in dim.terms]


def _atom_to_json(atom: Atom) -> Json:
    match atom:
        case Symbol(name):
            return name
        case Opaque(operation, left, right):
            return [operation, dim_to_json(left), dim_to_json(right)]


def dim_from_json(stored: Json) -> Dim:
    """The inverse of `dim_to_json`."""
    if isinstance(stored, int):
        return stored
    total: Dim = 0
    for coefficient, *atoms in stored:
        product: Dim = coefficient
        for atom in atoms:
            product = product * _atom_from_json(atom)
        total = total + product
    return total


def _atom_from_json(stored: Json) -> Dim:
    if isinstance(stored, str):
        return symbol(stored)
    operation, left, right = stored
    return OPERATIONS[operation](dim_from_json(left), dim_from_json(right))


def _location_to_json(location: Location) -> Json:
    """The chain of calls is left out: messages at a call show one place."""
    return [location.file, location.line, location.column, location.end_line, location.end_column]


def _location_from_json(stored: Json) -> Location:
    return Location(*stored)

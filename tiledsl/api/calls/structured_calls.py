"""Arguments of graphs and modules: taken apart into the arrays that the entry's parameters stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from tiledsl.frontend.trace.structures import Keyed, Leaf, Sequenced, Static, Structure, take_apart
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail


def flatten_call(
    name: str, expected: Mapping[str, Structure], args: Sequence[object], kwargs: Mapping[str, object]
) -> list[object]:
    """The arrays of a call, in order. Raises TileTypeError for arguments of another structure."""
    names = list(expected)

    def refuse(problem: str) -> NoReturn:
        fail("graph-arguments", caller_location(), name=name, problem=problem, known=", ".join(names))

    if len(args) > len(names):
        refuse(f"takes {len(names)} arguments but was given {len(args)}")
    given = dict(zip(names, args))
    for argument, value in kwargs.items():
        if argument in given or argument not in expected:
            refuse(f"was given `{argument}` twice" if argument in given else f"has no argument `{argument}`")
        given[argument] = value
    leaves: list[object] = []
    for argument, structure in expected.items():
        if argument not in given:
            refuse(f"was called without `{argument}`")
        problem = take_apart(structure, given[argument], leaves)
        if problem is not None:
            refuse(f"was called with another `{argument}`: {problem}")
    return leaves


Json: TypeAlias = Any


def structure_to_json(structure: Structure) -> Json:
    """A structure as lists; named tuples become tuples, and what is no JSON becomes None."""
    match structure:
        case Leaf(name):
            return ["leaf", name]
        case Static(value):
            return ["static", value if isinstance(value, (int, float, str)) else None]
        case Sequenced(kind, items):
            return ["list" if issubclass(kind, list) else "tuple", [structure_to_json(item) for item in items]]
        case Keyed(items):
            return ["dict", [[key, structure_to_json(item)] for key, item in items]]


def structure_from_json(stored: Json) -> Structure:
    """The inverse of `structure_to_json`."""
    kind, value = stored
    match kind:
        case "leaf":
            return Leaf(value)
        case "static":
            return Static(value)
        case "dict":
            return Keyed(tuple((key, structure_from_json(item)) for key, item in value))
        case _:
            return Sequenced(list if kind == "list" else tuple, tuple(map(structure_from_json, value)))

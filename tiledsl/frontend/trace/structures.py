"""Nested tuples, lists and dicts of arrays: flattened to a list, and put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, Union, cast


@dataclass(frozen=True)
class Leaf:
    """One array. Its place in the list follows from the order of leaves."""

    name: str


@dataclass(frozen=True)
class Static:
    """What is no array: handed through."""

    value: Any


@dataclass(frozen=True)
class Sequenced:
    """A tuple, list or named tuple."""

    kind: type
    items: tuple[Structure, ...]


@dataclass(frozen=True)
class Keyed:
    """A dict, in the order of its keys."""

    items: tuple[tuple[Any, Structure], ...]


Structure: TypeAlias = Union[Leaf, Static, Sequenced, Keyed]


def structure_of(value: object, name: str, is_leaf: Callable[[object], bool], leaves: list[Any]) -> Structure:
    """The structure of `value`, whose arrays are appended to `leaves`; their names are made of `name` and the path."""
    if is_leaf(value):
        leaves.append(value)
        return Leaf(name)
    if isinstance(value, (tuple, list)):
        items = cast("Sequence[object]", value)
        parts = tuple(structure_of(item, f"{name}_{i}", is_leaf, leaves) for i, item in enumerate(items))
        return Sequenced(type(items), parts)
    if isinstance(value, dict):
        entries = cast("Mapping[object, object]", value).items()
        return Keyed(tuple((key, structure_of(item, f"{name}_{key}", is_leaf, leaves)) for key, item in entries))
    return Static(value)


def leaf_names(structure: Structure) -> Iterator[str]:
    """The names of the arrays, in order."""
    match structure:
        case Leaf(name):
            yield name
        case Static():
            return
        case Sequenced(_, items):
            for item in items:
                yield from leaf_names(item)
        case Keyed(items):
            for _, item in items:
                yield from leaf_names(item)


def build(structure: Structure, leaves: Iterator[Any]) -> Any:
    """Puts a value together, taking its arrays from `leaves` in order."""
    match structure:
        case Leaf():
            return next(leaves)
        case Static(value):
            return value
        case Sequenced(kind, items):
            built = [build(item, leaves) for item in items]
            make: Any = kind
            return make(*built) if hasattr(kind, "_fields") else make(built)
        case Keyed(items):
            return {key: build(item, leaves) for key, item in items}


def take_apart(structure: Structure, value: object, leaves: list[Any]) -> str | None:
    """Appends the arrays of `value`, which should have this structure, to `leaves`; else says what is wrong."""
    match structure:
        case Leaf():
            leaves.append(value)
            return None
        case Static():
            return None
        case Sequenced(kind, items):
            if not isinstance(value, (tuple, list)):
                return f"a {kind.__name__} of {len(items)} is needed, not a {type(value).__name__}"
            parts = cast("Sequence[object]", value)
            if len(parts) != len(items):
                return f"a {kind.__name__} of {len(items)} is needed, not of {len(parts)}"
            return _first(take_apart(item, part, leaves) for item, part in zip(items, parts))
        case Keyed(items):
            keys = [key for key, _ in items]
            if not isinstance(value, dict) or set(cast("Mapping[object, object]", value)) != set(keys):
                return f"a dict with the keys {', '.join(map(repr, keys))} is needed"
            entries = cast("Mapping[object, object]", value)
            return _first(take_apart(item, entries[key], leaves) for key, item in items)


def _first(problems: Iterator[str | None]) -> str | None:
    return next((problem for problem in problems if problem is not None), None)

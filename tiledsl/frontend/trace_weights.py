"""Arrays that a formula reads from outside: what they are called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import FrameType
from typing import Any, cast

import numpy as np

from tiledsl.frontend.array_types import identity


def name_of(array: object, frames: Iterable[FrameType]) -> str:
    """What the user calls an array: its variable, `bias` for `layer.bias`, `p_bias` for `p["bias"]`; else `weight`.

    A view that has no name of its own goes by that of the array which it looks at.
    """
    wanted = [array]
    if isinstance(array, np.ndarray) and isinstance(array.base, np.ndarray):
        wanted.append(array.base)
    scopes: list[Mapping[str, Any]] = []
    for frame in frames:
        scopes += [frame.f_locals, frame.f_globals]
    for one in wanted:
        for scope in scopes:
            for name, value in list(scope.items()):
                if _same(value, one):
                    return name
        for scope in scopes:
            found = _member(scope, one)
            if found is not None:
                return found
    return "weight"


def _same(value: object, array: object) -> bool:
    if value is array:
        return True
    both = isinstance(value, np.ndarray) and isinstance(array, np.ndarray)
    return both and identity(value) == identity(array)


def _member(scope: Mapping[str, Any], array: object) -> str | None:
    """The name of an array in an attribute or an item of a variable."""
    for name, value in list(scope.items()):
        if isinstance(value, dict):
            for item, member in list(cast("dict[object, object]", value).items()):
                if isinstance(item, str) and _same(member, array):
                    return f"{name}_{item}"
        elif not isinstance(value, type):
            for attribute, member in list(_attributes(value).items()):
                if _same(member, array):
                    return attribute
    return None


def _attributes(value: object) -> Mapping[str, object]:
    try:
        return vars(value)
    except Exception:
        return {}

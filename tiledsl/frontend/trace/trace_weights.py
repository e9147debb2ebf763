"""Arrays that a formula reads from outside: what they are called."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any, cast

import numpy as np

from tiledsl.frontend.trace.array_types import identity, is_array

DEPTH = 4
"""How far into lists, dicts and objects names are looked for: `model.layers[0].attention["bias"]`."""
MOST = 5000
"""How many things are looked at in one scope."""
_PLAIN = (int, float, complex, str, bytes, type, FunctionType, BuiltinFunctionType, ModuleType, type(None))


class WeightNames:
    """Finds what the user calls an array: `w`, `layers_0_bias` for `layers[0].bias` or `layers[0]["bias"]`.

    Variables from outside of a function go before its own: those are the same for all of its calls.
    """

    def __init__(self) -> None:
        self._globals: dict[int, Mapping[object, str]] = {}

    def name(self, array: Any, frames: Sequence[FrameType]) -> str:
        """The name; `weight` if nothing is found. A view without a name goes by that of what it looks at."""
        wanted = [identity(array)]
        if isinstance(array, np.ndarray) and is_array(cast("Any", array).base):
            wanted.append(identity(cast("Any", array).base))
        for scope in self._scopes(frames):
            for key in wanted:
                if key in scope:
                    return scope[key].removeprefix("self_")
        return "weight"

    def _scopes(self, frames: Sequence[FrameType]) -> Iterator[Mapping[object, str]]:
        """The arrays of one scope after the other, by what they are called there."""
        for frame in frames:
            outer = {name: frame.f_locals[name] for name in frame.f_code.co_freevars if name in frame.f_locals}
            yield _arrays_in(outer)
        for frame in frames:
            key = id(frame.f_globals)
            if key not in self._globals:
                self._globals[key] = _arrays_in(frame.f_globals)
            yield self._globals[key]
        for frame in reversed(frames):
            yield _arrays_in(frame.f_locals)


def _arrays_in(scope: Mapping[str, Any]) -> Mapping[object, str]:
    """The name of each array in a scope, the shortest way to it."""
    names: dict[object, str] = {}
    seen: set[int] = set()
    waiting = deque((name, value, 0) for name, value in list(scope.items()) if not name.startswith("__"))
    while waiting and len(seen) < MOST:
        name, value, depth = waiting.popleft()
        if isinstance(value, _PLAIN) or id(value) in seen or type(value).__module__.startswith("tiledsl."):
            continue  # among ours are graphs, which hold arrays by other names
        seen.add(id(value))
        if _is_array(value):
            names.setdefault(identity(value), name)
        elif depth < DEPTH:
            waiting.extend((f"{name}_{part}", member, depth + 1) for part, member in _members(value))
    return names


def _is_array(value: Any) -> bool:
    try:
        return is_array(value)
    except Exception:  # it may be anything, and only a name is looked for
        return False


def _members(value: Any) -> Iterator[tuple[object, Any]]:
    """The items of a list or dict, the attributes of an object."""
    if isinstance(value, dict):
        yield from list(cast("dict[object, object]", value).items())
    elif isinstance(value, (list, tuple)):
        yield from enumerate(cast("Sequence[object]", value))
    else:
        try:
            yield from list(cast("dict[str, object]", vars(value)).items())
        except Exception:  # as above
            return

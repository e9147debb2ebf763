"""How arguments find their parameters: as in a call of a Python function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from tiledsl.runtime.calls.parameters import Parameters
from tiledsl.support.errors import TileTypeError
from tiledsl.support.location import BUILTIN


def plain(a: int, b: int = 2, *, c: int = 3) -> tuple[object, ...]:
    return (a, b, c)


def positional(a: int, /, b: int) -> tuple[object, ...]:
    return (a, b)


CALLS: list[tuple[tuple[int, ...], dict[str, int]]] = [
    ((1,), {}),
    ((1, 5), {}),
    ((1,), {"b": 7}),
    ((), {"a": 1, "c": 4}),
    ((1, 2), {"c": 9}),
    ((), {}),
    ((1, 2, 3), {}),
    ((1,), {"a": 1}),
    ((1,), {"d": 1}),
    ((), {"a": 1, "b": 2}),
]


@pytest.mark.parametrize(("args", "kwargs"), CALLS)
@pytest.mark.parametrize("function", [plain, positional])
def test_arrange_is_what_python_does(
    function: Callable[..., tuple[object, ...]], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    parameters = Parameters("f", inspect.signature(function), frozenset(), BUILTIN)
    try:
        expected = function(*args, **kwargs)
    except TypeError:
        with pytest.raises(TileTypeError):
            parameters.arrange(args, kwargs)
    else:
        assert parameters.arrange(args, kwargs) == expected


def test_only_some() -> None:
    parameters = Parameters("f", inspect.signature(plain), frozenset({"b"}), BUILTIN).only(["a", "c"])
    assert parameters.names == ("a", "c")
    assert parameters.constants == frozenset()
    assert parameters.arrange((1,), {}) == (1, 3)

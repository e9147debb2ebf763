"""The trace that is under way, if any: where words of the language, and kernels, go when they meet whole tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import wraps
from typing import Any, Protocol, TypeVar

from typing_extensions import ParamSpec

P = ParamSpec("P")
R = TypeVar("R")


class Recorder(Protocol):
    """What a trace does for those who only know that there is one."""

    def word(self, stub: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Records a call of a word of the language and gives its result."""
        ...

    def operation(self, fn: str, *operands: Any) -> Any:
        """Records an operator: the scalar function `fn` elementwise, `matmul` or `truth`."""
        ...

    def subscript(self, source: Any, key: Any) -> Any:
        """Records `source[key]`."""
        ...

    def refuse(self, code: str, value: Any, operation: str) -> Any:
        """Raises the error `code` of the catalogue for something that a traced value cannot do."""
        ...

    def lacks(self, value: Any, name: str) -> Any:
        """Raises the error for an attribute that a traced value does not have: an AttributeError."""
        ...


ACTIVE: ContextVar[Recorder | None] = ContextVar("tiledsl_trace", default=None)
"""The trace of this thread (or task)."""


def word(stub: Callable[P, R]) -> Callable[P, R]:
    """Makes a stub of the language a word that traces record; without a trace the stub itself is called, and fails."""

    @wraps(stub)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        recorder = ACTIVE.get()
        return stub(*args, **kwargs) if recorder is None else recorder.word(call, args, kwargs)

    return call

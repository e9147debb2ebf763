"""A prepared call: all that a call looks at has been looked at, and what is left is to go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from tiledsl.runtime.calls.outputs import as_tuple

Prepare: TypeAlias = (
    "Callable[[tuple[object, ...], Mapping[str, object], object], tuple[Callable[[], object], object, object]]"
)
"""Looks at arguments and `out`: gives what runs the call, what it returns, and what must be kept alive for it."""


class PreparedCall:
    """What `kernel.bind(...)` gives. Calling it runs the kernel on the arrays that it was bound to.

    The outputs are the same arrays at each call, and are in `result`. It keeps all of its arrays alive; whoever frees
    or moves the memory of one (PyTorch's `resize_`, `set_`, `.data = ...`) has to bind anew.
    """

    def __init__(
        self, prepare: Prepare, args: tuple[object, ...], kwargs: Mapping[str, object], out: object, kernel: str
    ) -> None:
        """`kernel`: its name. Raises TileError if the arguments do not fit."""
        self._kernel = kernel
        self._prepare = prepare
        self._run, self.result, self._kept = prepare(args, kwargs, out)

    def __call__(self) -> object:
        """Runs, and gives the outputs. Raises TileRuntimeError as the kernel itself does."""
        self._run()
        return self.result

    def update(self, *args: object, out: object = None, **kwargs: object) -> None:
        """Binds other arguments in the place of all. Raises TileError, and leaves everything, if they do not fit."""
        self._run, self.result, self._kept = self._prepare(args, kwargs, out)

    def __repr__(self) -> str:
        results = () if self.result is None else as_tuple(self.result)
        made = ", ".join(map(_kind, results))
        return f"<prepared call of {self._kernel}{f' -> {made}' if made else ''}>"


def _kind(value: Any) -> str:
    """`float32[8, 6]`: what can be said of an array of any library."""
    shape = getattr(value, "shape", None)
    if shape is None:
        return type(value).__name__
    return f"{getattr(value, 'dtype', '?')}[{', '.join(map(str, shape))}]"

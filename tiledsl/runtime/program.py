"""What the runtime asks of a back end: programs that can be kept as bytes, loaded, and bound to the sizes of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class BoundProgram(Protocol):
    """A program ready to run for certain sizes and strides."""

    @property
    def description(self) -> object:
        """What was chosen for these sizes (blocks, threads ...); its `str` is shown by `explain()`."""
        ...

    def __call__(self, pointers: Sequence[int], scalars: Sequence[int | float], /) -> None:
        """Runs on tensors at these addresses. TileRuntimeError: a failed assertion."""
        ...


class LoadedProgram(Protocol):
    """Code in memory."""

    def bind(self, symbols: Mapping[str, int], strides: Sequence[tuple[int, ...]], threads: int, /) -> BoundProgram:
        """Prepares for a call. `strides` are in elements: of the tensor parameters, then of the new tensors."""
        ...


class Program(Protocol):
    """Compiled code, not loaded yet."""

    def to_bytes(self) -> bytes: ...
    def load(self) -> LoadedProgram: ...

"""Values of a model while it is walked: known, at a place of the run, or recorded in the graph under way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from tiledsl.frontend.trace.traced import TracedTensor
from tiledsl.importers.onnx.model import Array
from tiledsl.importers.recording import Recording


@dataclass(eq=False)
class Value:
    """One tensor of a model, in one state or two:

    - known: `array` is what it holds, whatever the inputs are;
    - at hand: a run has it at a place (`PartTree`);
    - recorded: the graph under way, `recording`, computes it, or has it as a parameter.
    """

    name: str
    array: Array | None = None
    place: int | None = None
    tensor: TracedTensor | None = None
    recording: Recording | None = None
    type: tuple[Any, tuple[int, ...]] | None = None
    """NumPy's dtype and shape of a value at hand, once they were asked for."""

    @property
    def is_known(self) -> bool:
        return self.array is not None

    @property
    def is_recorded(self) -> bool:
        """Whether the graph under way is the only one that has it."""
        return self.array is None and self.place is None


Item: TypeAlias = "Value | list[Item] | None"
"""A value of ONNX: a tensor, a sequence, or an optional that has none."""


def tensors_of(item: Any) -> Iterator[Value]:
    """The tensors of a value, in order."""
    if isinstance(item, Value):
        yield item
    elif isinstance(item, (list, tuple)):
        for part in cast("Sequence[Any]", item):
            yield from tensors_of(part)


class Scope:
    """The values of a graph by name; those of the graphs around it are seen too."""

    def __init__(self, outer: Scope | None = None) -> None:
        self._outer = outer
        self._values: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """Raises KeyError for a name that was not defined."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope._values:
                return scope._values[name]
            scope = scope._outer
        raise KeyError(name)

    def __setitem__(self, name: str, item: Any) -> None:
        self._values[name] = item

    def forget(self, names: Sequence[str]) -> None:
        """Drops values of this graph that nothing reads any more."""
        for name in names:
            self._values.pop(name, None)

    def tensors(self) -> Iterator[Value]:
        """The tensors of this graph."""
        for item in self._values.values():
            yield from tensors_of(item)

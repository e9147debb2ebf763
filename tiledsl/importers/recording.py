"""A graph under construction, for importers: formulas are run one after the other, each at a place of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiledsl.api.graphs.graph import Graph
from tiledsl.frontend.trace.structures import Leaf, Sequenced
from tiledsl.frontend.trace.trace import Trace
from tiledsl.frontend.trace.trace_elementwise import tensor
from tiledsl.frontend.trace.trace_words import WORDS
from tiledsl.frontend.trace.traced import TracedTensor
from tiledsl.importers.places import NodePlaces
from tiledsl.ir.core import Function, Module
from tiledsl.ir.dtypes import DType
from tiledsl.ir.graph_ops import Return
from tiledsl.ir.symbolic import symbol
from tiledsl.ir.types import TensorType
from tiledsl.support.location import Location

assert WORDS, "the words of the language are registered"


class Recording:
    """The graph of a part of a model. Its inputs are what `parameter` was called for."""

    def __init__(self, name: str, location: Location) -> None:
        self._places = NodePlaces(location)
        self._trace = Trace(name, location)
        self._trace.places = self._places
        self._inputs: list[TracedTensor] = []
        self._name = name

    @property
    def is_empty(self) -> bool:
        """Whether nothing was recorded yet."""
        return not self._trace.body.ops

    def parameter(self, name: str, dtype: DType, shape: Sequence[int | str]) -> TracedTensor:
        """A new input. A size may be a name: it is left open."""
        sizes = tuple(symbol(size) if isinstance(size, str) else size for size in shape)
        made = self._trace.parameter(name, TensorType(dtype, sizes, len(sizes) - 1 if sizes else None))
        self._inputs.append(made)
        return made

    def weight(self, name: str, array: Any) -> TracedTensor:
        """An array of the model, under a name like that one."""
        return self._trace.weight(array, name)

    def run(self, location: Location, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Runs a formula at a place of the model. Raises TileErrors there."""
        self._places.place = self._trace.builder.location = location
        return self._trace.run(fn, args, kwargs)

    def finish(self, outputs: Sequence[TracedTensor]) -> Graph:
        """The graph, which gives these tensors: one alone if there is one, else a tuple."""
        trace = self._trace
        trace.builder.location = trace.start
        inputs = [value.value for value in self._inputs]  # they come first; a weight may have been read before
        trace.body.arguments[:] = [*inputs, *(v for v in trace.body.arguments if v not in inputs)]
        trace.builder.emit(Return, values=[tensor(trace, value).value for value in outputs])
        module = Module([Function(self._name, trace.body, [], trace.start), *trace.functions])
        names = tuple(value.value.name for value in self._inputs)
        leaves = tuple(Leaf(f"result_{i}") for i in range(len(outputs)))
        result = leaves[0] if len(leaves) == 1 else Sequenced(tuple, leaves)
        return Graph(module, names, trace.constants, {name: Leaf(name) for name in names}, result)

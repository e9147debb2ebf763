"""`Graph`: a traced formula that can be looked at and run."""

from __future__ import annotations

from typing import Any

from tiledsl.api.calls.structured_calls import flatten_call
from tiledsl.api.reports.notebook import folded
from tiledsl.frontend.trace.structures import build
from tiledsl.frontend.trace.traced_graph import TracedGraph
from tiledsl.runtime.arrays.arrays import Array, as_array


class Graph(TracedGraph):
    """What `tiledsl.trace` gives. Calling it runs it op by op with NumPy: the meaning that `fuse` keeps."""

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Runs the graph on arrays in CPU memory: those arguments of the formula that hold arrays, in order or by name.

        Gives NumPy arrays in the structure that the formula returns. Raises TileTypeError or TileShapeError for
        arguments that do not fit.
        """
        from tiledsl.backend_ref.execute_graph import execute_graph  # costs start-up time

        leaves = self.flatten(*args, **kwargs)
        arrays: list[Array] = [as_array(leaf, name) for name, leaf in zip(self.inputs, leaves)]
        arrays += [as_array(weight, name) for name, weight in self.constants.items()]
        results = execute_graph(self.module.entry, arrays, self.module)
        return build(self.result, iter(results))

    def _repr_html_(self) -> str:
        return folded(repr(self), self.ir)

    def flatten(self, *args: object, **kwargs: object) -> list[object]:
        """The arrays of a call in the order of `inputs`. Raises TileTypeError for arguments of another structure."""
        return flatten_call(self.name, self.tensor_arguments, args, kwargs)

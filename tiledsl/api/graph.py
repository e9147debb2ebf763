"""`Graph`: a traced formula that can be looked at and run."""

from __future__ import annotations

from typing import Any, NoReturn

from tiledsl.frontend.structures import build, take_apart
from tiledsl.frontend.traced_graph import TracedGraph
from tiledsl.runtime.arrays import Array, as_array
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail


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

    def flatten(self, *args: object, **kwargs: object) -> list[object]:
        """The arrays of a call in the order of `inputs`. Raises TileTypeError for arguments of another structure."""
        expected = self.tensor_arguments
        names = list(expected)
        if len(args) > len(names):
            self._fail(f"takes {len(names)} arguments but was given {len(args)}")
        given = dict(zip(names, args))
        for name, value in kwargs.items():
            if name in given or name not in expected:
                self._fail(f"was given `{name}` twice" if name in given else f"has no argument `{name}`")
            given[name] = value
        leaves: list[object] = []
        for name, structure in expected.items():
            if name not in given:
                self._fail(f"was called without `{name}`")
            problem = take_apart(structure, given[name], leaves)
            if problem is not None:
                self._fail(f"was called with another `{name}`: {problem}")
        return leaves

    def _fail(self, problem: str) -> NoReturn:
        known = ", ".join(self.tensor_arguments)
        fail("graph-arguments", caller_location(), name=self.name, problem=problem, known=known)

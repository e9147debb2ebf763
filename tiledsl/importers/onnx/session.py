"""What a walk over a model writes to: one graph (`GraphSession`), or the parts of a run (`RunSession`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from tiledsl.api.graphs.trace_and_fuse import fuse
from tiledsl.frontend.trace.traced import TracedTensor
from tiledsl.importers.onnx.model import Array, Node
from tiledsl.importers.onnx.values import Scope, Value
from tiledsl.importers.parts import Writer
from tiledsl.importers.recording import Recording
from tiledsl.ir.dtypes import ALL as ALL_DTYPES
from tiledsl.ir.dtypes import DType, from_numpy
from tiledsl.support.errors import fail
from tiledsl.support.location import Location


class NotOneStepError(Exception):
    """The body of a loop is not the same in all steps: it asks for a value that only the run of a step would tell."""


class Session:
    """The graph under way, and the scopes whose values later nodes may read."""

    def __init__(self, name: str, place: Location) -> None:
        self.name = name
        self.place = place
        self.recording = Recording(name, place)
        self.scopes: list[Scope] = []
        self.in_step = False
        """Whether the step of a loop is recorded now, once for all of its steps."""

    def tensor(self, value: Value, node: Node) -> TracedTensor:
        """A value in the graph under way. Raises TileTypeError for a dtype that graphs do not have."""
        if value.tensor is None or value.recording is not self.recording:
            assert not value.is_recorded, "what was recorded is in the graph under way"
            value.recording = self.recording
            if value.array is not None:
                require_dtype(value.array.dtype, node, value.name)
                value.tensor = self.recording.run(node.location, self._weight, value)
            else:
                value.tensor = self.parameter(value, node)
        assert value.tensor is not None
        return value.tensor

    def _weight(self, value: Value) -> TracedTensor:
        assert value.array is not None
        return self.recording.weight(value.name or "constant", value.array)

    def shape(self, value: Value) -> tuple[Any, ...]:
        """The shape of a value: ints, and sizes that are left open."""
        if value.array is not None:
            return value.array.shape
        if value.tensor is not None and value.recording is self.recording:
            return value.tensor.shape
        return self.type_of(value)[1]

    def dtype(self, value: Value) -> Any:
        """The dtype of a value: NumPy's if it is known or at hand, else a `DType`."""
        if value.array is not None:
            return value.array.dtype
        if value.tensor is not None and value.recording is self.recording:
            return value.tensor.dtype
        return self.type_of(value)[0]

    def _leave_step(self) -> None:
        """Raises NotOneStepError where the graph under way would have to end within a step."""
        if self.in_step:
            raise NotOneStepError

    def type_of(self, value: Value) -> tuple[Any, tuple[int, ...]]:
        """NumPy's dtype and the shape of a value at hand."""
        raise NotImplementedError

    def parameter(self, value: Value, node: Node) -> TracedTensor:
        """The parameter of the graph under way for a value at hand."""
        raise NotImplementedError

    def read(self, value: Value, node: Node, what: str) -> Array:
        """The elements of a value, on which `what` depends. Raises TileUnsupportedError where there are none yet."""
        raise NotImplementedError

    def host(self, node: Node, run: Callable[..., Sequence[Any]], inputs: Sequence[Value], count: int) -> list[Value]:
        """The results of a node that the host runs."""
        raise NotImplementedError


class GraphSession(Session):
    """The whole model as one graph."""

    def read(self, value: Value, node: Node, what: str) -> Array:
        if value.array is not None:
            return value.array
        self._leave_step()
        fail("onnx-data-shape", node.location, node=node.title, what=what, value=value.name)

    def host(self, node: Node, run: Callable[..., Sequence[Any]], inputs: Sequence[Value], count: int) -> list[Value]:
        self._leave_step()
        fail("onnx-host-part", node.location, node=node.title)


class RunSession(Session):
    """A run on arrays, in parts."""

    def __init__(self, name: str, place: Location, writer: Writer, arch: str | None) -> None:
        super().__init__(name, place)
        self.writer = writer
        self.arch = arch
        self._parameters: list[Value] = []

    def type_of(self, value: Value) -> tuple[Any, tuple[int, ...]]:
        assert value.place is not None
        if value.type is None:
            self.writer.kind(value.place)
            array = self.writer.values[value.place]
            value.type = array.dtype, tuple(array.shape)
        return value.type

    def parameter(self, value: Value, node: Node) -> TracedTensor:
        dtype, shape = self.type_of(value)
        self._parameters.append(value)
        return self.recording.parameter(value.name or "input", require_dtype(dtype, node, value.name), shape)

    def read(self, value: Value, node: Node, what: str) -> Array:
        if value.array is not None:
            return value.array
        self._leave_step()
        self.arrive([value])
        assert value.place is not None
        return np.asarray(self.writer.value(value.place))

    def host(self, node: Node, run: Callable[..., Sequence[Any]], inputs: Sequence[Value], count: int) -> list[Value]:
        self._leave_step()
        self.arrive(inputs)
        places = [value.place for value in inputs if value.place is not None]
        known = [value.array for value in inputs]

        def call(*arrays: Any) -> Sequence[Any]:
            given = iter(arrays)
            return run(*(next(given) if array is None else array for array in known))

        results = self.writer.host(node.title, call, places, count)
        return [Value(name, place=place) for name, place in zip(node.outputs, results)]

    def arrive(self, values: Sequence[Value]) -> None:
        """Runs the graph under way, if values that are needed now are recorded in it: it is a part of its own."""
        if not any(value.is_recorded for value in values):
            return
        live = {id(v): v for scope in self.scopes for v in scope.tensors() if v.is_recorded}
        live |= {id(v): v for v in values if v.is_recorded}
        wanted = list(live.values())
        recording, parameters = self.recording, self._parameters
        outputs: list[TracedTensor] = [v.tensor for v in wanted if v.tensor is not None]

        def build() -> Callable[..., Any]:
            graph = recording.finish(outputs)
            return graph if self.arch == "reference" else fuse(graph).build(self.arch)

        places = self.writer.graph(build, [v.place for v in parameters if v.place is not None], len(wanted))
        for value, place in zip(wanted, places):
            value.place = place
            array = self.writer.values[place]
            value.type = array.dtype, tuple(array.shape)
            value.tensor = value.recording = None
        self.recording, self._parameters = Recording(self.name, self.place), []


def require_dtype(dtype: Any, node: Node, name: str) -> DType:
    """The dtype of an array in graphs. Raises TileTypeError if there is none."""
    found = from_numpy(dtype)
    return found if found is not None else _fail_dtype(dtype, node, name)


def _fail_dtype(dtype: Any, node: Node, name: str) -> NoReturn:
    known = ", ".join(d.name for d in ALL_DTYPES if d.bits >= 8)
    fail("onnx-dtype", node.location, node=node.title, value=name, dtype=dtype, known=known)

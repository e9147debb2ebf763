"""`OnnxProgram`: a model that runs on arrays, in as many parts as it takes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any, cast

from tiledsl.frontend.trace.trace import identifier
from tiledsl.importers.onnx.model import Model
from tiledsl.importers.onnx.session import RunSession
from tiledsl.importers.onnx.values import Value, tensors_of
from tiledsl.importers.onnx.walk import Walk
from tiledsl.importers.parts import GraphPart, HostPart, PartTree, Writer
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TilePerformanceWarning, fail
from tiledsl.support.location import BUILTIN, Location


class OnnxProgram:
    """A model that is compiled as calls need it.

    `program(*arrays)` takes the model's inputs in order (lists of arrays for sequences, None for optionals that have
    nothing) and gives a list of its outputs. Each set of shapes, and of the values that sizes depend on, is compiled
    once; for `arch="reference"` nothing is, and NumPy runs what the graphs mean. Nodes that the host runs are named
    once in a warning (TilePerformanceWarning).
    """

    def __init__(self, model: Model, arch: str | None = None) -> None:
        self.model = model
        self.arch = arch
        self._trees: dict[Hashable, PartTree] = {}
        self._warned: set[str] = set()

    def __call__(self, *inputs: Any) -> list[Any]:
        """Runs the model. Raises TileError for inputs that do not fit it, and for nodes that are not supported."""
        wanted = self.model.graph.inputs
        if len(inputs) != len(wanted):
            names = ", ".join(value.name for value in wanted)
            fail("onnx-call", caller_location(), model=self.model.file, count=len(inputs), names=names)
        leaves = list(_leaves(inputs))
        key = _structure(inputs)
        if key not in self._trees:
            self._trees[key] = PartTree(partial(self._write, _skeleton(inputs)))
        results = self._trees[key](leaves)
        self._warn()
        return results

    def _write(self, inputs: Sequence[Any], writer: Writer, places: Sequence[int]) -> Callable[[Sequence[Any]], Any]:
        """Walks over the model, and says how outputs are made of what is at places."""
        graph = self.model.graph
        session = RunSession(identifier(self.model.name or "model"), self.place, writer, self.arch)
        at = iter(places)
        items = [_item(given, info.name, at) for given, info in zip(inputs, graph.inputs)]
        outputs = Walk(self.model, session).run_body(graph, items, None)
        session.arrive(list(tensors_of(outputs)))
        return lambda values: [_built(item, values) for item in outputs]

    @property
    def place(self) -> Location:
        """The model as a place."""
        return Location(self.model.file, 1) if self.model.graph.nodes else BUILTIN

    @property
    def parts(self) -> list[GraphPart | HostPart]:
        """The parts that were compiled so far."""
        return [part for tree in self._trees.values() for part in tree.parts]

    def _warn(self) -> None:
        for part in self.parts:
            if isinstance(part, HostPart) and part.name not in self._warned:
                self._warned.add(part.name)
                text = (
                    f"{part.name} of {self.model.file} runs on the host: its sizes depend on data, or it has no kernel"
                )
                warnings.warn(text, TilePerformanceWarning, stacklevel=3)

    def explain(self) -> str:
        """The parts in order: what was compiled, and what the host runs."""
        texts: list[str] = []
        for part in self.parts:
            if isinstance(part, HostPart):
                texts.append(f"on the host: {part.name}")
            else:
                built: Any = part.module
                texts.append(repr(built) if self.arch == "reference" else built.explain())
        return "\n\n".join(texts) or f"{self.model.file}: not called yet"


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in cast("Sequence[Any]", value):
            yield from _leaves(item)
    elif value is not None:
        yield value


def _skeleton(value: Any) -> Any:
    """Inputs without their arrays."""
    if isinstance(value, (list, tuple)):
        return [_skeleton(item) for item in cast("Sequence[Any]", value)]
    return None if value is None else True


def _structure(value: Any) -> Hashable:
    if isinstance(value, (list, tuple)):
        return tuple(_structure(item) for item in cast("Sequence[Any]", value))
    return value is None


def _item(given: Any, name: str, places: Iterator[int]) -> Any:
    if isinstance(given, (list, tuple)):
        return [_item(part, name, places) for part in cast("Sequence[Any]", given)]
    return None if given is None else Value(name, place=next(places))


def _built(item: Any, values: Sequence[Any]) -> Any:
    if isinstance(item, Value):
        return item.array if item.place is None else values[item.place]
    return [_built(part, values) for part in cast("list[Any]", item)] if isinstance(item, list) else None

"""An ONNX model as the importer sees it: nodes with Python attributes, each with a place that messages can show."""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np

from tiledsl.support.location import Location

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


@dataclass(frozen=True, eq=False)
class Node:
    """One node. `version` is the opset of its domain, by which the operator's meaning is chosen."""

    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    version: int
    number: int
    location: Location
    overload: str = ""
    opsets: Mapping[str, int] = field(default_factory=dict[str, int])
    """The opsets of the graph that it stands in."""

    @property
    def operator(self) -> str:
        """The operator with its domain, unless that is ONNX's own."""
        return f"{self.domain}.{self.op}" if self.domain else self.op

    @property
    def title(self) -> str:
        """How messages call the node."""
        return f"node `{self.name}` ({self.operator})" if self.name else f"node {self.number} ({self.operator})"

    @cached_property
    def reads(self) -> frozenset[str]:
        """The names of values that it reads: its inputs, and what its graphs read from outside."""
        names = {name for name in self.inputs if name}
        for value in self.attributes.values():
            graphs = cast("tuple[Any, ...]", value if isinstance(value, tuple) else (value,))
            for graph in graphs:
                if isinstance(graph, GraphBody):
                    names |= graph.free
        return frozenset(names)


@dataclass(frozen=True)
class ValueInfo:
    """What a model says of a value. `kind`: of tensors ONNX's element type (`FLOAT`), or `sequence`, `optional`."""

    name: str
    kind: str
    shape: tuple[int | str | None, ...] | None


@dataclass(frozen=True, eq=False)
class GraphBody:
    """A graph of a model, a branch or body of control flow, or the body of a function."""

    name: str
    inputs: tuple[ValueInfo, ...]
    outputs: tuple[ValueInfo, ...]
    constants: Mapping[str, Array]
    nodes: tuple[Node, ...]

    @cached_property
    def free(self) -> frozenset[str]:
        """The names that are read here and defined outside."""
        defined = {value.name for value in self.inputs} | set(self.constants)
        names: set[str] = set()
        for node in self.nodes:
            names |= node.reads - defined
            defined |= set(node.outputs)
        return frozenset(names | ({value.name for value in self.outputs} - defined))

    @cached_property
    def last_reads(self) -> tuple[tuple[str, ...], ...]:
        """For each node, the values that nothing reads after it."""
        seen = {value.name for value in self.outputs}
        lasts: list[tuple[str, ...]] = []
        for node in reversed(self.nodes):
            names = (node.reads | set(node.outputs)) - seen
            lasts.append(tuple(sorted(names)))
            seen |= names
        return tuple(reversed(lasts))


@dataclass(frozen=True, eq=False)
class Model:
    """A model. `functions` are those that it brings itself, by domain, name and overload, as ONNX has them."""

    name: str
    graph: GraphBody
    functions: Mapping[tuple[str, str, str], Any]
    file: str

    def nodes(self) -> Iterator[Node]:
        """The nodes of its graph, without those of bodies."""
        return iter(self.graph.nodes)


class SourceText:
    """A model as text, a line for each node: what messages show of a place."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._lines: list[str] = []

    def add(self, op: str, name: str, inputs: Sequence[str], outputs: Sequence[str]) -> Location:
        """The place of a new line."""
        label = f"{name}: " if name else ""
        text = f"{label}{', '.join(outputs)} = {op}({', '.join(inputs)})"
        self._lines.append(f"{text}\n")
        return Location(self.file, len(self._lines), 1, len(self._lines), len(text) + 1)

    def show(self) -> None:
        """Lets messages find the text."""
        size = sum(map(len, self._lines))
        linecache.cache[self.file] = (size, None, self._lines, self.file)

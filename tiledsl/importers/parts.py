"""Programs in parts: compiled graphs, and between them steps that the host runs.

A program whose sizes or branches depend on data is no single graph. It is *written* by running it once on arrays:
whoever writes it asks for the kinds and values of what it has so far (`kind`, `value`), and adds a part (`graph`,
`host`), which runs at once. What is written depends on nothing but the answers. So the parts form a tree that
branches where an answer did: later calls go down the tree, and where it ends the program is written again, with the
parts that are there.

    x, n = inputs               Look(kind of x, n) ── f32[4], i64 ──▶ Look(value of n) ── 3 ──▶ graph ──▶ results
    y = reshape(x, [n])                                                                 └─ 5 ──▶ graph ──▶ results
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, Union, cast

import numpy as np


@dataclass
class Look:
    """What comes next depends on the value at a place, or on its kind alone (dtype and shape)."""

    place: int
    by_value: bool
    branches: dict[Hashable, Part] = field(default_factory=dict[Hashable, "Part"])


@dataclass
class GraphPart:
    """A compiled graph. Its results are the next places."""

    module: Callable[..., Any]
    inputs: tuple[int, ...]
    count: int
    next: Part | None = None


@dataclass
class HostPart:
    """A function of arrays, which gives a list of as many values: arrays, or lists of them."""

    name: str
    run: Callable[..., Sequence[Any]]
    inputs: tuple[int, ...]
    count: int
    next: Part | None = None


@dataclass
class Result:
    """The end: what is given back, made of the values at all places."""

    build: Callable[[Sequence[Any]], Any]


Part: TypeAlias = Union[Look, GraphPart, HostPart, Result]


def kind_of(value: Any) -> Hashable:
    """What compiling depends on: dtype and shape of an array, the kinds of the items of a list."""
    if isinstance(value, (list, tuple)):
        return tuple(kind_of(item) for item in cast("Sequence[Any]", value))
    return None if value is None else (str(value.dtype), tuple(value.shape))


def value_of(value: Any) -> Hashable:
    """An array as what can be compared at once."""
    array: np.ndarray[Any, Any] = np.asarray(value)
    contents: Hashable = tuple(array.ravel().tolist()) if array.dtype == object else array.tobytes()
    return (str(array.dtype), array.shape, contents)


class PartTree:
    """All that was written of a program so far. `write` runs the program, given a `Writer` and the inputs' places."""

    def __init__(self, write: Callable[[Writer, Sequence[int]], Callable[[Sequence[Any]], Any]]) -> None:
        self._write = write
        self._root: Part | None = None
        self._lock = threading.Lock()

    def __call__(self, inputs: Sequence[Any]) -> Any:
        """Runs the program on arrays; parts that were never met are written. Raises what `write` raises."""
        values = list(inputs)
        if _follow(self._root, values):
            return values[-1]
        with self._lock:
            writer = Writer(self._root, list(inputs))
            build = self._write(writer, range(len(inputs)))
            writer.end(build)
            self._root = writer.root
            return build(writer.values)

    @property
    def parts(self) -> list[GraphPart | HostPart]:
        """The parts that were met, each before those that follow it."""
        found: list[GraphPart | HostPart] = []
        waiting: list[Part | None] = [self._root]
        while waiting:
            part = waiting.pop(0)
            if isinstance(part, Look):
                waiting += part.branches.values()
            elif isinstance(part, (GraphPart, HostPart)):
                found.append(part)
                waiting.append(part.next)
        return found


def _follow(part: Part | None, values: list[Any]) -> bool:
    """Runs what was written for such inputs, and appends the result to the values; False where that ends."""
    while part is not None:
        if isinstance(part, Look):
            value = values[part.place]
            part = part.branches.get(value_of(value) if part.by_value else kind_of(value))
        elif isinstance(part, Result):
            values.append(part.build(values))
            return True
        else:
            values += _run(part, values)
            part = part.next
    return False


def _run(part: GraphPart | HostPart, values: Sequence[Any]) -> list[Any]:
    arguments = [values[place] for place in part.inputs]
    if isinstance(part, HostPart):
        return list(part.run(*arguments))
    results: Any = part.module(*arguments)
    return list(cast("Sequence[Any]", results)) if isinstance(results, (tuple, list)) else [results]


class Writer:
    """Where a program is written, and run as it is. A place is an index into `values`."""

    def __init__(self, root: Part | None, values: list[Any]) -> None:
        self.root = root
        self.values = values
        self._attach: Callable[[Part], None] = self._set_root
        self._at: Part | None = root

    def _set_root(self, part: Part) -> None:
        self.root = part

    def kind(self, place: int) -> Hashable:
        """The dtype and shape of a value: what is written from now on may depend on them."""
        return self._look(place, by_value=False)

    def value(self, place: int) -> Any:
        """A value, on the host: what is written from now on may depend on it."""
        self._look(place, by_value=True)
        return self.values[place]

    def _look(self, place: int, by_value: bool) -> Hashable:
        part = self._here(lambda: Look(place, by_value))
        assert isinstance(part, Look), "what is written depends on nothing but what was looked at"
        assert (part.place, part.by_value) == (place, by_value)
        key = value_of(self.values[place]) if by_value else kind_of(self.values[place])

        def attach(following: Part) -> None:
            part.branches[key] = following

        self._attach, self._at = attach, part.branches.get(key)
        return key

    def graph(self, build: Callable[[], Callable[..., Any]], inputs: Sequence[int], count: int) -> range:
        """A part that is a graph with so many results, and the places of these. `build` is called if it is new."""
        return self._add(lambda: GraphPart(build(), tuple(inputs), count))

    def host(self, name: str, run: Callable[..., Sequence[Any]], inputs: Sequence[int], count: int) -> range:
        """A part that the host runs, and the places of its results."""
        return self._add(lambda: HostPart(name, run, tuple(inputs), count))

    def _add(self, make: Callable[[], Part]) -> range:
        part = self._here(make)
        assert isinstance(part, (GraphPart, HostPart)), "what is written depends on nothing but what was looked at"
        results = _run(part, self.values)
        assert len(results) == part.count
        start = len(self.values)
        self.values += results

        def attach(following: Part) -> None:
            part.next = following

        self._attach, self._at = attach, part.next
        return range(start, len(self.values))

    def end(self, build: Callable[[Sequence[Any]], Any]) -> None:
        """The end of the program."""
        self._here(lambda: Result(build))

    def _here(self, make: Callable[[], Part]) -> Part:
        if self._at is None:
            self._at = make()
            self._attach(self._at)
        return self._at

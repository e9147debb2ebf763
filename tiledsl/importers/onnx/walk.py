"""The walk over a model: each node is run as the formula of its operator, on known or recorded values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from tiledsl.frontend.trace.trace import identifier
from tiledsl.frontend.trace.traced import TracedTensor
from tiledsl.importers.onnx import operators
from tiledsl.importers.onnx.call import Call
from tiledsl.importers.onnx.functions import function_body
from tiledsl.importers.onnx.model import Array, GraphBody, Model, Node
from tiledsl.importers.onnx.register import Operator, find
from tiledsl.importers.onnx.session import NotOneStepError, Session, require_dtype
from tiledsl.importers.onnx.sizes import of_sizes
from tiledsl.importers.onnx.supported import refuse_operator
from tiledsl.importers.onnx.values import Item, Scope, Value, tensors_of
from tiledsl.importers.recording import Recording
from tiledsl.support.errors import TileError, add_note, fail, make_error

assert operators.__name__, "importing them registers them"

MOST_FOLDED = 1 << 16
"""Nodes on known values of so many elements are computed at once; weights stay what they are."""


class Walk:
    """One walk over a model, which writes to a session."""

    def __init__(self, model: Model, session: Session) -> None:
        self.model = model
        self.session = session
        self._depth = 0

    def run_body(
        self, body: GraphBody, inputs: Sequence[Any], outer: Scope | None, wanted: Sequence[str] | None = None
    ) -> list[Item]:
        """The outputs of a graph for such inputs; if `wanted` is given, None for those that have no name there."""
        scope = Scope(outer)
        self.session.scopes.append(scope)
        try:
            for name, array in body.constants.items():
                scope[name] = Value(name, array=array)
            for info, item in zip(body.inputs, inputs):
                scope[info.name] = item
            for node, done in zip(body.nodes, body.last_reads):
                for name, item in zip(node.outputs, self._node(node, scope)):
                    if name:
                        scope[name] = item
                scope.forget(done)
            names = [value.name for value in body.outputs]
            if wanted is not None:
                names = [name if want else "" for name, want in zip(names, wanted)]
            return [self._defined(scope, name, None) if name else None for name in names]
        finally:
            self.session.scopes.pop()

    def _defined(self, scope: Scope, name: str, node: Node | None) -> Item:
        try:
            return scope[name]
        except KeyError:
            reader = "the graph" if node is None else node.title
            place = self.session.place if node is None else node.location
            fail("onnx-node", place, node=reader, problem=f"nothing defines `{name}` before")

    def _node(self, node: Node, scope: Scope) -> Sequence[Item]:
        """The outputs of a node. Errors name it."""
        try:
            items = [self._defined(scope, name, node) if name else None for name in node.inputs]
            entry = find(node.domain, node.op, node.version)
            local = self.model.functions.get((node.domain, node.op, node.overload))
            if local is None and entry is not None:
                results = self._operator(entry, node, items, scope)
            else:
                results = self._function(node, local, items, scope)
        except TileError as error:
            if node.title not in str(error):
                add_note(error, f"this is {node.title} of {self.model.file}")
            raise
        except NotOneStepError:
            raise
        except Exception as error:  # formulas take their inputs and attributes for those that the operator has
            problem = f"{type(error).__name__}: {error}"
            raise make_error("onnx-formula", node.location, node=node.title, problem=problem) from error
        if len(results) < len(node.outputs):
            fail("onnx-node", node.location, node=node.title, problem=f"it has {len(results)} outputs at most")
        return results

    def _function(self, node: Node, local: Any, items: Sequence[Item], scope: Scope) -> Sequence[Item]:
        """A call of a function: one of the model's own, or an operator that ONNX itself defines by others."""
        body = function_body(node, local, items, self.session)
        if body is None:
            refuse_operator(node)
        if self._depth > 100:
            fail("onnx-node", node.location, node=node.title, problem="it calls itself without end")
        given = [*items, *[None] * (len(body.inputs) - len(items))]
        self._depth += 1
        try:
            return self.run_body(body, given, None, node.outputs)
        finally:
            self._depth -= 1

    def _operator(self, entry: Operator, node: Node, items: Sequence[Item], scope: Scope) -> Sequence[Item]:
        self._check(entry, node, items)
        call = Call(self, node, scope)
        options: dict[str, Any] = dict(node.attributes)
        if entry.takes_node:
            options["node"] = call
        if entry.kind == "values":
            results = entry.run(*items, **options)
            if results is NotImplemented:  # the rest of what it means is what ONNX defines it by
                return self._function(node, None, items, scope)
            return self._wrapped(results, node)
        plain = sizes = None
        values = list(tensors_of(list(items)))
        if values and all(v.array is not None and v.array.dtype == object for v in values[:1]):
            sizes = of_sizes(entry.name)
        if sizes is not None:
            plain = sizes(*(None if item is None else cast("Value", item).array for item in items), **options)
            return self._wrapped(plain, node)
        if entry.kind == "host":
            return self._host(entry, node, items, options)
        if values and all(map(_is_plain, values)) and sum(_size(v) for v in values) <= MOST_FOLDED:
            return self._folded(entry, node, items, options)
        return self._recorded(entry, node, items, options)

    def _check(self, entry: Operator, node: Node, items: Sequence[Item]) -> None:
        count = len(items)
        most = None if entry.spread else len(entry.inputs)
        given = [item is not None or not name for item, name in zip(items, node.inputs)]
        missing = [name for i, name in enumerate(entry.inputs[: entry.required]) if i >= count or not node.inputs[i]]
        if missing or (most is not None and count > most) or not all(given[: entry.required]):
            expected = f"{entry.required} to {most}" if most is not None else f"{entry.required} or more"
            if most == entry.required:
                expected = str(most)
            problem = f"it has {count} inputs; the operator takes {expected}"
            fail("onnx-node", node.location, node=node.title, problem=problem)
        unknown = [name for name in node.attributes if name not in entry.attributes]
        if unknown:
            problem = f"its attribute `{unknown[0]}` is none of {', '.join(sorted(entry.attributes)) or 'the operator'}"
            fail("onnx-node", node.location, node=node.title, problem=problem)
        absent = [name for name in entry.needed if name not in node.attributes]
        if absent:
            fail("onnx-node", node.location, node=node.title, problem=f"it has no attribute `{absent[0]}`")
        if entry.kind != "values" and any(isinstance(item, list) for item in items) and not entry.spread:
            fail("onnx-node", node.location, node=node.title, problem="it takes tensors, and is given a sequence")

    def _recorded(
        self, entry: Operator, node: Node, items: Sequence[Item], options: Mapping[str, Any]
    ) -> Sequence[Item]:
        """A node as a formula of the graph under way: first what is read on the host, which may end that graph."""
        arguments: list[Any] = list(items)
        for i, (name, item) in enumerate(zip(entry.inputs, items)):
            if name in entry.known and isinstance(item, Value):
                arguments[i] = self.session.read(item, node, f"its `{name}`")
        arguments = [self.session.tensor(a, node) if isinstance(a, Value) else a for a in arguments]
        return self._wrapped(self.session.recording.run(node.location, entry.run, *arguments, **options), node)

    def _folded(self, entry: Operator, node: Node, items: Sequence[Item], options: Mapping[str, Any]) -> Sequence[Item]:
        """A node on known values, at once: its formula, run op by op in NumPy."""
        recording = Recording(node.op, node.location)
        arguments: list[Any] = []
        for i, item in enumerate(items):
            argument: Any = item
            if isinstance(item, Value) and item.array is not None:
                argument = item.array
                if i >= len(entry.inputs) or entry.inputs[i] not in entry.known:
                    require_dtype(argument.dtype, node, item.name)
                    argument = recording.run(node.location, recording.weight, item.name or "constant", argument)
            arguments.append(argument)
        results = _as_list(recording.run(node.location, entry.run, *arguments, **options))
        traced = [r for r in results if isinstance(r, TracedTensor)]
        arrays: list[Any] = []
        if traced:
            found = recording.finish(traced)()
            arrays = _as_list(found)
        computed = iter(arrays)
        return self._wrapped([next(computed) if isinstance(r, TracedTensor) else r for r in results], node)

    def _host(self, entry: Operator, node: Node, items: Sequence[Item], options: Mapping[str, Any]) -> Sequence[Item]:
        """A node that the host runs: now, if its inputs are known."""
        values = [item for item in items if isinstance(item, Value)]

        def run(*arrays: Any) -> list[Any]:
            given = iter(arrays)
            with np.errstate(all="ignore"):
                results = entry.run(*(next(given) if isinstance(i, Value) else None for i in items), **options)
            return [np.asarray(result) for result in _as_list(results)][: len(node.outputs)]

        if all(v.is_known for v in values):
            return self._wrapped(run(*(v.array for v in values)), node)
        return self.session.host(node, run, values, len(node.outputs))

    def _wrapped(self, results: Any, node: Node) -> list[Item]:
        listed = _as_list(results)
        names = [*node.outputs, *[""] * (len(listed) - len(node.outputs))]
        return [self.wrap(result, name) for result, name in zip(listed, names)]

    def wrap(self, result: Any, name: str) -> Item:
        """What an operator gives as a value of the walk."""
        if result is None or isinstance(result, Value):
            return result
        if isinstance(result, TracedTensor):
            op = result.value.op
            if op is not None and not result.value.name and name:
                result.value.name = identifier(name)
            return Value(name, tensor=result, recording=self.session.recording)
        if isinstance(result, list):
            return [self.wrap(part, name) for part in cast("list[Any]", result)]
        array: Array = np.asarray(result)
        return Value(name, array=array)


def _as_list(results: Any) -> list[Any]:
    listed: Any = list(cast("Sequence[Any]", results)) if isinstance(results, (tuple, list)) else [results]
    return listed


def _is_plain(value: Value) -> bool:
    """Whether it is known, and no shape that has an open size."""
    return value.array is not None and value.array.dtype != object


def _size(value: Value) -> int:
    return 0 if value.array is None else value.array.size

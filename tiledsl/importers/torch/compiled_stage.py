"""A stage of a model that is compiled: its nodes as one graph for each kind of inputs, and calls of that."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import torch

from tiledsl.api.graphs.fused import BuiltGraph
from tiledsl.api.graphs.graph import Graph
from tiledsl.api.graphs.trace_and_fuse import fuse
from tiledsl.frontend.trace.trace_function import trace_function
from tiledsl.frontend.trace.traced import TracedTensor
from tiledsl.importers.torch.axis_order import Layout, layout_of
from tiledsl.importers.torch.kept_weights import KeptWeights
from tiledsl.importers.torch.layouts import spec_of, to_tensor
from tiledsl.importers.torch.run_nodes import NodeRun
from tiledsl.importers.torch.stages import Stage, run_on_host
from tiledsl.support.errors import TileError

_IS_ON_CUDA = attrgetter("is_cuda")


class RefusedNodeError(Exception):
    """A formula refuses what its node asks for; `reason` says why."""

    def __init__(self, node: Any, reason: str) -> None:
        super().__init__(reason)
        self.node = node
        self.reason = reason


class Variant:
    """A stage for inputs of one kind: the graph, and how values go in and out."""

    def __init__(self, stage: Stage, name: str, given: Sequence[Any]) -> None:
        """`given`: the inputs of the stage, tensors (only looked at) and numbers. Raises RefusedNodeError."""
        self.layouts: list[Layout | None] = [
            layout_of(_ints(v.shape), _ints(v.stride())) if isinstance(v, torch.Tensor) else None for v in given
        ]
        self.outputs = [_Output(node) for node in stage.outputs]
        self.known: dict[int, Any] = {}
        """Results that are numbers, by their place."""
        self.graph = self._traced(stage, name, given)
        self.built: BuiltGraph | None = None
        self._plain = all(layout is None or layout.is_plain for layout in self.layouts)
        self._weights = KeptWeights()

    def _traced(self, stage: Stage, name: str, given: Sequence[Any]) -> Graph | None:
        """The graph; None if everything is known."""
        specs = [spec_of(v, layout) for v, layout in zip(given, self.layouts) if layout is not None]

        def formula(*stored: Any) -> Any:
            run = NodeRun()
            arrays = iter(stored)
            for node, value, layout in zip(stage.inputs, given, self.layouts):
                seen = value if layout is None else layout.seen(next(arrays), _ints(value.shape))
                run.values[node] = seen
            try:
                run.run(stage.nodes)
            except TileError as error:
                raise RefusedNodeError(run.node, error.message) from error
            return self._results(stage, run)

        formula.__name__ = name
        traced = trace_function(formula, specs, {})
        return Graph(traced.module, traced.inputs, traced.constants, traced.arguments, traced.result)

    def _results(self, stage: Stage, run: NodeRun) -> Any:
        """What is computed, in a tuple; one result by itself, for which calls have a shorter way."""
        computed: list[Any] = []
        for i, (node, output) in enumerate(zip(stage.outputs, self.outputs)):
            value = run.read(node)
            if isinstance(value, TracedTensor):
                computed.append(output.stored(value))
            else:
                self.known[i] = value
        return computed[0] if len(computed) == 1 else tuple(computed)

    def __call__(self, given: Sequence[Any]) -> list[Any]:
        """Runs the graph on the inputs of the stage, and gives what it computes."""
        tensors = [value for value, layout in zip(given, self.layouts) if layout is not None]
        if not self._plain:
            layouts = [layout for layout in self.layouts if layout is not None]
            tensors = [tensor if layout.is_plain else layout.stored(tensor) for tensor, layout in zip(tensors, layouts)]
        on_cuda = any(map(_IS_ON_CUDA, tensors))
        if self.built is None:
            assert self.graph is not None
            self.built = fuse(self.graph).build(None if on_cuda else "cpu")
        results = self.built(*self._weights.passed(tensors, on_cuda))
        if not self.known and len(self.outputs) == 1:
            return [self.outputs[0].seen(results)]
        left = iter(results if len(self.outputs) - len(self.known) > 1 else (results,))
        return [self.known[i] if i in self.known else output.seen(next(left)) for i, output in enumerate(self.outputs)]


class _Output:
    """How a result comes out: in the order of axes that PyTorch expects of it in memory."""

    def __init__(self, node: Any) -> None:
        value = node.meta.get("val")
        self.dtype: Any = None
        self.order: tuple[int, ...] | None = None
        if isinstance(value, torch.Tensor):
            self.dtype = value.dtype
        if is_known(value):
            layout = layout_of(_ints(value.shape), _ints(value.stride()))
            if layout.order != tuple(range(len(layout.order))) and not layout.copied:
                self.order = layout.order

    def stored(self, value: Any) -> Any:
        return value if self.order is None else value.transpose(self.order)

    def seen(self, result: Any) -> Any:
        tensor = result if isinstance(result, torch.Tensor) else to_tensor(result, self.dtype)
        if self.order is None:
            return tensor
        return tensor.permute(tuple(self.order.index(axis) for axis in range(len(self.order))))


def _ints(sizes: Any) -> tuple[int, ...]:
    """Sizes as numbers: those that are open by the example at hand."""
    return tuple(size if isinstance(size, int) else int(size.node.hint) for size in sizes)


def is_known(value: Any) -> bool:
    """Whether there is an example of each size of a value: there is none of what depends on data."""
    if isinstance(value, torch.Tensor):
        return all(map(is_known, (*value.shape, *value.stride())))
    return not isinstance(value, torch.SymInt) or value.node.hint is not None


def example_of(value: Any) -> Any:
    """A tensor without data, or a number, as the first call will have it in the place of a fake one."""
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(_ints(value.shape), _ints(value.stride()), dtype=value.dtype, device="meta")
    return _ints([value])[0] if isinstance(value, torch.SymInt) else value


class CompiledStage:
    """A stage, compiled for each kind of inputs that it meets; for one alone where all sizes are known."""

    def __init__(self, stage: Stage, name: str, static: bool) -> None:
        self.stage = stage
        self.name = name
        self.variants: dict[Any, Variant] = {}
        self._only: Variant | None = None
        self._static = static

    def prepare(self, given: Sequence[Any]) -> None:
        """Writes the graph down for inputs like these. Raises RefusedNodeError."""
        self._variant(given)

    def run(self, values: dict[Any, Any]) -> None:
        """Adds what the stage computes to `values`, which has what it reads."""
        stage = self.stage
        if stage.outputs:
            given = [values[node] for node in stage.inputs]
            variant = self._only or self._variant(given)
            if self._static:
                self._only = variant
            values.update(zip(stage.outputs, variant(given)))
        run_on_host(stage.views, values)

    def _variant(self, given: Sequence[Any]) -> Variant:
        key = tuple([_kind(value) for value in given])
        if key not in self.variants:
            self.variants[key] = Variant(self.stage, self.name, given)
        return self.variants[key]


def _kind(value: Any) -> Any:
    """What a graph depends on of an input."""
    if isinstance(value, torch.Tensor):
        return (_ints(value.shape), _ints(value.stride()), value.dtype)
    return value

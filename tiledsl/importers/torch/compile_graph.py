"""A graph of ATen operators made a function: what has a formula compiled, the rest run by PyTorch."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from tiledsl.frontend.trace.array_types import array_dtype
from tiledsl.importers.torch.compiled_stage import CompiledStage, RefusedNodeError, example_of, is_known
from tiledsl.importers.torch.draws import is_draw, is_random, split_draws, unwritten
from tiledsl.importers.torch.node_locations import described, location_of
from tiledsl.importers.torch.run_nodes import missing
from tiledsl.importers.torch.stages import is_size, is_static, run_on_host, stages_of
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TilePerformanceWarning, fail


class CompiledGraph:
    """Called with a list of inputs, gives a list of outputs. `fallbacks` has why PyTorch runs what it runs."""

    def __init__(self, module: Any, example: Sequence[Any], name: str) -> None:
        self.graph = module.graph
        self.module = module
        self.name = name
        split_draws(self.graph)
        self.fallbacks: dict[Any, str] = {}
        for node in self.graph.nodes:
            if node.op == "call_function" and not is_draw(node):
                reason = _obstacle(node)
                if reason:
                    self.fallbacks[node] = reason
        self.placeholders = [node for node in self.graph.nodes if node.op == "placeholder"]
        self.attributes = {n: _attribute(module, n.target) for n in self.graph.nodes if n.op == "get_attr"}
        self._outputs = next(node for node in self.graph.nodes if node.op == "output").args[0]
        self.static = all(map(is_static, self.graph.nodes))
        while True:
            self.stages = self._cut()
            try:
                self._prepare()
                break
            except RefusedNodeError as refused:
                self.fallbacks[refused.node] = refused.reason

    def _cut(self) -> list[Any]:
        stages = stages_of(self.graph, self._is_on_host, is_random)
        made: list[Any] = []
        for stage in stages:
            count = sum(isinstance(one, CompiledStage) for one in made)
            made.append(CompiledStage(stage, f"{self.name}_{count}" if count else self.name, self.static)
                        if stage.compiled else stage)  # fmt: skip
        return made

    def _is_on_host(self, node: Any) -> bool:
        """Whether PyTorch runs a node; it also takes apart what it gave."""
        if node.target is operator.getitem:
            return self._is_on_host(node.args[0])
        return node in self.fallbacks or is_draw(node)

    def _prepare(self) -> None:
        """Writes down the graphs of all stages for the sizes of the example. Raises RefusedNodeError."""
        for stage in self.stages:
            if isinstance(stage, CompiledStage) and stage.stage.outputs:
                given = [self.attributes.get(node, node.meta.get("val")) for node in stage.stage.inputs]
                if all(map(is_known, given)):
                    stage.prepare([example_of(value) for value in given])

    def __call__(self, *inputs: Any) -> list[Any]:
        values: dict[Any, Any] = dict(zip(self.placeholders, inputs))
        values.update(self.attributes)
        for stage in self.stages:
            if isinstance(stage, CompiledStage):
                stage.run(values)
            else:
                run_on_host(stage.nodes, values)
        return [values[out] if isinstance(out, torch.fx.Node) else out for out in self._outputs]

    def refuse_fallbacks(self) -> None:
        """Raises TileUnsupportedError if PyTorch is to run anything."""
        if self.fallbacks:
            node = next(iter(self.fallbacks))
            why = "; ".join(f"{described(node)}: {reason}" for node, reason in self.fallbacks.items())
            fail("torch-fallback", location_of(node) or caller_location(), why=why)

    def explain(self) -> str:
        """The stages, with the reasons for those that PyTorch runs."""
        lines = [f"{self.name}: {len(self.stages)} stages"]
        for stage in self.stages:
            if isinstance(stage, CompiledStage):
                lines.append(f"  compiled: {len(stage.stage.nodes)} operators, {len(stage.stage.outputs)} results")
                for variant in stage.variants.values():
                    if variant.built is not None:
                        lines.append(variant.built.explain())
            else:
                named = [node for node in stage.nodes if node.target is not unwritten]
                lines += [f"  by PyTorch: {described(node)} ({self._why(node)})" for node in named]
        return "\n".join(lines)

    def _why(self, node: Any) -> str:
        return self.fallbacks.get(node) or ("random numbers" if is_draw(node) else "a size")


WARNED: set[str] = set()
"""What was said already."""


def warn_of_fallbacks(graph: CompiledGraph) -> None:
    """Names each operator that PyTorch runs, once in a process."""
    for node, reason in graph.fallbacks.items():
        name = str(node.target)
        if name not in WARNED:
            WARNED.add(name)
            text = f"PyTorch runs {described(node)}: {reason}"
            warnings.warn(text, TilePerformanceWarning, stacklevel=2)


def _obstacle(node: Any) -> str:
    """Why a node cannot be part of a graph; nothing if it can, as far as can be told without its formula."""
    if is_size(node):
        return ""
    if missing([node]):
        return "there is no formula for it"
    values: list[Any] = torch.utils._pytree.tree_leaves(
        [node.meta.get("val"), [n.meta.get("val") for n in node.all_input_nodes]]
    )
    for value in values:
        if isinstance(value, torch.Tensor) and (array_dtype(value) is None or value.layout != torch.strided):
            return f"tensors of {value.dtype} are unknown"
    return ""


def _attribute(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module

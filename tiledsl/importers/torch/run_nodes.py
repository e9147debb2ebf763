"""Nodes of PyTorch's graphs, run on traced tensors: the trace under way records their formulas."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any, cast

import torch

from tiledsl import tile
from tiledsl.frontend.language.active_trace import ACTIVE
from tiledsl.frontend.trace.array_types import array_dtype
from tiledsl.frontend.trace.trace import Trace, identifier
from tiledsl.frontend.trace.traced import TracedTensor
from tiledsl.importers.places import NodePlaces
from tiledsl.importers.torch import operators
from tiledsl.importers.torch.node_locations import described, location_of
from tiledsl.importers.torch.register import OPERATORS, READERS_OF_MEMORY, SCATTERS, Formula
from tiledsl.support.errors import TileError, add_note
from tiledsl.support.location import Location

assert operators.__all__, "the formulas are registered"

IGNORED = frozenset({
    "_assert_tensor_metadata.default", "_assert_async.msg", "_assert_async.default", "_assert_scalar.default",
    "sym_constrain_range_for_size.default", "sym_constrain_range.default",
})  # fmt: skip
"""Operators that check what is known already, and give nothing."""
_MEANINGLESS = ("device", "layout", "pin_memory", "memory_format", "non_blocking")
"""Arguments that say where and how a tensor lies: no matter of formulas."""
_PLAIN = frozenset({operator.getitem, math.ceil, math.floor, math.trunc, torch.sym_max, torch.sym_min, torch.sym_int,
                    torch.sym_float, torch.sym_not, max, min, round, int, float})  # fmt: skip
"""Functions of sizes and lists that graphs call besides operators."""


def key_of(target: Any) -> str:
    """What an operator is called in the register, `add.Tensor`; empty for what is of another library than these."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace not in ("aten", "prims", "torchvision"):
        return ""
    library = "" if target.namespace == "aten" else f"{target.namespace}::"
    return f"{library}{target._opname}.{target._overloadname}"


def is_plain(target: Any) -> bool:
    """Whether a node works with sizes and lists alone: Python runs it."""
    return target in _PLAIN or getattr(target, "__module__", "") in ("_operator", "math")


def formula_of(target: Any) -> Formula | None:
    """The formula of an operator, if there is one."""
    if isinstance(target, torch._ops.OpOverload):
        custom = CUSTOM.get(target)
        return custom if custom is not None else OPERATORS.get(key_of(target))
    return None


CUSTOM: dict[Any, Formula] = {}
"""Operators that users made of kernels and formulas."""


class Held:
    """A tensor that is known: it becomes a weight of the graph once something reads it."""

    def __init__(self, tensor: Any, name: str, constant: bool = False) -> None:
        """`constant`: it never changes, so that a single number of it may be written down."""
        self.tensor = tensor.detach()
        self.name = name
        self.constant = constant


class NodeRun:
    """Runs nodes within the trace under way. `values` are what nodes came to."""

    def __init__(self, called: Location | None = None) -> None:
        """`called`: the place of nodes that come of no line of the user's, the start of the trace if there is none."""
        self.trace = cast("Trace", ACTIVE.get())
        self.start = called or self.trace.start
        self.places = NodePlaces(self.start)
        self.trace.places = self.places
        self.values: dict[Any, Any] = {}
        self.node: Any = None
        """The node under way."""

    def run(self, nodes: Iterable[Any]) -> None:
        """Runs call nodes in order. A TileError names the node."""
        for node in nodes:
            if node.op == "get_attr":
                self.values[node] = self._attribute(node)
                continue
            if key_of(node.target) in IGNORED:
                continue
            self.places.place = location_of(node) or self.start
            self.node = node
            try:
                result = self._called(node)
            except TileError as error:
                add_note(error, f"in {described(node)}")
                raise
            self.values[node] = self._as_expected(node, result)

    def _called(self, node: Any) -> Any:
        args = self.read(node.args)
        kwargs = self.read({name: value for name, value in node.kwargs.items() if name not in _MEANINGLESS})
        if is_plain(node.target):
            return node.target(*args, **kwargs)
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            return self._choice(args) if str(node.target) == "cond" else self._subgraph(args)
        formula = formula_of(node.target)
        assert formula is not None, f"{node.target} was looked for before"
        if key_of(node.target) in READERS_OF_MEMORY:
            first = node.args[0].meta["val"]
            kwargs["memory"] = tuple(map(int, first.stride())), int(first.storage_offset())
        if key_of(node.target) in SCATTERS:
            kwargs["deterministic"] = torch.are_deterministic_algorithms_enabled()
        return formula(*args, **kwargs)

    def read(self, value: Any) -> Any:
        """Arguments of a node with nodes replaced by their values."""
        if isinstance(value, torch.fx.Node):
            return self._given(self.values[value])
        if isinstance(value, Held):
            return self._given(value)
        if isinstance(value, (list, tuple)):
            return [self.read(item) for item in cast("list[Any]", value)]
        if isinstance(value, Mapping):
            return {key: self.read(item) for key, item in cast("Mapping[Any, Any]", value).items()}
        if isinstance(value, slice):
            parts = cast("Any", value)
            return slice(self.read(parts.start), self.read(parts.stop), self.read(parts.step))
        return value

    def _given(self, value: Any) -> Any:
        if not isinstance(value, Held):
            return value
        if value.constant and not value.tensor.ndim:
            dtype = self.trace.array_type(value.name, value.tensor).dtype
            return self.trace.tensor(self.trace.constant(value.tensor.item(), dtype))
        return self.trace.weight(value.tensor, value.name)

    def _attribute(self, node: Any) -> Any:
        found: Any = node.graph.owning_module
        for part in node.target.split("."):
            found = getattr(found, part)
        return Held(found, identifier(node.target), constant=True) if isinstance(found, torch.Tensor) else found

    def _subgraph(self, args: list[Any]) -> Any:
        """A region with its own settings of gradients: what is computed is the same."""
        at = next(i for i, value in enumerate(args) if isinstance(value, torch.fx.GraphModule))
        return self._called_with(args[at], args[at + 1 :])

    def _choice(self, args: list[Any]) -> list[Any]:
        """`torch.cond`: both branches, and of each result that which the condition chooses."""
        holds, first, second, operands = args
        results = [self._called_with(branch, operands) for branch in (first, second)]
        return [tile.where(holds, a, b) for a, b in zip(*results)]

    def _called_with(self, module: Any, operands: list[Any]) -> Any:
        """What a graph within this one comes to."""
        graph = module.graph
        for placeholder, value in zip([n for n in graph.nodes if n.op == "placeholder"], operands):
            self.values[placeholder] = value
        self.run(n for n in graph.nodes if n.op in ("call_function", "get_attr"))
        return self.read(next(n for n in graph.nodes if n.op == "output").args[0])

    def _as_expected(self, node: Any, result: Any) -> Any:
        """A result in the dtype that PyTorch gives it, by the model's name where it has none."""
        if not isinstance(result, TracedTensor):
            return result
        wanted = array_dtype(node.meta["val"]) if isinstance(node.meta.get("val"), torch.Tensor) else None
        if wanted is not None:
            result = self.trace.tensor(self.trace.cast(result.value, wanted))
        if not result.value.name:
            result.value.name = identifier(node.name)
        return result


def missing(nodes: Iterable[Any]) -> list[Any]:
    """The call nodes that have no formula."""
    found: list[Any] = []
    for node in nodes:
        if node.op != "call_function" or is_plain(node.target) or key_of(node.target) in IGNORED:
            continue
        if isinstance(node.target, torch._ops.HigherOrderOperator) and str(node.target) in REGIONS:
            for value in node.args:
                if isinstance(value, torch.fx.Node) and value.op == "get_attr":
                    found += missing(getattr(node.graph.owning_module, value.target).graph.nodes)
        elif formula_of(node.target) is None:
            found.append(node)
    return found


REGIONS = frozenset({"wrap_with_set_grad_enabled", "cond"})
"""Operators that run graphs of their own, and change nothing that these compute."""

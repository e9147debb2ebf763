"""A graph of PyTorch cut into stages: those that are compiled, and between them those that PyTorch runs.

A node belongs to the earliest stage of its kind in which its inputs are there, so that there are as few as can be. What
PyTorch runs of inputs alone comes before all that is compiled:

    a = relu(x)        stage 0, compiled
    b = qr(a)          stage 1, PyTorch
    c = exp(x)         stage 0, compiled
    d = b + c          stage 2, compiled
    e = qr(x)          stage -1, PyTorch
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from tiledsl.importers.torch.run_nodes import is_plain, key_of

VIEWS = frozenset({
    "view.default", "_unsafe_view.default", "t.default", "transpose.int", "permute.default", "expand.default",
    "unsqueeze.default", "squeeze.default", "squeeze.dim", "squeeze.dims", "select.int", "slice.Tensor",
    "alias.default", "detach.default", "diagonal.default", "unfold.default",
})  # fmt: skip
"""Operators that only look at what they are given: of an input, PyTorch does that for nothing."""


@dataclass
class Stage:
    """Nodes of one kind, `compiled` or run by PyTorch; `views` are those of its inputs, which PyTorch runs last."""

    compiled: bool
    nodes: list[Any] = field(default_factory=list[Any])
    inputs: list[Any] = field(default_factory=list[Any])
    outputs: list[Any] = field(default_factory=list[Any])
    views: list[Any] = field(default_factory=list[Any])


GIVEN = -1
"""The number of what is there before the first stage. Stages with odd numbers are PyTorch's."""


def stages_of(graph: Any, on_host: Callable[[Any], bool], in_turn: Callable[[Any], bool]) -> list[Stage]:
    """The stages in order; `on_host` tells which nodes PyTorch runs, `in_turn` which of these keep their order."""
    number: dict[Any, int] = {}
    stages: dict[int, Stage] = {}
    last = GIVEN
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            number[node] = GIVEN
        elif node.op == "call_function":
            host, turn = on_host(node), in_turn(node)
            least = max((number[n] for n in node.all_input_nodes), default=GIVEN)
            if turn:
                least = max(least, last)
            number[node] = at = least + ((least % 2 == 0) if host else least % 2)
            last = at if turn else last
            stages.setdefault(at, Stage(not host)).nodes.append(node)
    result = [stages[at] for at in sorted(stages)]
    for stage in result:
        _connect(stage)
    return [stage for stage in result if stage.nodes or stage.views]


def _connect(stage: Stage) -> None:
    """Finds what a stage reads and what others read of it."""
    inside = set(stage.nodes)
    wanted = [node for node in stage.nodes if any(user not in inside for user in node.users)]
    if stage.compiled:
        looks = [node for node in wanted if _looks_at_input(node, inside)]
        chains = dict.fromkeys(link for node in looks for link in _chain(node, inside))
        stage.views = [node for node in stage.nodes if node in chains]
        wanted = [node for node in wanted if node not in chains]
        stage.nodes = _needed(stage.nodes, wanted, inside)
    stage.outputs = wanted
    read = (n for node in (*stage.nodes, *stage.views) for n in node.all_input_nodes)
    stage.inputs = [n for n in dict.fromkeys(read) if n not in inside]


def _needed(nodes: Sequence[Any], wanted: Sequence[Any], inside: set[Any]) -> list[Any]:
    """The nodes that lead to what is wanted."""
    needed = set[Any]()
    waiting = list(wanted)
    while waiting:
        node = waiting.pop()
        if node in inside and node not in needed:
            needed.add(node)
            waiting += node.all_input_nodes
    return [node for node in nodes if node in needed]


def _looks_at_input(node: Any, inside: set[Any]) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor) and bool(_chain(node, inside))


def _chain(node: Any, inside: set[Any]) -> list[Any]:
    """The views from what a stage reads down to this node; nothing if something is computed on the way."""
    chain: list[Any] = []
    while node in inside:
        if key_of(node.target) not in VIEWS or len(node.all_input_nodes) != 1:
            return []
        chain.append(node)
        node = node.all_input_nodes[0]
    return chain[::-1]


def run_on_host(nodes: Sequence[Any], values: dict[Any, Any]) -> None:
    """Runs nodes with PyTorch; `values` has what they read, and gets what they come to."""

    def value_of(node: Any) -> Any:
        return values[node]

    for node in nodes:
        args = torch.fx.map_arg(node.args, value_of)
        kwargs: Mapping[str, Any] = torch.fx.map_arg(node.kwargs, value_of)
        values[node] = node.target(*args, **kwargs)


def is_size(node: Any) -> bool:
    """Whether a node gives a number, or a list that was taken apart: it goes wherever its inputs are."""
    return is_plain(node.target) or key_of(node.target).startswith(("sym_size.", "sym_numel.", "sym_stride."))


def is_static(node: Any) -> bool:
    """Whether all sizes of a node's value are known."""
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return all(isinstance(size, int) for size in (*value.shape, *value.stride()))
    return not isinstance(value, torch.SymInt)

"""What of an exported model no graph can have: said at the user's lines, the first reason first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tiledsl.importers.torch.node_locations import described, location_of
from tiledsl.importers.torch.run_nodes import key_of, missing
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import Label, fail

_WAYS = {
    "bincount": "say how many there are: `torch.zeros(n, dtype=torch.long).index_add(0, x, torch.ones_like(x))`",
    "repeat_interleave": "say how many there are: `output_size=n`",
    "one_hot": "say how many classes there are: `num_classes=n`",
    "ctc_loss": "leave the loss to PyTorch, and give it what the model returns",
    "lstsq": "use `torch.linalg.solve(a.mT @ a, a.mT @ b)`",
    "unique": "use `torch.sort`, and mark what differs from the one before",
}
"""What to write in place of operators whose result has a size that depends on values."""
_WAY = "keep all elements and mark those that count: `torch.where(mask, x, 0)`"
_OTHERS = 3
"""Of how many other operators the lines are shown."""


def refuse_unknown_values(model: str, program: Any) -> None:
    """Raises TileUnsupportedError for complex elements, and for tensors whose sizes depend on values."""
    for node in program.graph.nodes:
        values = [v for v in torch.utils._pytree.tree_leaves(node.meta.get("val")) if isinstance(v, torch.Tensor)]
        for value in values:
            place = location_of(node) or caller_location()
            if value.is_complex():
                what = f"the argument `{node.name}`" if node.op == "placeholder" else described(node)
                fail("torch-complex", place, model=model, what=what, dtype=value.dtype)
            if any(not isinstance(s, int) and _is_of_values(s) for s in value.shape):
                fail("torch-data-sizes", place, model=model, operator=described(node), fix=way_round(node.target))


def way_round(operator: Any) -> str:
    """What to write in place of an operator whose result has a size that depends on values."""
    return next((way for name, way in _WAYS.items() if name in str(operator)), _WAY)


def _is_of_values(size: Any) -> bool:
    return bool(torch.fx.experimental.symbolic_shapes.free_unbacked_symbols(size))


def refuse_changes(model: str, program: Any) -> None:
    """Raises TileUnsupportedError for a model that changes what it was given, or what it keeps."""
    kinds = torch.export.graph_signature.OutputKind
    nodes = {node.name: node for node in program.graph.nodes}
    wrong: dict[str, tuple[Any, Any]] = {}
    for spec in program.graph_signature.output_specs:
        if spec.kind in (kinds.BUFFER_MUTATION, kinds.USER_INPUT_MUTATION, kinds.PARAMETER_MUTATION):
            node = nodes.get(spec.arg.name)
            if node is None or key_of(node.target) not in _REPEATED:
                wrong.setdefault(str(spec.target), (spec.kind, node))
    if not wrong:
        return
    kind, node = next(iter(wrong.values()))
    last = next(iter(wrong)).rpartition(".")[2]
    if kind == kinds.USER_INPUT_MUTATION:
        fix = f"write to a copy of it, `{last} = {last}.clone()`"
    elif last in _OF_NORMS:
        fix = "call `model.eval()`"
    else:
        fix = f"give `{last}` to `{model}` as an argument, and return what becomes of it"
    place = (None if node is None else location_of(node)) or caller_location()
    fail("torch-changes", place, model=model, names=", ".join(wrong), fix=fix)


_REPEATED = ("embedding_renorm.default",)
"""What changes nothing any more when it is done again: a graph does it at each call, and keeps no result."""
_OF_NORMS = ("running_mean", "running_var", "num_batches_tracked")
"""Buffers that norms change in training."""


def refuse_missing(model: str, nodes: Sequence[Any]) -> None:
    """Raises TileUnsupportedError for nodes that have no formula."""
    unknown = missing(nodes)
    if not unknown:
        return
    first = unknown[0]
    place = location_of(first) or caller_location()
    if _is_random(first):
        fail("torch-random", place, model=model, operator=described(first))
    names = list(dict.fromkeys(described(node) for node in unknown))
    labels: dict[Any, Label] = {}
    for node in unknown[1:]:
        where = location_of(node)
        if where is not None and where != place:
            labels.setdefault(where, Label(where, f"and {described(node)}"))
    fail("torch-operators", place, labels=list(labels.values())[:_OTHERS], model=model, names=", ".join(names))


def _is_random(node: Any) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags

"""Random numbers in graphs of PyTorch: its own generators draw them, before what is compiled.

A drawn tensor depends on shapes and dtypes, not on what the model computes. So what draws is taken apart into a draw,
which PyTorch runs, and what is computed of it, and reads no values of the graph: the draws of a model are one stage at
its beginning, and cut no kernel in two. They stay in the order in which the model has them, so that a seed gives the
numbers that it gives eager PyTorch.

    y = x @ w                                       mask = keeps(3, 8)                  PyTorch
    z = native_dropout(y, 0.5, True)      ──▶       z = (x @ w) * mask * 2              compiled
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tiledsl.importers.torch.run_nodes import key_of
from tiledsl.importers.torch.stages import is_static

OF_A_KIND = frozenset({
    "rand_like.default", "randn_like.default", "randint_like.default", "randint_like.low_dtype", "bernoulli.p",
    "uniform.default", "normal_functional.default", "exponential.default", "geometric.default", "cauchy.default",
    "log_normal.default", "random.default", "random.to", "random.from",
})  # fmt: skip
"""Operators that read of their first tensor how it lies in memory, and nothing else."""


def is_random(node: Any) -> bool:
    """Whether a node draws random numbers: such nodes keep their order."""
    if node.target in (keeps, unwritten):
        return node.target is keeps
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def is_draw(node: Any) -> bool:
    """Whether a node is a step of drawing which reads no values of the graph."""
    if node.target is unwritten or node.target is keeps:
        return True
    return is_random(node) and all(source.target is unwritten for source in node.all_input_nodes)


def split_draws(graph: Any) -> None:
    """Rewrites the random operators of a graph so that what draws reads no values, where sizes are known."""
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        key = key_of(node.target)
        if key == "native_dropout.default":
            _split_dropout(graph, node)
        elif key in OF_A_KIND and isinstance(node.args[0], torch.fx.Node) and is_static(node.args[0]):
            with graph.inserting_before(node):
                blank = graph.call_function(unwritten, _kind(node.args[0].meta["val"]))
            blank.meta = {**node.meta, "val": node.args[0].meta["val"]}
            node.args = (blank, *node.args[1:])


def _split_dropout(graph: Any, node: Any) -> None:
    """Dropout as what is kept, and what is computed of it. That with nothing to drop is left to its formula."""
    x, share, train = (*node.args, *node.kwargs.values())
    if train is False or not share or not is_static(x):
        return
    value, kept = node.meta["val"]
    with graph.inserting_before(node):
        mask = graph.call_function(keeps, (*_kind(x.meta["val"]), share))
        product = graph.call_function(torch.ops.aten.mul.Tensor, (x, mask))
        scaled = graph.call_function(torch.ops.aten.mul.Scalar, (product, 0.0 if share == 1 else 1 / (1 - share)))
    mask.meta = {**node.meta, "val": kept, "draws": node.target}
    product.meta = scaled.meta = {**node.meta, "val": value}
    for part in list(node.users):
        part.replace_all_uses_with((scaled, mask)[part.args[1]])
        graph.erase_node(part)
    graph.erase_node(node)


def _kind(value: Any) -> tuple[Any, ...]:
    return tuple(value.shape), tuple(value.stride()), value.dtype, value.device


def unwritten(shape: Sequence[int], stride: Sequence[int], dtype: Any, device: Any) -> Any:
    """A tensor that lies like another one, for an operator that does not read it."""
    return torch.empty_strided(shape, stride, dtype=dtype, device=device)


def keeps(shape: Sequence[int], stride: Sequence[int], dtype: Any, device: Any, share: float) -> Any:
    """Which elements of a tensor like that dropout keeps, of which it drops that share: as eager PyTorch does there."""
    like = unwritten(shape, stride, dtype, device)
    if torch.device(device).type == "cpu":
        return torch.empty_like(like, dtype=torch.bool).bernoulli_(1 - share)
    return torch.native_dropout(like, share, True)[1]  # which number is whose depends on the dtype there

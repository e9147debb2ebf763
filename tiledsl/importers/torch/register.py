"""The register of operators of ATen, and of torchvision: which function is the formula of which of them.

A formula takes an operator's arguments as PyTorch passes them, tensors as traced ones, and gives what it returns. This
module and those of `operators/` do not import PyTorch: a `torch.dtype` is told by its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Formula = Callable[..., Any]
FormulaT = TypeVar("FormulaT", bound=Formula)

OPERATORS: dict[str, Formula] = {}
"""Formulas by operator and overload: `add.Tensor`, `torchvision::roi_align.default`."""
WHOLE_IN_EXPORTS = frozenset({"lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input"})
"""Operators that are taken apart before their gradients are made, so that only exported models have them."""
READERS_OF_MEMORY = frozenset({"as_strided.default", "as_strided_copy.default", "as_strided_scatter.default"})
"""Operators whose formula also takes `memory`: the strides and the offset of its first tensor."""

SCATTERS = frozenset({
    "index_put.default", "_unsafe_index_put.default", "_index_put_impl.default", "index_add.default", "scatter.src",
    "scatter.reduce", "scatter.value", "scatter.value_reduce", "scatter_add.default", "scatter_reduce.two",
    "embedding_dense_backward.default", "max_pool2d_with_indices_backward.default", "put.default",
    "index_reduce.default", "embedding_bag.default", "embedding_bag.padding_idx", "_embedding_bag.default",
    "_embedding_bag_forward_only.default",
})  # fmt: skip
"""Operators whose formula also takes `deterministic`: what `torch.use_deterministic_algorithms` said."""


def aten(name: str, *overloads: str) -> Callable[[FormulaT], FormulaT]:
    """Marks the formula of an operator, for these overloads: for `default` if none is named.

    >>> @aten("add", "Tensor", "Scalar")
    """

    def mark(formula: FormulaT) -> FormulaT:
        for overload in overloads or ("default",):
            key = f"{name}.{overload}"
            assert key not in OPERATORS, f"aten.{key} has two formulas"
            OPERATORS[key] = formula
        return formula

    return mark

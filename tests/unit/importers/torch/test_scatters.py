"""Scatters and windows of models: sums in any order, or in one where PyTorch was told so."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import tiledsl  # noqa: E402
from tiledsl.backend_ref.execute_graph import execute_graph  # noqa: E402


def callees(graph: Any) -> set[str]:
    """The kernels that a graph calls, without what tells those of one name apart."""
    return {op.callee.rstrip("_0123456789") for op in graph.module.entry.body.ops if hasattr(op, "callee")}


def agree(graph: Any, expected: Any, *given: Any) -> None:
    (actual,) = execute_graph(graph.module.entry, [v.numpy() for v in given], graph.module)
    np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-5, atol=1e-5)


def test_slices_are_not_spread_over_memory() -> None:
    """An index that is expanded along rows is read once for each row."""

    def model(x: Any, index: Any) -> Any:
        return torch.zeros(5, 6).scatter_reduce(0, index[:, None].expand_as(x), x, "amax")

    x, index = torch.randn(9, 6), torch.randint(0, 5, (9,))
    graph = tiledsl.from_torch(model, x, index)
    assert callees(graph) == {"_into_slices"}
    agree(graph, model(x, index), x, index)


def test_sums_in_order() -> None:
    def model(x: Any, index: Any) -> Any:
        return torch.zeros(5, 6).index_add(0, index, x)

    x, index = torch.randn(9, 6), torch.randint(0, 5, (9,))
    assert callees(tiledsl.from_torch(model, x, index)) == {"_into_slices"}
    torch.use_deterministic_algorithms(True)
    try:
        graph = tiledsl.from_torch(model, x, index)
    finally:
        torch.use_deterministic_algorithms(False)
    assert callees(graph) == {"_in_order"}
    agree(graph, model(x, index), x, index)


@pytest.mark.parametrize("options", [(8, 1, 0, 4), (3, 1, 1, 2), ((2, 3), (2, 1), (1, 0), (2, 1)), (5, 1, 2, 1)])
def test_windows_as_columns_and_back(options: Any) -> None:
    """Neither is a scatter or a gather of PyTorch's."""
    functional = torch.nn.functional
    x = torch.randn(1, 2, 12, 16)
    columns = functional.unfold(x, *options)
    agree(tiledsl.from_torch(lambda x: functional.unfold(x, *options), x), columns, x)
    graph = tiledsl.from_torch(lambda y: functional.fold(y, (12, 16), *options), columns)
    assert not callees(graph)
    agree(graph, functional.fold(columns, (12, 16), *options), columns)

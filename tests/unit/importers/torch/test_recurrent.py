"""Recurrent layers of PyTorch: loops of the graph that compute what the layers do."""

# PyTorch's types are not read here
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import tiledsl  # noqa: E402
from tiledsl import TileError  # noqa: E402

LAYERS: dict[str, tuple[Any, tuple[int, ...], int]] = {
    "LSTM, two layers, both ways": (lambda n: n.LSTM(6, 5, num_layers=2, bidirectional=True), (4, 3, 6), 4),
    "LSTM, projected": (lambda n: n.LSTM(6, 5, proj_size=3, bidirectional=True, bias=False), (4, 3, 6), 2),
    "GRU, batch first": (lambda n: n.GRU(6, 5, batch_first=True), (3, 4, 6), 1),
    "RNN by relu, no biases": (lambda n: n.RNN(6, 5, nonlinearity="relu", bias=False), (4, 3, 6), 1),
    "RNN of one sequence": (lambda n: n.RNN(6, 5, bidirectional=True), (4, 6), 2),
}


def flat(value: Any) -> list[Any]:
    return [leaf for part in value for leaf in flat(part)] if isinstance(value, (tuple, list)) else [value]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_loops(name: str) -> None:
    make, shape, loops = LAYERS[name]
    model, x = make(torch.nn).eval(), torch.randn(*shape)
    graph = tiledsl.from_torch(model, x)
    assert graph.ir().count("graph.loop(") == loops
    for actual, expected in zip(flat(graph(x)), flat(model(x))):
        np.testing.assert_allclose(np.asarray(actual), expected.detach().numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_dropout_between_layers_is_refused() -> None:
    with pytest.raises(TileError, match="0 between layers that are trained"):
        tiledsl.from_torch(torch.nn.LSTM(6, 5, num_layers=2, dropout=0.5).train(), torch.randn(4, 3, 6))

"""Recurrent layers that PyTorch has as one operator: loops over steps, layer by layer, in one direction or in both."""

# traced tensors have no types
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiledsl import ops, tile
from tiledsl.importers.torch.register import aten
from tiledsl.ops.checks import as_tensor, refuse_option
from tiledsl.ops.loops import scan

Layer = Callable[..., tuple[Any, ...]]
"""From a sequence [L, N, I], parameters and states to outputs, and the last states."""


def _layers(
    name: str, layer: Layer, x: Any, states: Sequence[Any], params: Sequence[Any], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """The outputs of the last layer, and the last states [layers * directions, N, H]."""
    if train and dropout and num_layers > 1:
        refuse_option(name, "dropout", dropout, "0 between layers that are trained", "call `model.eval()`")
    x = as_tensor(x)
    one = x.ndim == 2
    if one:
        x, states = x[:, None], [state[:, None] for state in states]
    elif batch_first:
        x = x.transpose((1, 0, 2))
    ways = (False, True) if bidirectional else (False,)
    each = len(params) // (num_layers * len(ways))
    lasts: list[tuple[Any, ...]] = []
    for _ in range(num_layers):
        outputs: list[Any] = []
        for reverse in ways:
            place = len(lasts)
            mine = list(params[place * each : (place + 1) * each])
            biases = mine[2:4] if has_biases else [None, None]
            projection = mine[-1] if each > (4 if has_biases else 2) else None
            begin = [state[place] for state in states]
            found = layer(x, mine[0], mine[1], *biases, *begin, projection=projection, reverse=reverse)
            outputs.append(found[0])
            lasts.append(found[1:])
        x = outputs[0] if len(outputs) == 1 else tile.concat(outputs, axis=2)
    ends = [tile.stack(list(column)) for column in zip(*lasts)]
    if one:
        return (x[:, 0], *(end[:, 0] for end in ends))
    return (x.transpose((1, 0, 2)) if batch_first else x, *ends)


def _lstm(
    x: Any, w: Any, u: Any, b: Any, c: Any, h0: Any, c0: Any, *, projection: Any, reverse: bool
) -> tuple[Any, ...]:
    if projection is None:
        return ops.lstm(x, w, u, b, c, h0, c0, reverse=reverse)
    given = tile.dot(x, w.mT)
    for bias in (b, c):
        given = given if bias is None else given + bias
    width = c0.shape[-1]

    def step(states: Any, gates: Any) -> tuple[Any, Any]:
        h, c = states
        gates = gates + tile.dot(h.to(u.dtype), u.mT)
        i, f, g, o = (gates[:, n * width : (n + 1) * width] for n in range(4))
        c = tile.sigmoid(f) * c + tile.sigmoid(i) * tile.tanh(g)
        h = tile.dot((tile.sigmoid(o) * tile.tanh(c)).to(u.dtype), projection.mT)
        return (h, c), h

    wide = given.dtype
    (h, c), outputs = scan(step, (h0.to(wide), c0.to(wide)), given, reverse=reverse)
    return tuple(value.to(x.dtype) for value in (outputs, h, c))


def _plain(activation: Any) -> Layer:
    def layer(x: Any, *given: Any, projection: Any, reverse: bool) -> tuple[Any, ...]:
        del projection
        return ops.rnn(x, *given, activation=activation, reverse=reverse)

    return layer


def _gru(x: Any, *given: Any, projection: Any, reverse: bool) -> tuple[Any, ...]:
    del projection
    return ops.gru(x, *given, reverse=reverse)


@aten("lstm", "input")
def lstm(x: Any, hx: Any, params: Any, *options: Any) -> Any:
    return _layers("lstm", _lstm, x, list(hx), params, *options)


@aten("gru", "input")
def gru(x: Any, hx: Any, params: Any, *options: Any) -> Any:
    return _layers("gru", _gru, x, [hx], params, *options)


@aten("rnn_tanh", "input")
def rnn_tanh(x: Any, hx: Any, params: Any, *options: Any) -> Any:
    return _layers("rnn_tanh", _plain(tile.tanh), x, [hx], params, *options)


@aten("rnn_relu", "input")
def rnn_relu(x: Any, hx: Any, params: Any, *options: Any) -> Any:
    return _layers("rnn_relu", _plain(tile.relu), x, [hx], params, *options)

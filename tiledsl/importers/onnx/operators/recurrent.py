"""Recurrent layers: in one direction or in both, with the activations that ONNX names."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiledsl import ops, tile
from tiledsl.importers.onnx.call import Call
from tiledsl.importers.onnx.register import operator

ACTIVATIONS: dict[str, Callable[[Any, float, float], Any]] = {
    "relu": lambda x, a, b: tile.relu(x),
    "tanh": lambda x, a, b: tile.tanh(x),
    "sigmoid": lambda x, a, b: tile.sigmoid(x),
    "affine": lambda x, a, b: a * x + b,
    "leakyrelu": lambda x, a, b: ops.leaky_relu(x, a),
    "thresholdedrelu": lambda x, a, b: tile.where(x >= a, x, 0.0),
    "scaledtanh": lambda x, a, b: a * tile.tanh(b * x),
    "hardsigmoid": lambda x, a, b: tile.clip(a * x + b, 0.0, 1.0),
    "elu": lambda x, a, b: ops.elu(x, a),
    "softsign": lambda x, a, b: x / (1.0 + tile.abs(x)),
    "softplus": lambda x, a, b: ops.softplus(x),
}
_DEFAULTS = {"leakyrelu": (0.01, 0.0), "elu": (1.0, 0.0), "thresholdedrelu": (1.0, 0.0), "hardsigmoid": (0.2, 0.5)}

Layer = Callable[..., Sequence[Any]]
"""The outputs and last states of a direction, from its number, inputs, two biases and states."""


def _activations(node: Call, names: Any, alphas: Any, betas: Any, default: tuple[str, ...]) -> list[Any]:
    """The functions, with their parameters, in order: for each direction as many as `default` has."""
    alpha, beta = iter(alphas or ()), iter(betas or ())
    found: list[Any] = []
    for name in names or default * 2:
        kind = name.lower()
        if kind not in ACTIVATIONS:
            node.refuse("activations", name, ", ".join(ACTIVATIONS))
        a, b = _DEFAULTS.get(kind, (1.0, 0.0))
        if kind in ("affine", "scaledtanh", "hardsigmoid", "leakyrelu", "elu", "thresholdedrelu"):
            a = next(alpha, a)
        if kind in ("affine", "scaledtanh", "hardsigmoid"):
            b = next(beta, b)
        found.append(lambda x, k=kind, a=a, b=b: ACTIVATIONS[k](x, a, b))
    return found


def _layers(node: Call, x: Any, b: Any, starts: Sequence[Any], layer: Layer, direction: str, layout: int) -> Any:
    """The outputs [seq, directions, batch, hidden], and the last states of all directions."""
    if direction not in ("forward", "reverse", "bidirectional"):
        node.refuse("direction", direction, "forward, reverse or bidirectional")
    ways = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[direction]
    inputs = x.transpose((1, 0, 2)) if layout else x
    found: list[Sequence[Any]] = []
    for k, reverse in enumerate(ways):
        states = [None if s is None else s[:, k] if layout else s[k] for s in starts]
        gates = 0 if b is None else b.shape[-1] // 2
        biases = (None, None) if b is None else (b[k, :gates], b[k, gates:])
        found.append(layer(k, inputs, *biases, *states, reverse=reverse))
    y = tile.stack([outputs for outputs, *_ in found], axis=1)
    lasts = [tile.stack(states, axis=0) for states in zip(*(states for _, *states in found))]
    if layout:
        y, lasts = y.transpose((2, 0, 1, 3)), [last.transpose((1, 0, 2)) for last in lasts]
    return (y, *lasts)[: max(node.outputs, 1)]


@operator("RNN", since=7)
def rnn(
    x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, start: Any = None, *, activation_alpha: Any = None,
    activation_beta: Any = None, activations: Any = None, clip: float | None = None, direction: str = "forward",
    hidden_size: int, layout: int = 0, node: Call,
) -> Any:  # fmt: skip
    functions = _activations(node, activations, activation_alpha, activation_beta, ("Tanh",))

    def layer(k: int, x: Any, *given: Any, reverse: bool) -> Any:
        return ops.rnn(x, w[k], r[k], *given, activation=functions[k], clip=clip, reverse=reverse, lengths=lengths)

    return _layers(node, x, b, [start], layer, direction, layout)


@operator("GRU", since=7)
def gru(
    x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, start: Any = None, *, activation_alpha: Any = None,
    activation_beta: Any = None, activations: Any = None, clip: float | None = None, direction: str = "forward",
    hidden_size: int, layout: int = 0, linear_before_reset: int = 0, node: Call,
) -> Any:  # fmt: skip
    functions = _activations(node, activations, activation_alpha, activation_beta, ("Sigmoid", "Tanh"))

    def layer(k: int, x: Any, *given: Any, reverse: bool) -> Any:
        return ops.gru(
            x, w[k], r[k], *given, reset_after=bool(linear_before_reset), activations=functions[2 * k : 2 * k + 2],
            clip=clip, order="zrn", reverse=reverse, lengths=lengths,
        )  # fmt: skip

    return _layers(node, x, b, [start], layer, direction, layout)


@operator("LSTM", since=7)
def lstm(
    x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, start: Any = None, cell: Any = None, peep: Any = None,
    *,
    activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None, clip: float | None = None,
    direction: str = "forward", hidden_size: int, input_forget: int = 0, layout: int = 0, node: Call,
) -> Any:  # fmt: skip
    functions = _activations(node, activations, activation_alpha, activation_beta, ("Sigmoid", "Tanh", "Tanh"))

    def layer(k: int, x: Any, *given: Any, reverse: bool) -> Any:
        return ops.lstm(
            x, w[k], r[k], *given, peepholes=None if peep is None else peep[k].reshape((3, hidden_size)),
            activations=functions[3 * k : 3 * k + 3], clip=clip, coupled=bool(input_forget), order="iofg",
            reverse=reverse, lengths=lengths,
        )  # fmt: skip

    return _layers(node, x, b, [start, cell], layer, direction, layout)

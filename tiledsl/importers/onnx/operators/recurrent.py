"""Recurrent networks: a step for each element of the sequence, one after the other."""

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

Step = Callable[..., Sequence[Any]]


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


def _limited(clip: float | None, x: Any) -> Any:
    return x if clip is None else tile.clip(x, -clip, clip)


def _run(
    node: Call, x: Any, lengths: Any, states: list[list[Any]], steps: list[Step], direction: str, layout: int
) -> Any:
    """The outputs [seq, directions, batch, hidden], and the last state of each direction."""
    if direction not in ("forward", "reverse", "bidirectional"):
        node.refuse("direction", direction, "forward, reverse or bidirectional")
    ways = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[direction]
    inputs = x.transpose((1, 0, 2)) if layout else x
    count = inputs.shape[0]
    columns: list[Any] = []
    finals: list[Sequence[Any]] = []
    for backwards, state, step in zip(ways, states, steps):
        results: list[Any] = [None] * count
        for turn in range(count):
            at = count - 1 - turn if backwards else turn
            new = step(inputs[at], *state)
            if lengths is not None:
                going = (lengths.to(tile.i64) > at)[:, None]
                kept = [tile.where(going, n, o) for n, o in zip(new, state)]
                results[at] = tile.where(going, new[0], 0.0)
                state = kept
            else:
                results[at], state = new[0], list(new)
        columns.append(tile.stack(results, axis=0))
        finals.append(state)
    y = tile.stack(columns, axis=1)
    lasts = [tile.stack([state[i] for state in finals], axis=0) for i in range(len(finals[0]))]
    if layout:
        y, lasts = y.transpose((2, 0, 1, 3)), [last.transpose((1, 0, 2)) for last in lasts]
    return (y, *lasts)[: max(node.outputs, 1)]


def _states(given: Sequence[Any], count: int, batch: int, hidden: int, x: Any, layout: int) -> list[list[Any]]:
    """The state of each direction at the beginning: zeros where it is not given."""
    zeros = tile.zeros((batch, hidden), x.dtype)
    found: list[list[Any]] = []
    for i in range(count):
        found.append([zeros if s is None else (s[:, i] if layout else s[i]) for s in given])
    return found


def _biases(b: Any, direction: int, gates: int, hidden: int, x: Any) -> tuple[Any, Any]:
    """What is added to the products with the input, and with the state."""
    if b is None:
        return 0.0, 0.0
    row = b[direction]
    return row[: gates * hidden], row[gates * hidden :]


@operator("RNN", since=7)
def rnn(
    x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, start: Any = None, *, activation_alpha: Any = None,
    activation_beta: Any = None, activations: Any = None, clip: float | None = None, direction: str = "forward",
    hidden_size: int, layout: int = 0, node: Call,
) -> Any:  # fmt: skip
    functions = _activations(node, activations, activation_alpha, activation_beta, ("Tanh",))
    batch = x.shape[0 if layout else 1]

    def step_of(i: int) -> Step:
        first, second = _biases(b, i, 1, hidden_size, x)

        def step(x: Any, h: Any) -> Sequence[Any]:
            return (functions[i](_limited(clip, x @ w[i].mT + h @ r[i].mT + first + second)),)

        return step

    count = w.shape[0]
    states = _states([start], count, batch, hidden_size, x, layout)
    return _run(node, x, lengths, states, [step_of(i) for i in range(count)], direction, layout)


@operator("GRU", since=7)
def gru(
    x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, start: Any = None, *, activation_alpha: Any = None,
    activation_beta: Any = None, activations: Any = None, clip: float | None = None, direction: str = "forward",
    hidden_size: int, layout: int = 0, linear_before_reset: int = 0, node: Call,
) -> Any:  # fmt: skip
    functions = _activations(node, activations, activation_alpha, activation_beta, ("Sigmoid", "Tanh"))
    batch, n = x.shape[0 if layout else 1], hidden_size

    def step_of(i: int) -> Step:
        gate, new = functions[2 * i], functions[2 * i + 1]
        first, second = _biases(b, i, 3, n, x)

        def step(x: Any, h: Any) -> Sequence[Any]:
            ahead = x @ w[i].mT + first
            back = h @ r[i][: 2 * n].mT + (second if b is None else second[: 2 * n])
            gates = gate(_limited(clip, ahead[:, : 2 * n] + back))
            update, reset = gates[:, :n], gates[:, n:]
            last = 0.0 if b is None else second[2 * n :]
            if linear_before_reset:
                inner = reset * (h @ r[i][2 * n :].mT + last)
            else:
                inner = (reset * h) @ r[i][2 * n :].mT + last
            candidate = new(_limited(clip, ahead[:, 2 * n :] + inner))
            return ((1.0 - update) * candidate + update * h,)

        return step

    count = w.shape[0]
    states = _states([start], count, batch, n, x, layout)
    return _run(node, x, lengths, states, [step_of(i) for i in range(count)], direction, layout)


@operator("LSTM", since=7)
def lstm(
    x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, start: Any = None, cell: Any = None, peep: Any = None,
    *,
    activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None, clip: float | None = None,
    direction: str = "forward", hidden_size: int, input_forget: int = 0, layout: int = 0, node: Call,
) -> Any:  # fmt: skip
    functions = _activations(node, activations, activation_alpha, activation_beta, ("Sigmoid", "Tanh", "Tanh"))
    batch, n = x.shape[0 if layout else 1], hidden_size

    def step_of(k: int) -> Step:
        f, g, h_of = functions[3 * k : 3 * k + 3]
        first, second = _biases(b, k, 4, n, x)

        def step(x: Any, h: Any, c: Any) -> Sequence[Any]:
            gates = x @ w[k].mT + h @ r[k].mT + first + second
            i, o, forget, new = (gates[:, j * n : (j + 1) * n] for j in range(4))
            if peep is not None:
                i, forget = i + peep[k][:n] * c, forget + peep[k][2 * n :] * c
            i = f(_limited(clip, i))
            forget = 1.0 - i if input_forget else f(_limited(clip, forget))
            c = forget * c + i * g(_limited(clip, new))
            if peep is not None:
                o = o + peep[k][n : 2 * n] * c
            return f(_limited(clip, o)) * h_of(c), c

        return step

    count = w.shape[0]
    states = _states([start, cell], count, batch, n, x, layout)
    return _run(node, x, lengths, states, [step_of(i) for i in range(count)], direction, layout)

"""Recurrent layers against PyTorch, and against formulas of NumPy for what only ONNX has."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportCallIssue=false
# ruff: noqa: B023 - what loops make is called at once

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.op_checks import F16, F64, Array, agree, meant, normal
from tiledsl import TileError, ops, tile

torch = pytest.importorskip("torch")

L, N, INPUTS, H = 5, 3, 4, 6
LAYERS: dict[str, tuple[Any, Any, int]] = {
    "rnn": (ops.rnn, torch.nn.RNN, 1), "lstm": (ops.lstm, torch.nn.LSTM, 4), "gru": (ops.gru, torch.nn.GRU, 3),
}  # fmt: skip


def weights(gates: int, seed: int = 0) -> list[Array]:
    return [
        normal(*shape, scale=0.5, seed=seed + i)
        for i, shape in enumerate([(gates * H, INPUTS), (gates * H, H), (gates * H,), (gates * H,)])
    ]


def layer_of(name: str, both: bool) -> Any:
    """PyTorch's layer in f64 with these weights, and others for the way back."""
    layer = LAYERS[name][1](INPUTS, H, bidirectional=both).double()
    given = [*weights(LAYERS[name][2]), *(weights(LAYERS[name][2], 10) if both else [])]
    for parameter, value in zip(layer.parameters(), given):
        parameter.data = torch.tensor(value.astype(F64))
    return layer


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    op, _, gates = LAYERS[name]
    states = [normal(N, H, seed=20 + i) for i in range(2 if name == "lstm" else 1)]
    x = normal(L, N, INPUTS)
    with torch.no_grad():
        first = [torch.tensor(s.astype(F64))[None] for s in states]
        y, last = layer_of(name, False)(torch.tensor(x.astype(F64)), tuple(first) if name == "lstm" else first[0])
    wanted = (y.numpy(), *(s[0].numpy() for s in (last if name == "lstm" else (last,))))
    agree(lambda x, *given: op(x, *given), [x, *weights(gates), *states], wanted, terms=10)


@pytest.mark.parametrize("name", LAYERS)
def test_both_directions_and_lengths(name: str) -> None:
    op, _, gates = LAYERS[name]
    x, lengths = normal(L, N, INPUTS), np.array([5, 2, 3])
    with torch.no_grad():
        packed = torch.nn.utils.rnn.pack_padded_sequence(torch.tensor(x.astype(F64)), lengths, enforce_sorted=False)
        y, last = layer_of(name, True)(packed)
        y = torch.nn.utils.rnn.pad_packed_sequence(y)[0].numpy()
    last = last if name == "lstm" else (last,)
    for reverse in (False, True):
        wanted = (y[..., H:] if reverse else y[..., :H], *(s[int(reverse)].numpy() for s in last))
        given = [x, *weights(gates, 10 if reverse else 0), lengths]
        meant(lambda x, *w: op(x, *w[:-1], reverse=reverse, lengths=w[-1]), given, wanted, terms=10)
    whole = layer_of(name, True)(torch.tensor(x.astype(F64)))[0].detach().numpy()
    meant(lambda x, *w: op(x, *w, reverse=True)[0], [x, *weights(gates, 10)], whole[..., H:], terms=10)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def test_what_only_onnx_has() -> None:
    x, given, peepholes = normal(L, N, INPUTS), weights(4), normal(3, H, seed=30)
    w_ih, w_hh, b_ih, b_hh = (v.astype(F64) for v in given)
    h, c, outputs = np.zeros((N, H)), np.zeros((N, H)), []
    for t in range(L):
        i, f, g, o = np.split(x[t] @ w_ih.T + b_ih + h @ w_hh.T + b_hh, 4, axis=1)
        i, f = i + peepholes[0] * c, f + peepholes[1] * c
        c = sigmoid(np.clip(f, -0.7, 0.7)) * c + sigmoid(np.clip(i, -0.7, 0.7)) * np.tanh(np.clip(g, -0.7, 0.7))
        h = sigmoid(np.clip(o + peepholes[2] * c, -0.7, 0.7)) * np.maximum(c, 0)
        outputs.append(h)
    meant(
        lambda x, p, *w: ops.lstm(x, *w, peepholes=p, clip=0.7, activations=(tile.sigmoid, tile.tanh, tile.relu)),
        [x, peepholes, *given], (np.array(outputs), h, c), terms=10,
    )  # fmt: skip
    given = weights(3)
    w_ih, w_hh, b_ih, b_hh = (v.astype(F64) for v in given)
    h = np.zeros((N, H))
    for t in range(L):
        (rx, zx, nx), (rw, zw, nw) = np.split(x[t] @ w_ih.T + b_ih, 3, axis=1), np.split(w_hh, 3)
        rb, zb, nb = np.split(b_hh, 3)
        r, z = sigmoid(rx + h @ rw.T + rb), sigmoid(zx + h @ zw.T + zb)
        h = (1 - z) * np.tanh(nx + (r * h) @ nw.T + nb) + z * h
    meant(lambda x, *w: ops.gru(x, *w, reset_after=False)[1], [x, *given], h, terms=10)
    relu = torch.nn.RNN(INPUTS, H, nonlinearity="relu").double()
    for parameter, value in zip(relu.parameters(), weights(1)):
        parameter.data = torch.tensor(value.astype(F64))
    wanted = relu(torch.tensor(x.astype(F64)))[0].detach().numpy()
    meant(lambda x, *w: ops.rnn(x, *w, activation=tile.relu)[0], [x, *weights(1)], wanted, terms=10)


@pytest.mark.parametrize(
    ("name", "order", "options"),
    [
        ("lstm", "iofg", {"clip": 0.6}),
        ("lstm", "gfoi", {"coupled": True}),
        ("gru", "zrn", {"reset_after": False, "clip": 0.6}),
        ("gru", "nzr", {}),
    ],
)
def test_other_orders_of_gates(name: str, order: str, options: dict[str, Any]) -> None:
    op, _, gates = LAYERS[name]
    own = "ifgo" if name == "lstm" else "rzn"
    x, given = normal(L, N, INPUTS), weights(gates)
    turned = [np.concatenate([np.split(w, gates)[own.index(gate)] for gate in order]) for w in given]
    holes = {"peepholes": normal(3, H, seed=30)} if name == "lstm" else {}
    rows = [own.replace("g", "").index(gate) for gate in order if gate != "g"] if name == "lstm" else []
    wanted = tiledsl.trace(lambda x, *w: op(x, *w, **holes, **options)[0], x, *given)(x, *given)
    holes = {key: value[rows] for key, value in holes.items()}
    meant(lambda x, *w: op(x, *w, order=order, **holes, **options)[0], [x, *turned], wanted, terms=10)


def test_limited_and_coupled_gates() -> None:
    x, given = normal(L, N, INPUTS), weights(4)
    w_ih, w_hh, b_ih, b_hh = (v.astype(F64) for v in given)
    h, c = np.zeros((N, H)), np.zeros((N, H))
    for t in range(L):
        i, _, g, o = (np.clip(v, -0.6, 0.6) for v in np.split(x[t] @ w_ih.T + b_ih + h @ w_hh.T + b_hh, 4, axis=1))
        c = (1 - sigmoid(i)) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    meant(lambda x, *w: ops.lstm(x, *w, clip=0.6, coupled=True)[1:], [x, *given], (h, c), terms=10)
    given = weights(3)
    w_ih, w_hh, b_ih, b_hh = (v.astype(F64) for v in given)
    h = np.zeros((N, H))
    for t in range(L):
        (rx, zx, nx), (rh, zh, nh) = (np.split(v, 3, axis=1) for v in (x[t] @ w_ih.T + b_ih, h @ w_hh.T + b_hh))
        r, z = (sigmoid(np.clip(v, -0.6, 0.6)) for v in (rx + rh, zx + zh))
        h = (1 - z) * np.tanh(np.clip(nx + r * nh, -0.6, 0.6)) + z * h
    meant(lambda x, *w: ops.gru(x, *w, clip=0.6)[1], [x, *given], h, terms=10)
    w_ih, w_hh, b_ih, b_hh = (v.astype(F64) for v in weights(1))
    h = np.zeros((N, H))
    for t in range(L):
        h = np.tanh(np.clip(x[t] @ w_ih.T + b_ih + h @ w_hh.T + b_hh, -0.6, 0.6))
    meant(lambda x, *w: ops.rnn(x, *w, clip=0.6)[1], [x, *weights(1)], h, terms=10)


def test_narrow_floats_without_biases() -> None:
    x, given = normal(L, N, INPUTS, dtype=F16), [w.astype(F16) for w in weights(4)[:2]]
    layer = torch.nn.LSTM(INPUTS, H, bias=False).double()
    for parameter, value in zip(layer.parameters(), given):
        parameter.data = torch.tensor(value.astype(F64))
    wanted = layer(torch.tensor(x.astype(F64)))[0].detach().numpy()
    meant(lambda x, *w: ops.lstm(x, *w)[0], [x, *given], wanted, terms=10)


X, W = normal(L, N, INPUTS), weights(4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.lstm(X[0], *W), r"has the shape \[3, 4\], not \[L, N, I\]"),
        (lambda: ops.gru(X, *W), r"not \[3 \* H, H\]"),
        (lambda: ops.lstm(X[..., :2], *W), r"a row of weights has a number for each input"),
        (lambda: ops.lstm(X, W[0], W[1], W[2][:3]), r"there is one bias for each row of weights"),
        (lambda: ops.lstm(X, *W, X[0]), r"a state is \[N, 6\]"),
        (lambda: ops.lstm(X, *W, lengths=np.array([1])), r"there is one length for each sequence"),
        (lambda: ops.lstm(X, *W, peepholes=X[0]), r"there are three peepholes for each element"),
        (lambda: ops.lstm(X, *W, order="ifco"), r"`order` is 'ifco', not the letters of \"ifgo\" in some order"),
        (lambda: ops.gru(X, *weights(3), reset_after=False, order="nrz"), r"`order` is 'nrz', not one with n last"),
        (lambda: ops.rnn(X[:0], *weights(1)), r"`x` is 0, not a known length of at least 1"),
    ],
)  # fmt: skip
def test_bad_arguments(call: Any, message: str) -> None:
    with pytest.raises(TileError, match=message):
        call()

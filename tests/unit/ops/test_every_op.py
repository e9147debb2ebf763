"""Every op of the library is compiled for a CPU and lowered for a GPU; families are compiled as one module each."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportCallIssue=false

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.op_checks import normal
from tiledsl import ops, tile

X, ROW, MATRIX, IMAGE, VOLUME = normal(6, 8), normal(8), normal(8, 8), normal(2, 4, 6, 6), normal(1, 2, 4, 4, 4)
LONG, INDEX, BYTES = normal(2, 150), np.arange(48).reshape(6, 8) % 6, np.arange(64, dtype=np.uint8).reshape(8, 8)
Formula = Callable[[], Any]
ACTIVATIONS = (
    "relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish", "sigmoid", "logsigmoid", "tanh",
    "hardtanh", "hardsigmoid", "hardswish", "hardshrink", "softshrink", "tanhshrink", "softplus", "softsign", "glu",
    "swiglu",
)  # fmt: skip
LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "bce_loss", "bce_with_logits_loss", "kl_div")

FAMILIES: dict[str, dict[str, Formula]] = {
    "products": {
        "matmul": lambda: ops.matmul(X, MATRIX),
        "linear": lambda: ops.linear(X, MATRIX, ROW),
        "attention": lambda: ops.attention(X, X, X),
    },
    "experts": {
        "grouped_linear": lambda: ops.grouped_linear(X, normal(2, 8, 8), np.array([0, 2, 6])),
        "route": lambda: tuple(ops.route(X, 2)),
        "dispatch": lambda: ops.dispatch(X, ops.route(X, 2)),
        "combine": lambda: ops.combine(ops.dispatch(X, ops.route(X, 2)), ops.route(X, 2)),
    },
    "quantised tensors": {
        "quantise": lambda: ops.quantise(MATRIX, tile.i4, group=4),
        "dequantise": lambda: ops.dequantise(BYTES, MATRIX[:, :2], dtype=tile.u4, group=8),
        "quantised_linear": lambda: ops.quantised_linear(LONG[:, :16], BYTES, MATRIX[:, :2], dtype=tile.i4, group=8),
        "pack": lambda: ops.pack(INDEX),
        "unpack": lambda: ops.unpack(BYTES, tile.i4, 15),
    },
    "convolutions": {
        "conv1d": lambda: ops.conv1d(IMAGE[0], normal(3, 6, 2)),
        "conv2d": lambda: ops.conv2d(IMAGE, normal(4, 4, 3, 3), padding=1),
        "conv3d": lambda: ops.conv3d(VOLUME, normal(3, 2, 2, 2, 2), stride=2),
        "conv_transpose1d": lambda: ops.conv_transpose1d(IMAGE[0], normal(6, 3, 4), stride=2),
        "conv_transpose2d": lambda: ops.conv_transpose2d(IMAGE, normal(4, 3, 3, 3), stride=2, padding=1),
        "conv_transpose3d": lambda: ops.conv_transpose3d(VOLUME, normal(2, 3, 2, 2, 2), stride=2),
    },
    "pooling": {
        "max_pool1d": lambda: ops.max_pool1d(IMAGE[0], 2),
        "max_pool2d": lambda: ops.max_pool2d(IMAGE, 3, 2, 1, return_indices=True),
        "max_pool3d": lambda: ops.max_pool3d(VOLUME, 2),
        "avg_pool1d": lambda: ops.avg_pool1d(IMAGE[0], 2),
        "avg_pool2d": lambda: ops.avg_pool2d(IMAGE, 3, 2, 1, count_include_pad=False),
        "avg_pool3d": lambda: ops.avg_pool3d(VOLUME, 2),
        "lp_pool": lambda: ops.lp_pool(IMAGE, 3, 2),
        "adaptive_avg_pool": lambda: ops.adaptive_avg_pool(IMAGE, (2, 4)),
        "adaptive_max_pool": lambda: ops.adaptive_max_pool(IMAGE, 3),
        "unfold": lambda: ops.unfold(IMAGE, 2),
        "fold": lambda: ops.fold(IMAGE[0], (3, 3), (2, 1)),
    },
    "sampling": {
        "resize": lambda: ops.resize(IMAGE, (9, 4), axes=(2, 3), mode="linear"),
        "interpolate": lambda: ops.interpolate(IMAGE, scale_factor=2, mode="nearest"),
        "grid_sample": lambda: ops.grid_sample(IMAGE, IMAGE[:, :, :, :2]),
        "affine_grid": lambda: ops.affine_grid(normal(2, 2, 3), (2, 1, 4, 5)),
        "pixel_shuffle": lambda: ops.pixel_shuffle(IMAGE, 2),
        "pixel_unshuffle": lambda: ops.pixel_unshuffle(IMAGE, 3),
        "channel_shuffle": lambda: ops.channel_shuffle(IMAGE, 2),
    },
    "normalisation": {
        "softmax": lambda: ops.softmax(X),
        "log_softmax": lambda: ops.log_softmax(X, 0),
        "layer_norm": lambda: ops.layer_norm(X, 8, ROW, ROW),
        "rms_norm": lambda: ops.rms_norm(X, 8, ROW),
        "batch_norm": lambda: ops.batch_norm(X, ROW, ROW * ROW),
        "softmin": lambda: ops.softmin(X),
        "logsumexp": lambda: ops.logsumexp(X, 0),
        "batch_norm_training": lambda: ops.batch_norm_training(X, ROW, ROW * ROW),
        "group_norm": lambda: ops.group_norm(IMAGE, 2),
        "instance_norm": lambda: ops.instance_norm(IMAGE, ROW[:4]),
        "lp_normalize": lambda: ops.lp_normalize(X),
        "local_response_norm": lambda: ops.local_response_norm(IMAGE, 3),
        "mean": lambda: ops.mean(X, 0),
        "var": lambda: ops.var(X, 1),
    },
    "activations": {
        **{name: (lambda name=name: getattr(ops, name)(X)) for name in ACTIVATIONS},
        "prelu": lambda: ops.prelu(IMAGE, ROW[:4]),
        "threshold": lambda: ops.threshold(X, 0.5, 2.0),
        "dropout": lambda: ops.dropout(X),
    },
    "positions": {
        "embedding": lambda: ops.embedding(X.astype("i8"), MATRIX),
        "rotary_embedding": lambda: ops.rotary_embedding(X, X[:, :4], X[:, 4:]),
        "one_hot": lambda: ops.one_hot(INDEX, 8),
        "take": lambda: ops.take(X, INDEX),
        "gather": lambda: ops.gather(X, INDEX, 0),
        "gather_nd": lambda: ops.gather_nd(X, INDEX[:, :2]),
        "index": lambda: ops.index(X, (INDEX, INDEX)),
        "scatter": lambda: ops.scatter(X, INDEX, X, 0, reduce="add"),
        "scatter_nd": lambda: ops.scatter_nd(X, INDEX[:, :2], ROW[:6]),
        "index_put": lambda: ops.index_put(X, (INDEX[0],), 1.0),
    },
    "order": {
        "sort": lambda: ops.sort(X),
        "argsort": lambda: ops.argsort(LONG),
        "top_k": lambda: ops.top_k(X, 3),
        "argmax": lambda: ops.argmax(X, 0, last=True),
        "argmin": lambda: ops.argmin(X),
        "searchsorted": lambda: ops.searchsorted(ROW, X),
        "bucketize": lambda: ops.bucketize(X, ROW),
    },
    "scans": {
        "cumsum": lambda: ops.cumsum(X, exclusive=True),
        "cumprod": lambda: ops.cumprod(X, 0),
        "cummax": lambda: ops.cummax(X),
        "cummin": lambda: ops.cummin(X, reverse=True),
        "logcumsumexp": lambda: ops.logcumsumexp(X),
    },
    "recurrent": {
        "rnn": lambda: ops.rnn(IMAGE[0], normal(3, 6), normal(3, 3)),
        "lstm": lambda: ops.lstm(IMAGE[0], normal(12, 6), normal(12, 3)),
        "gru": lambda: ops.gru(IMAGE[0], normal(9, 6), normal(9, 3)),
    },
    "fourier": {
        "fft": lambda: ops.fft(X, X),
        "rfft": lambda: ops.rfft(LONG),
        "irfft": lambda: ops.irfft(X, X),
    },
    "shapes": {
        "concat": lambda: ops.concat((X, X)),
        "split": lambda: ops.split(X, 2),
        "stack": lambda: ops.stack((X, X), 1),
        "unstack": lambda: ops.unstack(X),
        "pad": lambda: ops.pad(X, 1, mode="reflect"),
        "flip": lambda: ops.flip(X),
        "roll": lambda: ops.roll(X, (1, 2), (0, 1)),
        "repeat": lambda: ops.repeat(X, (2, 3)),
        "repeat_interleave": lambda: ops.repeat_interleave(X, 2),
        "diagonal": lambda: ops.diagonal(X, 1),
        "diag_embed": lambda: ops.diag_embed(X),
        "where": lambda: ops.where(X > 0, X, 0),
        "masked_fill": lambda: ops.masked_fill(X, X > 0, 1),
        "triu": lambda: ops.triu(X),
        "tril": lambda: ops.tril(X, 1),
        "eye": lambda: ops.eye(4),
        "linspace": lambda: ops.linspace(0, 1, 5),
        "transpose": lambda: ops.transpose(X),
        "reshape": lambda: ops.reshape(X, (4, -1)),
    },
    "losses": {
        **{name: (lambda name=name: getattr(ops, name)(X, X)) for name in LOSSES},
        "cross_entropy": lambda: ops.cross_entropy(X, INDEX[:, 0]),
        "nll_loss": lambda: ops.nll_loss(X, INDEX[:, 0], ROW),
    },
}  # fmt: skip


PRODUCTS = ("products", "convolutions", "recurrent", "fourier")
"""They take long to compile for a CPU, which their own tests do."""


def family(name: str) -> Any:
    """All of a family in one graph."""
    return tiledsl.trace(lambda: tuple(formula() for formula in FAMILIES[name].values()))


def test_no_op_is_forgotten() -> None:
    assert sorted(ops.__all__) == sorted(name for rows in FAMILIES.values() for name in rows)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in PRODUCTS else n for n in FAMILIES])
def test_every_op_compiles_for_a_cpu(name: str) -> None:
    tiledsl.fuse(family(name)).build("cpu")()


@pytest.mark.parametrize("name", FAMILIES)
def test_every_op_is_lowered_for_a_gpu(name: str) -> None:
    assert "tile.store" in tiledsl.fuse(family(name)).ir("sm_90")


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_every_op_compiles_for_a_gpu(name: str) -> None:
    assert tiledsl.fuse(family(name)).build("sm_90").kernels


def test_every_op_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "ops.md").read_text()
    listed = [name for row in re.findall(r"^\| [a-z ]+ \| `(.*)` \|$", page, re.MULTILINE) for name in row.split()]
    assert sorted(listed) == sorted(ops.__all__)

"""Ops of the library on a device: called with its arrays, fused with others, against the graph run by NumPy."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tests.support.gpu_code.cuda_arrays import framework
from tests.support.op_checks import F16, normal
from tiledsl import ops, tile


@pytest.fixture
def torch() -> Any:
    """PyTorch, whose arrays these tests use."""
    found = framework("torch")
    if isinstance(found, str):
        pytest.skip(found)
    return importlib.import_module("torch")


def n(*shape: int, seed: int = 0) -> Any:
    return normal(*shape, dtype=F16, seed=seed)


def conv_block(layout: str, **options: Any) -> Callable[..., Any]:
    def formula(x: Any, w: Any, mean: Any, var: Any) -> Any:
        y = ops.conv2d(x, w, layout=layout, **options)
        return ops.relu(ops.batch_norm(y, mean, var * var, eps=0.5, axis=layout.index("C")))

    return formula


CASES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "conv NCHW": (conv_block("NCHW", padding=1), [n(2, 32, 14, 15), n(24, 32, 3, 3), n(24), n(24)]),
    "conv NHWC": (conv_block("NHWC", padding=1), [n(2, 14, 15, 64), n(32, 3, 3, 64), n(32), n(32)]),
    "conv stride": (conv_block("NHWC", padding=1, stride=2), [n(2, 14, 15, 64), n(32, 3, 3, 64), n(32), n(32)]),
    "conv dilation": (conv_block("NHWC", padding=2, dilation=2), [n(1, 9, 20, 40), n(16, 3, 3, 40), n(16), n(16)]),
    "conv 1x1": (conv_block("NHWC"), [n(2, 7, 7, 64), n(96, 1, 1, 64), n(96), n(96)]),
    "conv groups": (conv_block("NCHW", padding=1, groups=4), [n(2, 32, 9, 9), n(32, 8, 3, 3), n(32), n(32)]),
    "max_pool2d": (lambda x: ops.max_pool2d(x, 3, 2, 1), [n(2, 16, 15, 14)]),
    "avg_pool2d": (lambda x: ops.avg_pool2d(x, 3, 2, 1, count_include_pad=False), [n(2, 16, 15, 14)]),
    "layer_norm": (lambda x, w, b: ops.layer_norm(x, 1000, w, b), [n(33, 1000), n(1000), n(1000)]),
    "log_softmax": (ops.log_softmax, [n(33, 5000)]),
    "swiglu": (lambda x, g, u: ops.swiglu(ops.linear(x, u), ops.linear(x, g)), [n(65, 128), n(96, 128), n(96, 128)]),
    "rotary": (ops.rotary_embedding, [n(2, 4, 33, 64), n(33, 32), n(33, 32)]),
    "attention": (
        lambda q, k, v: ops.attention(q, k, v, causal=True),
        [n(2, 8, 200, 64), n(2, 2, 200, 64), n(2, 2, 200, 64)],
    ),
    "window": (lambda q, k, v: ops.attention(q, k, v, causal=True, window=50), [n(1, 4, 300, 64)] * 3),
    "cumsum": (ops.cumsum, [n(20, 300)]),
    "sort of warps": (lambda x: ops.sort(x, 1)[0], [n(20, 300)]),
    "sort of blocks": (lambda x: ops.argsort(x, 1, descending=True), [n(5, 4000)]),
    "sort of parts": (lambda x: ops.sort(x.to(tile.f32), 1)[0], [n(3, 9001)]),
    "dropout": (lambda x: ops.dropout(x, 0.3, seed=5), [n(20, 300)]),
    "conv3d": (lambda x, w: ops.conv3d(x, w, padding=1), [n(1, 16, 5, 9, 8), n(24, 16, 3, 3, 3)]),
    "conv_transpose2d": (
        lambda x, w, b: ops.conv_transpose2d(x, w, b, 2, 1, 1),
        [n(2, 24, 9, 8), n(24, 16, 3, 3), n(16)],
    ),
    "adaptive_avg_pool": (lambda x: ops.adaptive_avg_pool(x, (3, 5)), [n(2, 16, 15, 14)]),
    "pad and roll": (lambda x: ops.roll(ops.pad(x, ((2, 3), (1, 4)), mode="reflect"), (3, -7), (0, 1)), [n(33, 70)]),
    "group_norm": (lambda x, w, b: ops.group_norm(x, 4, w, b), [n(3, 32, 9, 10), n(32), n(32)]),
    "bicubic": (lambda x: ops.interpolate(x, (21, 9), mode="bicubic"), [n(2, 8, 15, 14)]),
    "antialias": (lambda x: ops.interpolate(x, (3, 2), mode="bilinear", antialias=True), [n(2, 8, 60, 44)]),
    "grid_sample": (lambda x, g: ops.grid_sample(x, g, padding_mode="reflection"), [n(2, 8, 15, 14), n(2, 9, 7, 2)]),
    "lstm": (lambda x, w, r: ops.lstm(x, w, r)[0], [n(6, 8, 32), n(256, 32) / 8, n(256, 64) / 8]),
    "gru": (lambda x, w, r: ops.gru(x, w, r)[0], [n(6, 8, 32), n(192, 32) / 8, n(192, 64) / 8]),
    "rfft": (lambda x: ops.rfft(x)[1], [n(33, 320) / 8]),
    "fold": (lambda x: ops.fold(ops.unfold(x, 3, padding=1), (9, 8), 3, padding=1), [n(2, 4, 9, 8)]),
    "logcumsumexp": (ops.logcumsumexp, [n(20, 300)]),
    "inverse functions": (lambda x: tile.atan(x) + tile.asinh(x) + tile.erfc(x), [n(20, 300)]),
    "gamma functions": (lambda x: tile.lgamma(abs(x) + 0.5) + tile.digamma(abs(x) + 0.5), [n(20, 300)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_fused_on_the_device(torch: Any, name: str) -> None:
    formula, arrays = CASES[name]
    graph = tiledsl.trace(formula, *arrays)
    expected = graph(*arrays)
    actual = tiledsl.fuse(graph).build()(*(torch.from_numpy(a).cuda() for a in arrays))
    assert_close(actual.cpu().numpy(), expected, terms=16)


def test_orders_and_places_on_the_device(torch: Any) -> None:
    def formula(x: Any, y: Any, index: Any) -> Any:
        return (
            *ops.sort(x, 1), *ops.sort(x[:, :50], 0, descending=True), *ops.cummax(x, 1),
            *ops.max_pool2d(y, 3, 2, 1, return_indices=True), ops.gather(x, index, 0),
            ops.scatter(x, index, x, 0, reduce="add"), ops.scatter(x, index, x, 0), ops.searchsorted(x[0] * 0, x),
        )  # fmt: skip

    arrays = [np.round(2 * n(7, 300)), n(2, 8, 15, 14), np.random.default_rng(0).integers(0, 7, (7, 300))]
    graph = tiledsl.trace(formula, *arrays)
    for actual, expected in zip(
        tiledsl.fuse(graph).build()(*(torch.from_numpy(a).cuda() for a in arrays)), graph(*arrays)
    ):
        assert np.array_equal(actual.cpu().numpy(), expected)


def test_top_k_and_cross_entropy_on_the_device(torch: Any) -> None:
    x, target = n(50, 1000), np.arange(50) * 7
    values, indices = ops.top_k(torch.from_numpy(x).cuda(), 9)
    wanted = np.argsort(-x.astype(np.float32), axis=1, kind="stable")[:, :9]
    assert np.array_equal(indices.cpu().numpy(), wanted)
    assert np.array_equal(values.cpu().numpy(), np.take_along_axis(x, wanted, 1))
    loss = ops.cross_entropy(torch.from_numpy(x).cuda(), torch.from_numpy(target).cuda())
    assert_close(loss.cpu().numpy(), ops.cross_entropy(x, target), terms=4)

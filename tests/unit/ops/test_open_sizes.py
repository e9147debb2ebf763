"""Ops of tensors whose sizes are names: what they mean is what they mean for the numbers."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportCallIssue=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.op_checks import Array
from tests.support.op_checks import normal as f
from tiledsl import ops, tile


def i(below: int, *shape: int) -> Array:
    """Integers from 0 on."""
    return np.random.default_rng((below, *shape)).integers(0, below, shape)


Shapes = list[tuple[Any, ...]]
CASES: dict[str, tuple[Callable[..., Any], Shapes, list[Array]]] = {
    "conv_transpose": (
        lambda x, w: ops.conv_transpose2d(x, w, stride=2, padding=1),
        [("N", 3, "H", 5), (3, 2, 3, 3)], [f(2, 3, 4, 5), f(3, 2, 3, 3)],
    ),
    "conv3d": (
        lambda x, w: ops.conv3d(x, w, padding=1),
        [("N", 2, "D", "H", "W"), (3, 2, 2, 2, 2)], [f(1, 2, 3, 4, 5), f(3, 2, 2, 2, 2)],
    ),
    "maxpool idx": (lambda x: ops.max_pool2d(x, 3, 2, 1, return_indices=True), [("N", 3, "H", "W")], [f(2, 3, 6, 7)]),
    "avgpool ceil": (
        lambda x: ops.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        [("N", 3, "H", "W")], [f(2, 3, 6, 7)],
    ),
    "pad reflect": (lambda x: ops.pad(x, ((0, 0), (1, 2)), mode="reflect"), [("N", "M")], [f(3, 5)]),
    "roll": (lambda x: ops.roll(x, 3, 1), [("N", "M")], [f(3, 5)]),
    "flip": (lambda x: ops.flip(x), [("N", "M")], [f(3, 5)]),
    "gather": (lambda x, j: ops.gather(x, j, 1), [("N", "M"), ("N", "K")], [f(3, 5), i(5, 3, 4)]),
    "scatter": (
        lambda x, j, u: ops.scatter(x, j, u, 1, reduce="add"),
        [("N", "M"), ("N", "K"), ("N", "K")], [f(3, 5), i(5, 3, 4), f(3, 4)],
    ),
    "index": (lambda x, j: ops.index(x, (None, j)), [("N", "M"), ("K", )], [f(3, 5), i(5, 4)]),
    "index_put": (
        lambda x, j, v: ops.index_put(x, (j, ), v, True),
        [("N", 4), ("K", ), ("K", 4)], [f(5, 4), i(5, 3), f(3, 4)],
    ),
    "gather_nd": (lambda x, j: ops.gather_nd(x, j), [("N", "M", 4), ("K", 2)], [f(3, 5, 4), i(3, 6, 2)]),
    "sort": (lambda x: ops.sort(x), [("N", 9)], [f(3, 9)]),
    "sort long": (lambda x: ops.sort(x)[1], [("N", 130)], [f(3, 130)]),
    "cumsum": (lambda x: ops.cumsum(x, exclusive=True), [("N", "M")], [f(3, 5)]),
    "cummax": (lambda x: ops.cummax(x, 0), [("N", "M")], [f(3, 5)]),
    "group_norm": (lambda x: ops.group_norm(x, 2), [("N", 4, "H", "W")], [f(2, 4, 3, 5)]),
    "bn train": (
        lambda x, m, v: ops.batch_norm_training(x, m, v),
        [("N", 4, "H", "W"), (4, ), (4, )], [f(2, 4, 3, 5), f(4), f(4)**2],
    ),
    "lstm": (lambda x, w, r: ops.lstm(x, w, r), [(3, "N", 4), (8, 4), (8, 2)], [f(3, 5, 4), f(8, 4), f(8, 2)]),
    "one_hot": (lambda j: ops.one_hot(j, 5), [("K", )], [i(5, 7)]),
    "triu": (lambda x: ops.triu(x), [("N", "M")], [f(3, 5)]),
    "repeat": (lambda x: ops.repeat(x, (2, 3)), [("N", "M")], [f(3, 5)]),
    "repeat_interleave": (lambda x: ops.repeat_interleave(x, 3, 0), [("N", "M")], [f(3, 5)]),
    "interpolate": (lambda x: ops.interpolate(x, (5, 7), mode="bilinear"), [("N", "C", 4, 4)], [f(2, 3, 4, 4)]),
    "resize": (lambda x: ops.resize(x, scales=(1, 1.0, 2, 0.5), mode="linear"), [("N", "C", 4, 4)], [f(2, 3, 4, 4)]),
    "grid_sample": (
        lambda x, g: ops.grid_sample(x, g, padding_mode="border"),
        [("N", "C", "H", "W"), ("N", "P", "Q", 2)], [f(2, 3, 4, 4), f(2, 5, 6, 2)],
    ),
    "unfold": (lambda x: ops.unfold(x, 3, padding=1), [("N", 3, "H", "W")], [f(2, 3, 4, 5)]),
    "nll": (lambda x, t: ops.nll_loss(x, t), [("N", 5), ("N", )], [f(4, 5), i(5, 4)]),
    "cross": (lambda x, t: ops.cross_entropy(x, t, label_smoothing=.1), [("N", 5), ("N", )], [f(4, 5), i(5, 4)]),
    "searchsorted": (lambda e, x: ops.searchsorted(e, x), [("E", ), ("N", )], [np.sort(f(5)), f(7)]),
    "pixel_shuffle": (lambda x: ops.pixel_shuffle(x, 2), [("N", 8, "H", "W")], [f(2, 8, 3, 4)]),
    "rfft": (lambda x: ops.rfft(x), [("N", 16)], [f(3, 16)]),
    "lrn": (lambda x: ops.local_response_norm(x, 3), [("N", "C", "H")], [f(3, 4, 5)]),
    "lp_pool": (lambda x: ops.lp_pool(x, 2, 2), [("N", 3, "H", "W")], [f(2, 3, 6, 7)]),
    "adaptive": (lambda x: ops.adaptive_avg_pool(x, (2, 3)), [("N", "C", 5, 7)], [f(2, 3, 5, 7)]),
    "top_k100": (lambda x: ops.top_k(x, 100), [("N", 130)], [f(3, 130)]),
    "linspace": (lambda x: ops.linspace(0, 1, x.shape[0])+x, [("N", )], [f(6)]),
    "logsumexp": (lambda x: ops.logsumexp(x, None), [("N", "M")], [f(3, 5)]),
    "logcumsumexp": (lambda x: ops.logcumsumexp(x, 0), [("N", "M")], [f(3, 5)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_named_sizes(name: str) -> None:
    formula, shapes, arrays = CASES[name]
    specs = [tile.spec(shape, tile.i64 if a.dtype.kind == "i" else tile.f32) for shape, a in zip(shapes, arrays)]
    results, expected = tiledsl.trace(formula, *specs)(*arrays), tiledsl.trace(formula, *arrays)(*arrays)
    several = isinstance(results, tuple)
    for result, wanted in zip(results if several else (results,), expected if several else (expected,)):
        assert np.allclose(result, wanted, atol=1e-6)

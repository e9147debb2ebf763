"""Mixtures of experts: products of rows that are sorted by expert, and all of a layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.zoo import numpy_functions as plain
from benchmarks.zoo.case import Family
from tiledsl import ops, tile

row = Family("experts")
ROWS = "bf16[t,k], bf16[e,k,n]*0.05, i32[e]<c"
"""The last: how many rows each expert has."""


def _grouped(x: Any, w: Any, counts: Any) -> Any:
    ends = tile.minimum(tile.cumsum(counts, axis=0), x.shape[0]).to(tile.i32)
    return ops.grouped_linear(x, w, tile.concat((tile.zeros((1,), tile.i32), ends)))


def _plain_grouped(x: Any, w: Any, counts: Any) -> Any:
    y, first = np.zeros((len(x), w.shape[2])), 0
    for e, count in enumerate(counts):
        last = min(first + int(count), len(x))
        y[first:last] = x[first:last] @ w[e]
        first = last
    return y


def _torch_grouped(t: Any, x: Any, w: Any, counts: Any) -> Any:
    y, first = t.zeros(len(x), w.shape[2], dtype=x.dtype, device=x.device), 0
    for e, count in enumerate(counts.tolist()):
        last = min(first + count, len(x))
        y[first:last] = x[first:last] @ w[e]
        first = last
    return y


def _layer(x: Any, router: Any, up: Any, down: Any) -> Any:
    routing = ops.route(tile.dot(x, router), 2)
    h = ops.silu(ops.grouped_linear(ops.dispatch(x, routing), up, routing.offsets))
    return ops.combine(ops.grouped_linear(h, down, routing.offsets), routing)


def _plain_layer(x: Any, router: Any, up: Any, down: Any) -> Any:
    logits = x @ router
    chosen = np.argsort(-logits, axis=1, kind="stable")[:, :2]
    shares = plain.softmax(np.take_along_axis(logits, chosen, axis=1))
    y = np.zeros_like(x)
    for e in range(len(up)):
        for j in range(2):
            mine = chosen[:, j] == e
            h = x[mine] @ up[e]
            y[mine] += shares[mine, j, None] * (h * plain.sigmoid(h) @ down[e])
    return y


def _torch_layer(t: Any, x: Any, router: Any, up: Any, down: Any) -> Any:
    values, chosen = (x.float() @ router.float()).topk(2, dim=1)
    shares = values.softmax(1).to(x.dtype)
    y = t.zeros_like(x)
    for e in range(len(up)):
        for j in range(2):
            mine = chosen[:, j] == e
            y[mine] += shares[mine, j, None] * (t.nn.functional.silu(x[mine] @ up[e]) @ down[e])
    return y


EXPERTS = (
    row("rows of 8 experts", ROWS, "t=16384 k=4096 n=14336 e=8 c=4096", _grouped, _plain_grouped, _torch_grouped,
        small="t=40 k=16 n=24 e=5 c=16"),
    row("rows of 64 experts", ROWS, "t=16384 k=4096 n=2048 e=64 c=512", _grouped, _plain_grouped, _torch_grouped,
        small="t=40 k=16 n=24 e=5 c=16"),
    row("few rows of 256 experts", ROWS, "t=4096 k=7168 n=2048 e=256 c=32", _grouped, _plain_grouped, _torch_grouped,
        small="t=40 k=16 n=24 e=5 c=16"),
    row("two of 64 experts, a layer", "bf16[t,k], bf16[k,e], bf16[e,k,n]*0.05, bf16[e,n,k]*0.05",
        "t=4096 k=2048 n=1024 e=64", _layer, _plain_layer, _torch_layer, small="t=24 k=16 n=20 e=5"),
)  # fmt: skip

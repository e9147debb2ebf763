"""Slices, joins, turns, pads and gathers of values."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.zoo import formulas
from benchmarks.zoo import numpy_functions as plain
from benchmarks.zoo.case import Family
from tiledsl import ops, tile

row = Family("movement")
SQUARE, HEADS = "m=8192 n=8192", "b=8 h=32 s=4096 d=128"
IMAGES = "n=64 c=256 h=56 w=56"


def _turned(x: Any, *axes: int) -> Any:
    return x.transpose(*axes) + 0


def _plain_interleaved(x: Any, c: Any, s: Any) -> Any:
    even, odd = x[..., 0::2], x[..., 1::2]
    turned: Any = np.stack([even * c - odd * s, odd * c + even * s], axis=-1)
    return turned.reshape(x.shape)


def _torch_interleaved(t: Any, x: Any, c: Any, s: Any) -> Any:
    even, odd = x[..., 0::2], x[..., 1::2]
    return t.stack([even * c - odd * s, odd * c + even * s], -1).flatten(-2)


def _torch_rotated(t: Any, x: Any, c: Any, s: Any) -> Any:
    left, right = x.chunk(2, -1)
    return t.cat([left * c - right * s, right * c + left * s], -1)


MOVEMENT = (
    row("transpose", "f16[m,n]", SQUARE, lambda x: x.T + 0, lambda x: x.T, lambda t, x: (x.T + 0).contiguous()),
    row("heads to the front", "f16[b,s,h,d]", HEADS, lambda x: _turned(x, 0, 2, 1, 3),
        lambda x: x.transpose(0, 2, 1, 3),
        lambda t, x: x.transpose(1, 2).contiguous()),
    row("axes reversed", "f16[a,b,c]", "a=256 b=512 c=256", lambda x: _turned(x, 2, 1, 0),
        lambda x: x.transpose(2, 1, 0),
        lambda t, x: x.permute(2, 1, 0).contiguous()),
    row("channels to the back", "f16[n,c,h,w]", IMAGES, lambda x: _turned(x, 0, 2, 3, 1),
        lambda x: x.transpose(0, 2, 3, 1), lambda t, x: x.permute(0, 2, 3, 1).contiguous()),
    row("rotary embedding", "f16[b,h,s,d], f16[s,e], f16[s,e]", f"{HEADS} e=64", formulas.rotated, plain.rotated,
        _torch_rotated, small="d=24 e=12"),
    row("rotary embedding, ops", "f16[b,h,s,d], f16[s,e], f16[s,e]", f"{HEADS} e=64", ops.rotary_embedding,
        plain.rotated, _torch_rotated, small="d=24 e=12"),
    row("rotary embedding, interleaved", "f16[b,h,s,d], f16[s,e], f16[s,e]", f"{HEADS} e=64",
        lambda x, c, s: ops.rotary_embedding(x, c, s, interleaved=True), _plain_interleaved, _torch_interleaved,
        small="d=24 e=12"),
    row("join of two", "f16[m,n], f16[m,n]", "m=8192 n=4096", lambda x, y: tile.concat([x * 2, y + 1], axis=-1),
        lambda x, y: np.concatenate([x * 2, y + 1], axis=-1), lambda t, x, y: t.cat([x * 2, y + 1], -1)),
    row("join of three rows", "f16[a,n], f16[b,n], f16[c,n]", "a=4096 b=1024 c=2048 n=8192",
        lambda x, y, z: tile.concat([tile.relu(x), y, z * 2]),
        lambda x, y, z: np.concatenate([np.maximum(x, 0), y, z * 2]), lambda t, x, y, z: t.cat([t.relu(x), y, z * 2])),
    row("stack of two", "f16[m,n], f16[m,n]", "m=8192 n=4096", lambda x, y: tile.stack([x + y, x - y], axis=0),
        lambda x, y: np.stack([x + y, x - y]), lambda t, x, y: t.stack([x + y, x - y])),
    row("halves", "f16[m,n]", SQUARE,
        lambda x: tile.silu(x[:, : x.shape[1] // 2]) * x[:, x.shape[1] // 2 :],
        lambda x: plain.silu(x[:, : x.shape[1] // 2]) * x[:, x.shape[1] // 2 :],
        lambda t, x: t.nn.functional.silu(x[:, : x.shape[1] // 2]) * x[:, x.shape[1] // 2 :]),
    row("every other column", "f16[m,n]", SQUARE, lambda x: x[:, ::2] * x[:, 1::2]),
    row("backwards", "f16[m,n]", SQUARE, lambda x: x[:, ::-1] * 2, None, lambda t, x: x.flip(1) * 2),
    row("pad", "f16[m,n]", SQUARE, lambda x: tile.pad(x, ((1, 2), (3, 5))) * 2,
        lambda x: np.pad(x, ((1, 2), (3, 5))) * 2,
        lambda t, x: t.nn.functional.pad(x, (3, 5, 1, 2)) * 2),
    row("shift of a row", "f16[m,n]", SQUARE, lambda x: tile.concat([x[1:] - x[:-1], x[:1]]),
        lambda x: np.concatenate([x[1:] - x[:-1], x[:1]]), lambda t, x: t.cat([x[1:] - x[:-1], x[:1]])),
    row("each head four times", "f16[h,s,d]", "h=64 s=4096 d=128",
        lambda x: tile.broadcast_to(x[:, None], (x.shape[0], 4, *x.shape[1:])) * 2,
        lambda x: np.repeat(x[:, None], 4, axis=1) * 2, lambda t, x: x[:, None].expand(-1, 4, -1, -1) * 2),
    row("space to depth", "f16[n,c,h,w]", IMAGES, lambda x: _blocks(x) * 2),
    row("upper triangle", "f16[m,m]", "m=8192",
        lambda x: tile.where(tile.arange(x.shape[0])[:, None] <= tile.arange(x.shape[1]), x, 0), np.triu,
        lambda t, x: t.triu(x)),
    row("embedding", "i32[t]<v, f16[v,d]", "t=16384 v=128256 d=4096", ops.embedding, lambda i, w: w[i],
        lambda t, i, w: w[i]),
    row("embedding and positions", "i32[b,s]<v, f16[v,d], f16[s,d]", "b=32 s=512 v=30522 d=768",
        lambda i, w, p: ops.embedding(i, w) + p, lambda i, w, p: w[i] + p, lambda t, i, w, p: w[i] + p),
    row("gather of columns", "f16[m,n], i32[k]<n", "m=8192 n=8192 k=2048", lambda x, i: tile.take(x, i, axis=1) * 2,
        lambda x, i: x[:, i] * 2, lambda t, x, i: x[:, i] * 2),
    row("one of many", "i32[m]<n, f16[m,1]", "m=16384 n=4096",
        lambda i, x: tile.where(i[:, None] == tile.arange(4096), x, 0),
        lambda i, x: np.where(i[:, None] == np.arange(4096), x, 0),
        lambda t, i, x: t.where(i[:, None] == t.arange(4096, device=i.device), x, 0), small="n=50"),
)  # fmt: skip


def _blocks(x: Any) -> Any:
    """Squares of 2 by 2 become channels."""
    n, c, h, w = x.shape
    axes = (0, 1, 3, 5, 2, 4)
    y = x.reshape((n, c, h // 2, 2, w // 2, 2))
    y = y.permute(axes) if hasattr(y, "permute") else y.transpose(axes)
    return y.reshape((n, c * 4, h // 2, w // 2))

"""Attention of one query to a long row of keys, which some programs share: each has a softmax of its own part.

For the keys j of part p, with s[j] = q . k[j] / sqrt(D):
top[p] = max s[j], total[p] = sum of e^(s[j] - top[p]), acc[p] = sum of e^(s[j] - top[p]) v[j]
y = sum over p of share[p] acc[p] / sum over p of share[p] total[p], where share[p] = e^(top[p] - max top)
"""

import math
from functools import partial
from typing import Any

import numpy as np

from entry import Array, Entry, least_times, normal
from tiledsl import tile


@tile.kernel
def split_decode(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor, parts: tile.constexpr = 64) -> tile.Tensor:
    H, D = q.shape
    H, T, D = k.shape
    H, T, D = v.shape
    tops, totals = tile.empty((H, parts), tile.f32), tile.empty((H, parts), tile.f32)
    accs, y = tile.empty((H, parts, D), tile.f32), tile.empty((H, D), q.dtype)
    length = (T + parts - 1) // parts
    for h, p in tile.grid(H, parts, block=(1, 1)):
        query = q[h, :].to(tile.f32) * D**-0.5
        top, total, acc = -math.inf, 0.0, tile.zeros(D)
        for j in tile.range(p * length, min((p + 1) * length, T)):
            s = tile.sum(k[h, j, :] * query, axis=1)
            higher = tile.maximum(top, tile.max(s))
            e, rescale = tile.exp(s - higher), tile.exp(top - higher)
            total = total * rescale + tile.sum(e)
            acc = acc * rescale + tile.sum(e[:, None] * v[h, j, :], axis=0)
            top = higher
        tops[h, p], totals[h, p], accs[h, p, :] = top, total, acc
    for h in tile.grid(H, block=1):  # begins when the first grid has ended
        share = tile.exp(tops[h, :] - tile.max(tops[h, :]))
        y[h, :] = tile.sum(share[:, None] * accs[h, :, :], axis=0) / tile.sum(share * totals[h, :])
    return y


def numpy_split_decode(q: Array, k: Array, v: Array) -> Array:
    scores = (k @ q[:, :, None])[:, :, 0] * np.float32(q.shape[1] ** -0.5)
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return ((e / e.sum(axis=1, keepdims=True))[:, None, :] @ v)[:, 0]


def torch_split_decode(torch: Any, q: Any, k: Any, v: Any) -> Any:
    return torch.nn.functional.scaled_dot_product_attention(q[:, None], k, v)[:, 0]


def arguments(size: int) -> list[Array]:
    return [normal(1, 128), normal(1, size, 128, seed=1), normal(1, size, 128, seed=2)]


def table(_: Array, q: Array, k: Array, v: Array) -> str:
    counts = (1, 4, 16, 64)
    times = least_times(*(partial(split_decode, q, k, v, parts=parts) for parts in counts), rounds=1)
    return "\n".join(["parts      ms", *(f"{parts:5} {1e3 * ms:7.3f}" for parts, ms in zip(counts, times))])


ENTRY = Entry(
    split_decode, numpy_split_decode, arguments, size=32768, small=100, torchs=torch_split_decode, picture=table
)

if __name__ == "__main__":
    ENTRY.show(__doc__)

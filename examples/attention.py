"""Attention that never stores the matrix of scores: softmax(Q K^T / sqrt(D)) V, one block of keys at a time."""

import math
from functools import partial
from typing import Any

import numpy as np

from beside_numpy import Array, command_line, compare, normal
from tiledsl import tile

LOWEST = -1e30  # below every score, but finite: a difference of two of it is 0, of two infinities NaN
LOG2_E = 1 / math.log(2)  # exp(x) = exp2(x * LOG2_E)


@tile.kernel
def attention(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor, causal: tile.constexpr = False) -> tile.Tensor:
    """out[H, Q, D] for q[H, Q, D] and k, v[H, K, D]; H counts the heads of all batches.

    Causal: a query sees the keys up to its own position; the last query is at the last key. Zeros where it sees none.
    """
    H, Q, D = q.shape
    H, K, D = k.shape
    H, K, D = v.shape
    out = tile.empty((H, Q, D), q.dtype)
    scale = D**-0.5 * LOG2_E
    for h, i in tile.grid(H, Q, block=(1, tile.auto)):
        top = tile.full(i, LOWEST)  # the largest score so far, of each query
        total = tile.zeros(i)  # the sum of exp2((score - top) * scale)
        acc = tile.zeros((i, D))  # the sum of exp2((score - top) * scale) * v
        end = min(i.start + i.size + K - Q, K) if causal else K  # later keys are hidden from all of the block
        for j in tile.range(0, end):
            scores = tile.dot(q[h, i, :], k[h, j, :].mT)
            if causal:
                scores = tile.where(j.index[None, :] <= i.index[:, None] + (K - Q), scores, -math.inf)
            higher = tile.maximum(top, tile.max(scores, axis=1))
            p = tile.exp2(scores * scale - (higher * scale)[:, None])  # one multiply-add and one exponential each
            rescale = tile.exp2((top - higher) * scale)  # what was summed so far, in terms of the new top
            total = total * rescale + tile.sum(p, axis=1)
            acc = tile.dot(p.to(v.dtype), v[h, j, :], acc * rescale[:, None])
            top = higher
        share = 1 / tile.maximum(total, 1.0)  # the total is at least exp2(0), or nothing was seen
        out[h, i, :] = acc * share[:, None]
    return out


def numpy_attention(q: Array, k: Array, v: Array, causal: bool = False) -> Array:
    """The same over whole arrays."""
    queries, keys = q.shape[1], k.shape[1]
    scores: Array = q @ np.transpose(k, (0, 2, 1)) * q.shape[2] ** -0.5
    if causal:
        scores[:, np.arange(keys) > np.arange(queries)[:, None] + (keys - queries)] = -np.inf
    p: Array = np.exp(scores - scores.max(axis=2, keepdims=True))
    return p / p.sum(axis=2, keepdims=True) @ v


def torch_attention(torch: Any, q: Any, k: Any, v: Any, causal: bool) -> Any:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def main() -> None:
    size, device = command_line(__doc__, default=1024)
    qkv = [normal(8, size, 64, seed=seed) for seed in range(3)]
    for causal in (False, True):
        compare(
            f"{'causal ' if causal else ''}attention of 8x{size}x64",
            partial(attention, causal=causal),
            partial(numpy_attention, causal=causal),
            partial(torch_attention, causal=causal),
            qkv,
            tolerance=1e-5,
            device=device,
        )


if __name__ == "__main__":
    main()

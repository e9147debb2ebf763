"""Attention in which a query sees the last `window` keys up to its own position.

y[i] = sum over j of softmax(q[i] . k[j] / sqrt(D)) * v[j], for i - window < j <= i
A formula: it becomes one kernel whose loop over keys begins and ends where the mask says so, as its time shows.
"""

import math
from functools import partial
from typing import Any

import numpy as np

from entry import Array, Entry, least_times, normal
from tiledsl import tile


@tile.kernel
def sliding_window(q: Any, k: Any, v: Any, window: int) -> Any:
    scores = (q @ k.mT) * q.shape[-1] ** -0.5
    i, j = tile.arange(q.shape[1])[:, None], tile.arange(k.shape[1])
    seen = (j <= i) & (j > i - window)
    return tile.softmax(tile.where(seen, scores, -math.inf)) @ v


def numpy_sliding_window(q: Array, k: Array, v: Array, window: int) -> Array:
    """Block by block too: over all pairs it would take many times as long."""
    y = np.empty_like(q)
    for start in range(0, q.shape[1], window):
        end, first = min(start + window, q.shape[1]), max(0, start - window)
        i, j = np.arange(start, end)[:, None], np.arange(first, end)
        scores = q[:, start:end] @ k[:, first:end].swapaxes(1, 2) * np.float32(q.shape[-1] ** -0.5)
        scores[:, (j > i) | (j <= i - window)] = -np.inf
        e = np.exp(scores - scores.max(axis=2, keepdims=True))
        y[:, start:end] = e / e.sum(axis=2, keepdims=True) @ v[:, first:end]
    return y


def torch_sliding_window(torch: Any, q: Any, k: Any, v: Any, window: int) -> Any:
    i, j = torch.arange(q.shape[1], device=q.device)[:, None], torch.arange(k.shape[1], device=q.device)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=(j <= i) & (j > i - window))


def arguments(size: int) -> list[Array]:
    return [*(normal(4, size, 64, seed=seed) for seed in range(3)), min(64, size // 4 + 1)]


def table(_: Array, q: Array, k: Array, v: Array, window: int) -> str:
    lines = ["window        ms  NumPy ms"]
    for w in (window // 4 + 1, window, 4 * window):
        ours, numpys = least_times(*(partial(f, q, k, v, w) for f in (sliding_window, numpy_sliding_window)), rounds=1)
        lines.append(f"{w:6} {1e3 * ours:9.3f} {1e3 * numpys:9.3f}")
    return "\n".join(lines)


ENTRY = Entry(
    sliding_window, numpy_sliding_window, arguments, size=2048, small=70, torchs=torch_sliding_window, picture=table
)

if __name__ == "__main__":
    ENTRY.show(__doc__)

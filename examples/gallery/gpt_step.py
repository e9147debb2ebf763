"""A step of a small GPT: tokens to scores of the token that follows, by LAYERS layers of attention and a silu network.

x = words[tokens] + places; in each layer x += attention(norm(x)), x += silu(norm(x) up) down; scores = norm(x) words^T
A formula: it becomes a few kernels, and what lies between them is planned into one piece of memory.
"""

import math
from typing import Any

import numpy as np

from entry import Array, Entry, normal
from tiledsl import tile

LAYERS, HEADS, WIDTH, WORDS = 2, 4, 128, 512


def norm(x: Any) -> Any:
    return x * tile.rsqrt(tile.mean(x * x, axis=-1, keepdims=True) + 1e-5)


@tile.kernel
def gpt_step(tokens: Any, words: Any, places: Any, qkv: Any, out: Any, up: Any, down: Any) -> Any:
    T, W = tokens.shape[0], words.shape[1]
    x = words[tokens] + places[:T]
    seen = tile.arange(T)[:, None] >= tile.arange(T)
    for i in range(LAYERS):  # Python's loop: it runs while the formula is written down
        q, k, v = tile.split((norm(x) @ qkv[i]).reshape((T, 3 * HEADS, W // HEADS)).transpose((1, 0, 2)), 3)
        scores = tile.where(seen, (q @ k.mT) * (W // HEADS) ** -0.5, -math.inf)
        x = x + (tile.softmax(scores) @ v).transpose((1, 0, 2)).reshape((T, W)) @ out[i]
        x = x + tile.silu(norm(x) @ up[i]) @ down[i]
    return norm(x)[-1] @ words.T


def numpy_norm(x: Array) -> Array:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(1e-5))


def numpy_silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def numpy_gpt_step(tokens: Array, words: Array, places: Array, qkv: Array, out: Array, up: Array, down: Array) -> Array:
    T = len(tokens)
    x = words[tokens] + places[:T]
    seen = np.tri(T, dtype=bool)
    for i in range(LAYERS):
        q, k, v = np.split((numpy_norm(x) @ qkv[i]).reshape(T, 3 * HEADS, -1).transpose(1, 0, 2), 3)
        scores = np.where(seen, q @ np.transpose(k, (0, 2, 1)) * np.float32(q.shape[2] ** -0.5), -np.inf)
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        x = x + (e / e.sum(axis=-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(x.shape) @ out[i]
        x = x + numpy_silu(numpy_norm(x) @ up[i]) @ down[i]
    return numpy_norm(x)[-1] @ words.T


def arguments(size: int) -> list[Array]:
    layers = [(LAYERS, WIDTH * a, WIDTH * b) for a, b in ((1, 3), (1, 1), (1, 4), (4, 1))]
    shapes = [(WORDS, WIDTH), (size, WIDTH), *layers]
    weights = [normal(*shape, seed=seed) / np.float32(shape[-2] ** 0.5) for seed, shape in enumerate(shapes)]
    return [np.random.default_rng(0).integers(0, WORDS, size, np.int32), *weights]


ENTRY = Entry(gpt_step, numpy_gpt_step, arguments, size=256, small=16, tolerance=1e-4)

if __name__ == "__main__":
    ENTRY.show(__doc__)

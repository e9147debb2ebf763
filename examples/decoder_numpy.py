"""A small decoder of Llama's shape: its sizes, random weights, and what it computes, in NumPy without a cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
EPS = 1e-5
BASE = 10000.0
"""Of the angles by which positions turn queries and keys."""


@dataclass(frozen=True)
class Sizes:
    """`heads` of the queries, `kv_heads` of keys and values, which divide them; each is `width / heads` wide."""

    layers: int = 2
    width: int = 128
    heads: int = 4
    kv_heads: int = 2
    hidden: int = 256
    vocabulary: int = 512

    @property
    def head(self) -> int:
        return self.width // self.heads


@dataclass(frozen=True)
class Layer:
    """Products are x @ w: qkv [width, (heads + 2 * kv_heads) * head], out [width, width], gate_up [width, 2 * hidden],
    down [hidden, width]; the scales of two norms."""

    first: Any
    qkv: Any
    out: Any
    second: Any
    gate_up: Any
    down: Any


@dataclass(frozen=True)
class Weights:
    """words [vocabulary, width], the layers, the scale of the last norm, and logits = x @ head."""

    sizes: Sizes
    words: Any
    layers: tuple[Layer, ...]
    last: Any
    head: Any


def random_weights(sizes: Sizes, seed: int = 0, dtype: Any = np.float32) -> Weights:
    """The same numbers for the same seed, such that what goes through the layers keeps its size."""
    random = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> Array:
        return (random.standard_normal((rows, columns), np.float32) * rows**-0.5).astype(dtype)

    def scale() -> Array:
        return (1 + 0.1 * random.standard_normal(sizes.width, np.float32)).astype(dtype)

    n, heads = sizes.width, (sizes.heads + 2 * sizes.kv_heads) * sizes.head
    words = random.standard_normal((sizes.vocabulary, n), np.float32).astype(dtype)
    layers = tuple(
        Layer(
            scale(), matrix(n, heads), matrix(n, n), scale(), matrix(n, 2 * sizes.hidden), matrix(sizes.hidden, n)
        )
        for _ in range(sizes.layers)
    )  # fmt: skip
    return Weights(sizes, words, layers, scale(), matrix(n, sizes.vocabulary))


def numpy_logits(tokens: Array, weights: Weights) -> Array:
    """Logits[L, vocabulary] behind each of tokens[L], in f64."""
    sizes = weights.sizes
    length, group = len(tokens), sizes.heads // sizes.kv_heads
    x: Array = _wide(weights.words)[tokens]
    angles: Array = np.arange(length)[:, None] * BASE ** (-np.arange(0, sizes.head, 2) / sizes.head)
    seen: Array = np.arange(length)[:, None] >= np.arange(length)
    for layer in weights.layers:
        parts: Array = _norm(x, layer.first) @ _wide(layer.qkv)
        split = np.transpose(np.reshape(parts, (length, sizes.heads + 2 * sizes.kv_heads, sizes.head)), (1, 0, 2))
        q = _turned(split[: sizes.heads], angles)
        k = np.repeat(_turned(split[sizes.heads : sizes.heads + sizes.kv_heads], angles), group, axis=0)
        v: Array = np.repeat(split[sizes.heads + sizes.kv_heads :], group, axis=0)
        scores: Array = np.where(seen, q @ np.transpose(k, (0, 2, 1)) * sizes.head**-0.5, -np.inf)
        e: Array = np.exp(scores - scores.max(axis=-1, keepdims=True))
        heads: Array = (e / e.sum(axis=-1, keepdims=True)) @ v
        x = x + np.reshape(np.transpose(heads, (1, 0, 2)), (length, sizes.width)) @ _wide(layer.out)
        gate, up = np.split(_norm(x, layer.second) @ _wide(layer.gate_up), 2, axis=-1)
        x = x + (gate / (1 + np.exp(-gate)) * up) @ _wide(layer.down)
    return _norm(x, weights.last) @ _wide(weights.head)


def _wide(x: Any) -> Array:
    return np.asarray(x).astype(np.float64)


def _norm(x: Array, scale: Any) -> Array:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + EPS) * _wide(scale)


def _turned(x: Array, angles: Array) -> Array:
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)], axis=-1)

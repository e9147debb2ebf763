"""What `minilm.py` computes, by NumPy in float64: to compare with."""

from __future__ import annotations

import math

import numpy as np

from minilm_weights import Array, Layer, Weights

HEADS = 12
EPS = 1e-12
erf = np.vectorize(math.erf, otypes=[np.float64])


def numpy_embed(tokens: Array, mask: Array, weights: Weights) -> Array:
    """Embeddings[B, E] of length 1, for tokens[B, L] of which those count where mask[B, L] is 1; f64."""
    weights = weights.to(np.float64)
    x = weights.words[tokens] + weights.positions[: tokens.shape[1]] + weights.types[0]
    x = layer_norm(x, weights.scale, weights.shift)
    hidden = np.where(mask == 0, -np.inf, 0.0)[:, None, None, :]
    for layer in weights.layers:
        x = transformer_layer(x, hidden, layer)
    counted = mask[:, :, None]
    pooled: Array = (x * counted).sum(axis=1) / counted.sum(axis=1)
    return pooled / np.sqrt((pooled * pooled).sum(axis=1, keepdims=True))


def transformer_layer(x: Array, hidden: Array, w: Layer) -> Array:
    batch, length, width = x.shape
    heads = np.reshape(x @ w.qkv + w.qkv_bias, (batch, length, 3, HEADS, width // HEADS))
    q, k, v = np.transpose(heads, (2, 0, 3, 1, 4))
    scores: Array = q @ np.swapaxes(k, 2, 3) / math.sqrt(width // HEADS) + hidden
    p: Array = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    seen: Array = p / np.sum(p, axis=-1, keepdims=True) @ v
    seen = np.reshape(np.transpose(seen, (0, 2, 1, 3)), x.shape)
    x = layer_norm(seen @ w.out + w.out_bias + x, w.out_scale, w.out_shift)
    up: Array = x @ w.up + w.up_bias
    return layer_norm(up * (1 + erf(up / math.sqrt(2))) / 2 @ w.down + w.down_bias + x, w.down_scale, w.down_shift)


def layer_norm(x: Array, scale: Array, shift: Array) -> Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + EPS) * scale + shift


def least_cosine(embeddings: Array, expected: Array) -> float:
    """The smallest cosine between a row and the row that is expected; NaN counts as -1."""
    wide = embeddings.astype(np.float64)
    cosines = (wide * expected).sum(axis=1) / np.sqrt((wide * wide).sum(axis=1) * (expected * expected).sum(axis=1))
    return float(np.nan_to_num(cosines, nan=-1).min())

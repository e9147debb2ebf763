"""Random formulas like those of models: products, norms, softmaxes, attention, reindexing, residual sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tiledsl import tile

Step = Callable[["Weights", Any], Any]


class Weights:
    """Makes weights of the shapes that a formula asks for, always the same ones in the same order."""

    def __init__(self, dtype: Any, seed: int) -> None:
        self.dtype = dtype
        self.seed = seed
        self.made: list[Any] = []
        self.given = 0

    def take(self, *shape: int, scale: float = 1.0) -> Any:
        """The next weight."""
        if self.given == len(self.made):
            generator = np.random.default_rng(self.seed + self.given)
            self.made.append((generator.standard_normal(shape) * scale).astype(self.dtype))
        self.given += 1
        return self.made[self.given - 1]

    def again(self) -> None:
        """Starts anew."""
        self.given = 0


def linear(weights: Weights, x: Any) -> Any:
    width = x.shape[-1]
    return x @ weights.take(width, 12, scale=width**-0.5) + weights.take(12)


def gate(weights: Weights, x: Any) -> Any:
    width = x.shape[-1]
    left, right = weights.take(width, 8, scale=width**-0.5), weights.take(width, 8, scale=width**-0.5)
    return tile.silu(x @ left) * (x @ right)


def residual(weights: Weights, x: Any) -> Any:
    width = x.shape[-1]
    return x + tile.gelu(x @ weights.take(width, width, scale=width**-0.5))


def layer_norm(weights: Weights, x: Any) -> Any:
    mean = tile.sum(x, axis=-1, keepdims=True) / x.shape[-1]
    centred = x - mean
    variance = tile.sum(centred * centred, axis=-1, keepdims=True) / x.shape[-1]
    return centred * tile.rsqrt(variance + 1e-3) * weights.take(x.shape[-1])


def softmax(weights: Weights, x: Any) -> Any:
    return tile.softmax(x, axis=-1) * x.shape[-1]


def softmax_of_columns(weights: Weights, x: Any) -> Any:
    return tile.softmax(x, axis=-2) * x.shape[-2]


def attention(weights: Weights, x: Any) -> Any:
    """Two heads, causal; q, k and v are slices of one product."""
    batch, length, width = x.shape
    y = (x @ weights.take(width, 24, scale=width**-0.5)).reshape(batch, length, 3, 2, 4)
    q, k, v = (y[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    scores = (q @ k.mT) * 0.5
    rows, columns = tile.arange(length)[:, None], tile.arange(length)[None, :]
    scores = tile.where(rows >= columns, scores, -np.inf)
    out = tile.softmax(scores, axis=-1) @ v
    return out.transpose(0, 2, 1, 3).reshape(batch, length, 8)


def attention_of_itself(weights: Weights, x: Any) -> Any:
    """Without heads or weights: one tensor is queries, keys and values."""
    return tile.softmax((x @ x.mT) * 0.3, axis=-1) @ x


def windowed(weights: Weights, x: Any) -> Any:
    """Attention of neighbours; those at the other places are hidden, and scores are not scaled."""
    length = x.shape[-2]
    rows, columns = tile.arange(length)[:, None], tile.arange(length)[None, :]
    return tile.softmax(tile.where(tile.abs(rows - columns) > 1, -np.inf, tile.tanh(x @ x.mT)), axis=-1) @ x


def triangle(weights: Weights, x: Any) -> Any:
    """A product with the lower triangle of another one."""
    length = x.shape[-2]
    rows, columns = tile.arange(length)[:, None], tile.arange(length)[None, :]
    return tile.where(rows >= columns, tile.tanh(x @ x.mT), 0.0) @ x


def turned(weights: Weights, x: Any) -> Any:
    return x.transpose(0, 2, 1)


def halves(weights: Weights, x: Any) -> Any:
    """Slices of a computed tensor."""
    half = x.shape[-1] // 2
    return x[..., :half] * tile.sigmoid(x[..., half : 2 * half]) if half else x


def rotated(weights: Weights, x: Any) -> Any:
    """Halves that change places, each with a factor; a join in the middle of elementwise ops."""
    half = x.shape[-1] // 2
    if not half:
        return x
    x = x[..., : 2 * half]
    turned = tile.concat([-x[..., half:], x[..., :half]], axis=-1)
    return x * weights.take(2 * half) + turned * weights.take(2 * half)


def joined(weights: Weights, x: Any) -> Any:
    """A product, what is computed and what is there already, behind each other."""
    width = x.shape[-1]
    parts = [x @ weights.take(width, 4, scale=width**-0.5), tile.tanh(x), x[..., :1]]
    return tile.concat(parts, axis=-1) * 0.5


def stacked(weights: Weights, x: Any) -> Any:
    """Two values of one tensor, rows of both in turn."""
    batch, length, width = x.shape
    return tile.stack([tile.sigmoid(x), x * 0.5], axis=2).reshape(batch, length * 2, width)


def neighbours(weights: Weights, x: Any) -> Any:
    """Windows of two rows that overlap, as rows: strides cannot tell that."""
    batch, length, width = x.shape
    if length < 2:
        return x
    return tile.window(x, (2,), (1,), (1,), (1,)).transpose(0, 3, 1, 2).reshape(batch, 2 * (length - 1), width)


def shifted(weights: Weights, x: Any) -> Any:
    """What is before and behind, of what is padded: slices that overlap."""
    padded = tile.pad(x, ((0, 0), (1, 1), (0, 0)))
    return padded[:, 2:] * 0.5 + padded[:, :-2] * 0.25 - x


def differences(weights: Weights, x: Any) -> Any:
    """Of columns that were computed."""
    return tile.sigmoid(x)[..., 1:] - tile.sigmoid(x)[..., :-1] if x.shape[-1] > 1 else x


def paired(weights: Weights, x: Any) -> Any:
    """Two values of one tensor, columns of both in turn, through an axis of two."""
    batch, length, width = x.shape
    return tile.stack([tile.sigmoid(x), x * 0.5], axis=-1).reshape(batch, length, width * 2)


def by_column(weights: Weights, x: Any) -> Any:
    """A product for each column: batches lie side by side."""
    return tile.einsum("b l w, c l w -> b c w", x, x) * (1 / x.shape[1])


def ranged(weights: Weights, x: Any) -> Any:
    """Two folds of one tensor over one axis."""
    low, high = tile.min(x, axis=-1, keepdims=True), tile.max(x, axis=-1, keepdims=True)
    return (x - low) / (high - low + 1.0)


def scaled(weights: Weights, x: Any) -> Any:
    return x * weights.take(x.shape[-1]) + 1


def both(weights: Weights, x: Any) -> Any:
    """A value that two chains read."""
    return tile.exp(-tile.abs(x)) + tile.tanh(x) * tile.sigmoid(tile.max(x, axis=-1, keepdims=True))


def grouped(weights: Weights, x: Any) -> Any:
    """Columns in groups, widened first, each group by its largest number, and rounded."""
    batch, length, width = x.shape
    groups = 2 if width % 2 == 0 else 1
    wide = x.to(tile.f32).reshape(batch, length, groups, width // groups)
    largest = tile.max(tile.abs(wide), axis=-1, keepdims=True) + 1.0
    return (wide / largest).reshape(batch, length, width).to(x.dtype)


def merged(weights: Weights, x: Any) -> Any:
    batch, length, width = x.shape
    return x.reshape(1, batch * length, width)


STEPS: tuple[Step, ...] = (
    linear, gate, residual, layer_norm, softmax, softmax_of_columns, attention, attention_of_itself, windowed, triangle,
    turned, halves, rotated, joined, stacked, neighbours, ranged, scaled, both, merged,
    grouped, shifted, differences, paired, by_column,
)  # fmt: skip


@dataclass(frozen=True)
class RandomFormula:
    """Steps one after the other, and an argument for the first."""

    steps: tuple[Step, ...]
    weights: Weights
    x: Any

    def __call__(self, x: Any) -> Any:
        self.weights.again()
        middle = x
        for number, step in enumerate(self.steps):
            x = step(self.weights, x)
            if number == len(self.steps) // 2:
                middle = x
        return x, middle


@st.composite
def formulas(draw: st.DrawFn, dtype: Any = np.float32) -> RandomFormula:
    """Of up to six steps, on [batch, length, width]."""
    steps = tuple(draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=6)))
    shape = draw(st.sampled_from(((1, 5, 6), (2, 8, 16), (3, 1, 4), (2, 7, 1))))
    seed = draw(st.integers(0, 1000))
    x = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return RandomFormula(steps, Weights(dtype, seed), x)

"""Weights for the encoder of examples/minilm.py from a random generator: its shapes, with a small vocabulary."""

from __future__ import annotations

import numpy as np

from minilm_weights import LAYERS, Array, Layer, Weights

WIDTH = 384
WORDS = 500


def random_weights(seed: int = 0) -> Weights:
    """In f32, of magnitudes like those of a trained model."""
    generator = np.random.default_rng(seed)

    def normal(*shape: int, scale: float = 1.0, centre: float = 0.0) -> Array:
        made: Array = generator.standard_normal(shape).astype(np.float32)
        return made * np.float32(scale) + np.float32(centre)

    def matrix(rows: int, columns: int) -> tuple[Array, Array]:
        return normal(rows, columns, scale=rows**-0.5), normal(columns, scale=0.1)

    def norm() -> tuple[Array, Array]:
        return normal(WIDTH, scale=0.1, centre=1.0), normal(WIDTH, scale=0.1)

    layers = [
        Layer(
            *matrix(WIDTH, 3 * WIDTH), *matrix(WIDTH, WIDTH), *norm(),
            *matrix(WIDTH, 4 * WIDTH), *matrix(4 * WIDTH, WIDTH), *norm(),
        )
        for _ in range(LAYERS)
    ]  # fmt: skip
    return Weights(normal(WORDS, WIDTH), normal(512, WIDTH), normal(2, WIDTH), *norm(), tuple(layers))


def random_texts(batch: int, length: int, seed: int = 0) -> tuple[Array, Array]:
    """Tokens[B, L] and mask[B, L]: the first text fills its row, the others end earlier."""
    generator = np.random.default_rng(seed)
    lengths = np.array([length, *generator.integers(1, length, batch - 1, endpoint=True)])
    tokens = generator.integers(0, WORDS, (batch, length)).astype(np.int32)
    return tokens, (np.arange(length) < lengths[:, None]).astype(np.int32)

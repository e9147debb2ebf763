"""Philox4x32-10, the counter-based generator behind `tile.random`.

The same seed and offset give the same number, whatever the blocks and the order.

J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011).
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tiledsl.backend_ref.scalar_functions import Array, apply, constant
from tiledsl.ir.dtypes import f32

Words: TypeAlias = "npt.NDArray[np.uint64]"
"""32-bit words, each in a u64 so that products are whole."""

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_LOW = np.uint64(0xFFFF_FFFF)
_HALF = np.uint64(32)
_ROUNDS = 10


def philox4x32(counter: tuple[Words, Words, Words, Words], key: tuple[Words, Words]) -> tuple[Words, ...]:
    """The four output words of each counter under a key. All words broadcast together."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (p1 >> _HALF) ^ c1 ^ k0, p1 & _LOW, (p0 >> _HALF) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _KEY_STEPS[0]) & _LOW, (k1 + _KEY_STEPS[1]) & _LOW
    return c0, c1, c2, c3


def random_words(seed: Array, offsets: Array) -> tuple[Words, ...]:
    """The four words at counter (offset low, offset high, 0, 0) under key (seed low, seed high), of integer arrays."""
    counter, key = offsets.astype(np.uint64), seed.astype(np.uint64)
    zero = np.zeros_like(counter)
    return philox4x32((counter & _LOW, counter >> _HALF, zero, zero), (key & _LOW, key >> _HALF))


def bits(seed: Array, offsets: Array) -> Array:
    """Random u32, of the shape of `offsets`."""
    return np.asarray(random_words(seed, offsets)[0]).astype(np.uint32)


def uniform(seed: Array, offsets: Array) -> Array:
    """Uniform f32 in [0, 1): multiples of 2**-24."""
    return _fraction(random_words(seed, offsets)[0], add=0)


def normal(seed: Array, offsets: Array) -> Array:
    """Standard normal f32, by Box and Muller's cosine, each step in f32."""
    first, second, _, _ = random_words(seed, offsets)
    radius = apply("sqrt", apply("mul", constant(-2, f32), apply("log", _fraction(first, add=1))))
    angle = apply("mul", constant(2 * math.pi, f32), _fraction(second, add=0))
    return apply("mul", radius, apply("cos", angle))


def _fraction(words: Words, add: int) -> Array:
    """The top 24 bits of each word, plus `add`, as an f32 in units of 2**-24; exact."""
    top = (words >> np.uint64(8)) + np.uint64(add)
    return np.asarray(top.astype(np.float32) * np.float32(2.0**-24))


DRAWS = {"uniform": uniform, "normal": normal, "bits": bits}
"""What draws each kind of random numbers."""

"""Random numbers on vectors: Philox4x32-10, the same numbers as `backend_ref.philox` gives.

J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011).
"""

from __future__ import annotations

import math

from tiledsl.backend_cpu.functions.lanes import Lanes
from tiledsl.backend_cpu.functions.vector_math import emit_map
from tiledsl.backend_cpu.llvm.writer import FunctionWriter, VectorType
from tiledsl.ir.dtypes import f32, u32, u64

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


def emit_random(writer: FunctionWriter, fn: str, seed: str, offsets: str, lanes: int) -> str:
    """A random number per offset, where `fn` is `bits` (u32), `uniform` in [0, 1) (f32) or `normal` (f32).

    `seed` is a scalar of i64, `offsets` has `lanes` of i64.
    """
    word = Lanes(writer, VectorType(u32, lanes))
    first, second = _random_words(word, seed, offsets)
    match fn:
        case "bits":
            return first
        case "uniform":
            return _fraction(word, first, add=0)
        case _:
            return _normal(word, first, second)


def _random_words(word: Lanes, seed: str, offsets: str) -> tuple[str, str]:
    """The first two words at counter (offset low, offset high, 0, 0) under key (seed low, seed high)."""
    scalar = Lanes(word.writer, VectorType(u32))
    c0, c1 = _halves(word, offsets)
    k0, k1 = _halves(scalar, seed)
    c2 = c3 = word.constant(0)
    for turn in range(_ROUNDS):
        if turn > 0:
            k0, k1 = (scalar.add(key, scalar.constant(step)) for key, step in zip((k0, k1), _KEY_STEPS))
        high0, low0 = _product(word, c0, _MULTIPLIERS[0])
        high1, low1 = _product(word, c2, _MULTIPLIERS[1])
        c0, c2 = (_mix(word, high, c, key) for high, c, key in ((high1, c1, k0), (high0, c3, k1)))
        c1, c3 = low1, low0
    return c0, c1


def _mix(word: Lanes, high: str, counter: str, key: str) -> str:
    mixed = word.binary("xor", high, counter)
    return word.binary("xor", mixed, word.writer.splat(word.type, key))


def _halves(word: Lanes, value: str) -> tuple[str, str]:
    """The low and the high 32 bits of 64."""
    wide = word.of(u64)
    high = wide.binary("lshr", value, wide.constant(32))
    return wide.change("trunc", value, word), wide.change("trunc", high, word)


def _product(word: Lanes, value: str, factor: int) -> tuple[str, str]:
    """The high and the low 32 bits of value * factor."""
    wide = word.of(u64)
    low, high = _halves(word, wide.mul(word.change("zext", value, wide), wide.constant(factor)))
    return high, low


def _fraction(word: Lanes, value: str, add: int) -> str:
    """The top 24 bits, plus `add`, in units of 2**-24; exact."""
    top = word.add(word.binary("lshr", value, word.constant(8)), word.constant(add))
    single = word.of(f32)
    # as signed: every machine has that conversion, and the number is small
    return single.mul(word.change("sitofp", top, single), single.constant(2.0**-24))


def _normal(word: Lanes, first: str, second: str) -> str:
    """Box and Muller's cosine."""
    single = word.of(f32)
    writer, type_ = single.writer, single.type
    log = emit_map(writer, "log", type_, [_fraction(word, first, add=1)])
    radius = emit_map(writer, "sqrt", type_, [single.mul(log, single.constant(-2.0))])
    angle = single.mul(_fraction(word, second, add=0), single.constant(2 * math.pi))
    return single.mul(radius, emit_map(writer, "cos", type_, [angle]))

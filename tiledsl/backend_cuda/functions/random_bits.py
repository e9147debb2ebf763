"""Random numbers on the device: Philox4x32-10, the counter-based generator of J. Salmon et al. (2011).

The same seed and offset give the same number whatever the blocks, the threads and the machine; `normal` to within the
accuracy of logarithm and cosine.
"""

from __future__ import annotations

from tiledsl.backend_cuda.functions import float_math
from tiledsl.backend_cuda.functions.preamble import Preamble, define

DEFINED_BY = (float_math,)
"""The modules whose device functions are called."""

define(
    "philox",
    "four random words: Philox4x32-10 at counter (offset, 0) under the key `seed`",
    """uint4 philox(unsigned long long seed, unsigned long long offset) {
    unsigned k0 = (unsigned)seed, k1 = (unsigned)(seed >> 32);
    uint4 c = {(unsigned)offset, (unsigned)(offset >> 32), 0u, 0u};
#pragma unroll
    for (int step = 0; step < 10; ++step) {
        uint4 next = {__umulhi(0xcd9e8d57u, c.z) ^ c.y ^ k0, 0xcd9e8d57u * c.z,
                      __umulhi(0xd2511f53u, c.x) ^ c.w ^ k1, 0xd2511f53u * c.x};
        c = next;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return c;
}""",
)
define(
    "random_bits",
    "32 random bits",
    """unsigned random_bits(unsigned long long seed, unsigned long long offset) {
    return philox(seed, offset).x;
}""",
)
define(
    "random_uniform",
    "a random multiple of 2**-24 in [0, 1)",
    """float random_uniform(unsigned long long seed, unsigned long long offset) {
    return (float)(philox(seed, offset).x >> 8) * 5.9604645e-08f;
}""",
)
define(
    "random_normal",
    "a random number of the standard normal distribution, by Box and Muller's cosine",
    """float random_normal(unsigned long long seed, unsigned long long offset) {
    uint4 words = philox(seed, offset);
    float radius = sqrtf(-2.0f * logf((float)((words.x >> 8) + 1u) * 5.9604645e-08f));
    float turn = (float)(words.y >> 8) * 5.9604645e-08f;
    return radius * cos_f32(6.2831855f * turn);
}""",
)


def random(fn: str, seed: str, offset: str, preamble: Preamble) -> str:
    """A C expression for `tile.random` with `fn` (`uniform`, `normal` or `bits`): a `float`, or `unsigned` for bits.

    `seed` and `offset` are integers of any register type; negative ones count as their 64 bits.
    """
    return f"{preamble.use(f'random_{fn}')}({seed}, {offset})"

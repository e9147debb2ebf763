"""Device functions between `float` and the bits of narrow floats: f16, bf16, f8e4m3 and f8e5m2.

Of each type T: `bits_T(x)` are the bits of x rounded to nearest even, in the low part of an `unsigned`;
`low_T(word)` is the value of the low bits of a word, whatever stands above them; `round_T(x)` is x rounded. What is too
large becomes an infinity, and NaN in f8e4m3, which has none. `pack_T` rounds 2 or 4 values into a word, the first
lowest.
"""

from __future__ import annotations

from tiledsl.backend_cuda.functions.preamble import define

define(
    "round_to_odd",
    "x as a float; of the two around an x between them, the one with an odd last bit, so that it rounds on as x does",
    """float round_to_odd(double x) {
    float shorter = __double2float_rz(x);
    return (double)shorter == x ? shorter : __uint_as_float(__float_as_uint(shorter) | 1u);
}""",
)

# f16

define(
    "bits_f16",
    "the bits of x rounded to f16",
    """unsigned bits_f16(float x) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}""",
)
define(
    "low_f16",
    "the f16 in the low half of a word",
    """float low_f16(unsigned word) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((unsigned short)word));
    return x;
}""",
)
define(
    "high_f16",
    "the f16 in the high half of a word",
    """float high_f16(unsigned word) {
    return low_f16(word >> 16);
}""",
)
define(
    "round_f16",
    "x rounded to f16",
    """float round_f16(float x) {
    return low_f16(bits_f16(x));
}""",
)
define(
    "pack_f16",
    "two values rounded to f16, in one word",
    """unsigned pack_f16(float low, float high) {
    unsigned word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}""",
)

# bf16

define(
    "pack_bf16",
    "two values rounded to bf16, in one word",
    """unsigned pack_bf16(float low, float high) {
    unsigned word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}""",
)
define(
    "bits_bf16",
    "the bits of x rounded to bf16",
    """unsigned bits_bf16(float x) {
    return pack_bf16(x, 0.0f);
}""",
)
define(
    "low_bf16",
    "the bf16 in the low half of a word",
    """float low_bf16(unsigned word) {
    return __uint_as_float(word << 16);
}""",
)
define(
    "high_bf16",
    "the bf16 in the high half of a word",
    """float high_bf16(unsigned word) {
    return __uint_as_float(word & 0xffff0000u);
}""",
)
define(
    "round_bf16",
    "x rounded to bf16",
    """float round_bf16(float x) {
    return __uint_as_float(pack_bf16(0.0f, x));
}""",
)

# f8


def _define_portable_bits(name: str, mantissa: int, bias: int, too_large: int, nan: int) -> None:
    """`bits_<name>` by integer arithmetic on the bits of the float."""
    dropped = 23 - mantissa
    # Adding this number rounds to the unit of subnormal numbers, which is its last place.
    exponent = 1 - bias - mantissa + 23
    define(
        f"bits_{name}",
        f"the bits of x rounded to {name}",
        f"""unsigned bits_{name}(float x) {{
    unsigned word = __float_as_uint(x), size = word & 0x7fffffffu;
    // the mantissa rounded to even; a carry goes into the exponent
    unsigned bits = (size + (size >> {dropped} & 1u) + {(1 << dropped - 1) - 1:#x}u) >> {dropped};
    bits -= {(127 - bias) << mantissa:#x}u;
    if (size < {(128 - bias) << 23:#x}u)  // subnormal
        bits = __float_as_uint(fabsf(x) + {2.0**exponent}f) - {(exponent + 127) << 23:#x}u;
    bits = min(bits, {too_large:#x}u);
    if (size > 0x7f800000u)
        bits = {nan:#x}u;
    return bits | (word >> 24 & 0x80u);
}}""",
    )


_define_portable_bits("f8e4m3", mantissa=3, bias=7, too_large=0x7F, nan=0x7F)
_define_portable_bits("f8e5m2", mantissa=2, bias=15, too_large=0x7C, nan=0x7E)

# The instruction turns what is too large into the largest number, which our values do not.
for _name, _format in (("f8e4m3", "e4m3"), ("f8e5m2", "e5m2")):
    define(
        f"saturated_pair_{_name}",
        f"two values rounded to {_name}, in the low half of a word; the largest number for what is larger",
        f"""unsigned saturated_pair_{_name}(float low, float high) {{
    unsigned short bits;
    asm("cvt.rn.satfinite.{_format}x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
    return bits;
}}""",
        since=89,
    )
define(
    "pair_bits_f8e4m3",
    "two values rounded to f8e4m3, in the low half of a word",
    """unsigned pair_bits_f8e4m3(float low, float high) {
    const float nan = __uint_as_float(0x7fc00000u);
    return saturated_pair_f8e4m3(fabsf(low) <= 464.0f ? low : nan, fabsf(high) <= 464.0f ? high : nan);
}""",
    since=89,
)
define(
    "bits_f8e4m3",
    "the bits of x rounded to f8e4m3",
    """unsigned bits_f8e4m3(float x) {
    return pair_bits_f8e4m3(x, 0.0f);
}""",
    since=89,
)
define(
    "bits_f8e5m2",
    "the bits of x rounded to f8e5m2",
    """unsigned bits_f8e5m2(float x) {
    unsigned infinity = (__float_as_uint(x) >> 24 & 0x80u) | 0x7cu;
    return fabsf(x) >= 61440.0f ? infinity : saturated_pair_f8e5m2(x, 0.0f);
}""",
    since=89,
)
define(
    "pair_f8e4m3",
    "the two f8e4m3 in the low half of a word as two f16",
    """unsigned pair_f8e4m3(unsigned word) {
    unsigned pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)word));
    return pair;
}""",
    since=89,
)
define(
    "low_f8e4m3",
    "the f8e4m3 in the low byte of a word",
    """float low_f8e4m3(unsigned word) {
    // moved to the place of an f16's exponent and mantissa, the bits are those of a number 2**8 times too small
    unsigned moved = word << 7 & 0x3f80u;
    float x = low_f16(moved | (word << 8 & 0x8000u)) * 256.0f;
    return moved == 0x3f80u ? __uint_as_float(0x7fc00000u) : x;
}""",
)
define(
    "low_f8e4m3",
    "the f8e4m3 in the low byte of a word",
    """float low_f8e4m3(unsigned word) {
    return low_f16(pair_f8e4m3(word));
}""",
    since=89,
)
define(
    "pair_f8e5m2",
    "the two f8e5m2 in the low half of a word as two f16, of which they are the upper bytes",
    """unsigned pair_f8e5m2(unsigned word) {
    return __byte_perm(word, 0u, 0x1404u);
}""",
)
define(
    "low_f8e5m2",
    "the f8e5m2 in the low byte of a word",
    """float low_f8e5m2(unsigned word) {
    return low_f16(word << 8);
}""",
)
for _name in ("f8e4m3", "f8e5m2"):
    define(
        f"round_{_name}",
        f"x rounded to {_name}",
        f"""float round_{_name}(float x) {{
    return low_{_name}(bits_{_name}(x));
}}""",
    )

# Words of integers

define(
    "pack_halves",
    "the low halves of two words in one word",
    """unsigned pack_halves(unsigned low, unsigned high) {
    return __byte_perm(low, high, 0x5410u);
}""",
)
define(
    "pack_bytes",
    "the low bytes of four words in one word",
    """unsigned pack_bytes(unsigned a, unsigned b, unsigned c, unsigned d) {
    return __byte_perm(__byte_perm(a, b, 0x0040u), __byte_perm(c, d, 0x0040u), 0x5410u);
}""",
)
for _name in ("f8e4m3", "f8e5m2"):
    define(
        f"pack_{_name}",
        f"four values rounded to {_name}, in one word",
        f"""unsigned pack_{_name}(float a, float b, float c, float d) {{
    return pack_bytes(bits_{_name}(a), bits_{_name}(b), bits_{_name}(c), bits_{_name}(d));
}}""",
    )
define(
    "pack_f8e4m3",
    "four values rounded to f8e4m3, in one word",
    """unsigned pack_f8e4m3(float a, float b, float c, float d) {
    return pack_halves(pair_bits_f8e4m3(a, b), pair_bits_f8e4m3(c, d));
}""",
    since=89,
)

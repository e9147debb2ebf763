"""Device functions on pairs of f16, two in a word: one instruction for both.

Integers become f16 as digits of 1024 + n, of which 1024 is taken away: exact, and without the unit for conversions.
"""

from __future__ import annotations

from tiledsl.backend_cuda.functions.preamble import define

for _name, _sign in (("add", "+"), ("sub", "-"), ("mul", "*")):
    define(
        f"halves_{_name}",
        f"a {_sign} b of two pairs of f16, rounded once",
        f"""unsigned halves_{_name}(unsigned a, unsigned b) {{
    unsigned both;
    asm("{_name}.rn.f16x2 %0, %1, %2;" : "=r"(both) : "r"(a), "r"(b));
    return both;
}}""",
    )
define(
    "halves_fma",
    "a * b + c of pairs of f16, rounded once",
    """unsigned halves_fma(unsigned a, unsigned b, unsigned c) {
    unsigned both;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(both) : "r"(a), "r"(b), "r"(c));
    return both;
}""",
)
define(
    "halves_if",
    "a pair, or zeros; the pair is computed either way, by no branch",
    """unsigned halves_if(bool inside, unsigned both) {
    return inside ? both : 0u;
}""",
)
define(
    "pick_halves",
    "half `at` of one word, and above it half `at_1` of another",
    """unsigned pick_halves(unsigned low, unsigned high, unsigned at, unsigned at_1) {
    return __byte_perm(low, high, (at ? 0x32u : 0x10u) | (at_1 ? 0x7600u : 0x5400u));
}""",
)
define(
    "kept_constant",
    "x, in a register that the assembler does not know to be constant: it makes constants again for each use, and no"
    " instruction takes two. Grids have one dimension",
    "unsigned kept_constant(unsigned x) {\n    return x | blockIdx.z;\n}",
)
# As an asm, since one of its constants has to be in a register: see `among_digits`.
define(
    "among_halves",
    "the masked bits of a word, and other bits flipped",
    """unsigned among_halves(unsigned word, unsigned mask, unsigned flipped) {
    unsigned bits;
    asm("lop3.b32 %0, %1, %2, %3, 0x6A;" : "=r"(bits) : "r"(word), "r"(mask), "r"(flipped));
    return bits;
}""",
)
for _name, _flip, _less in (("i8", 0x88888888, 8), ("u8", 0, 0)):
    define(
        f"halves_of_nibbles_{_name}",
        f"nibble `at` of one word and nibble `at_1` of another ({_name}) as a pair of f16",
        f"""unsigned halves_of_nibbles_{_name}(unsigned low, unsigned high, unsigned at, unsigned at_1) {{
    unsigned both = __byte_perm(low, high, (at / 2u) * 0x11u + (4u + at_1 / 2u) * 0x1100u);
    unsigned mask = 15u << 4u * (at % 2u) | 15u << (16u + 4u * (at_1 % 2u));
    unsigned units = (at % 2u ? 0x2C00u : 0x3C00u) | (at_1 % 2u ? 0x2C00u : 0x3C00u) << 16;
    unsigned less = (at % 2u ? {0xD400 | _less << 4:#x}u : {0xE400 | _less:#x}u) | """
        f"""(at_1 % 2u ? {0xD400 | _less << 4:#x}u : {0xE400 | _less:#x}u) << 16;
    unsigned flipped = kept_constant(0x64006400u ^ (mask & {_flip:#x}u));
    return halves_fma(among_halves(both, mask, flipped), units, kept_constant(less));
}}""",
    )
for _name, _flip, _less in (("i8", 0x00800080, 128), ("u8", 0, 0)):
    define(
        f"halves_of_bytes_{_name}",
        f"byte `at` of one word and byte `at_1` of another, integers ({_name}), as a pair of f16",
        f"""unsigned halves_of_bytes_{_name}(unsigned low, unsigned high, unsigned at, unsigned at_1) {{
    unsigned both = __byte_perm(low, high, at * 0x11u + (4u + at_1) * 0x1100u);
    unsigned flipped = kept_constant({0x64006400 ^ _flip:#x}u);
    return halves_add(among_halves(both, 0x00FF00FFu, flipped), {(0xE400 | _less) * 0x10001:#x}u);
}}""",
    )

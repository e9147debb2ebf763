"""Device functions on integers, with Python's and NumPy's meaning at the corners where that of C is undefined."""

from __future__ import annotations

from tiledsl.backend_cuda.functions.preamble import SIGNED, UNSIGNED, define_family

for _stem, _operator, _purpose in (
    ("add", "+", "a + b, wrapping"),
    ("sub", "-", "a - b, wrapping"),
    ("mul", "*", "a * b, wrapping"),
):
    define_family(
        _stem,
        SIGNED,
        _purpose,
        f"""TYPE {_stem}_SUFFIX(TYPE a, TYPE b) {{
    return (TYPE)((UNSIGNED)a {_operator} (UNSIGNED)b);
}}""",
    )
define_family(
    "neg",
    SIGNED,
    "-a, wrapping",
    """TYPE neg_SUFFIX(TYPE a) {
    return (TYPE)-(UNSIGNED)a;
}""",
)
define_family(
    "abs",
    SIGNED,
    "the magnitude of a; of the least number, which has none, itself",
    """TYPE abs_SUFFIX(TYPE a) {
    return a < 0 ? (TYPE)-(UNSIGNED)a : a;
}""",
)
define_family(
    "floordiv",
    SIGNED,
    "a // b rounded down; 0 where b is 0",
    """TYPE floordiv_SUFFIX(TYPE a, TYPE b) {
    if (b == 0)
        return 0;
    if (b == -1)
        return (TYPE)-(UNSIGNED)a;
    TYPE quotient = a / b, rest = a % b;
    return rest != 0 && (rest ^ b) < 0 ? quotient - 1 : quotient;
}""",
)
define_family(
    "mod",
    SIGNED,
    "a % b with the sign of b; 0 where b is 0",
    """TYPE mod_SUFFIX(TYPE a, TYPE b) {
    if (b == 0 || b == -1)
        return 0;
    TYPE rest = a % b;
    return rest != 0 && (rest ^ b) < 0 ? rest + b : rest;
}""",
)
define_family(
    "floordiv",
    UNSIGNED,
    "a // b; 0 where b is 0",
    """TYPE floordiv_SUFFIX(TYPE a, TYPE b) {
    return b == 0 ? 0 : a / b;
}""",
)
define_family(
    "mod",
    UNSIGNED,
    "a % b; 0 where b is 0",
    """TYPE mod_SUFFIX(TYPE a, TYPE b) {
    return b == 0 ? 0 : a % b;
}""",
)
define_family(
    "pow",
    UNSIGNED,
    "base ** exponent, wrapping",
    """TYPE pow_SUFFIX(TYPE base, TYPE exponent) {
    TYPE power = 1;
    for (; exponent != 0; exponent >>= 1) {
        if (exponent & 1)
            power *= base;
        base *= base;
    }
    return power;
}""",
)
for _variant, _unsigned in zip(SIGNED, UNSIGNED):
    define_family(
        "pow",
        [_variant],
        "base ** exponent, wrapping; for a negative exponent what is left of 1 / base ** -exponent: mostly 0",
        f"""TYPE pow_SUFFIX(TYPE base, TYPE exponent) {{
    if (exponent >= 0)
        return (TYPE)pow_{_unsigned.suffix}((UNSIGNED)base, (UNSIGNED)exponent);
    return base == 1 || (base == -1 && exponent % 2 == 0) ? 1 : base == -1 ? -1 : 0;
}}""",
    )
define_family(
    "shl",
    (*SIGNED, *UNSIGNED),
    "a << count; 0 where the count is at least the width, or negative",
    """TYPE shl_SUFFIX(TYPE a, TYPE count) {
    return (UNSIGNED)count < BITS ? (TYPE)((UNSIGNED)a << count) : 0;
}""",
)
define_family(
    "shr",
    SIGNED,
    "a >> count; only the sign is left where the count is at least the width, or negative",
    """TYPE shr_SUFFIX(TYPE a, TYPE count) {
    return a >> ((UNSIGNED)count < BITS ? count : BITS - 1);
}""",
)
define_family(
    "shr",
    UNSIGNED,
    "a >> count; 0 where the count is at least the width",
    """TYPE shr_SUFFIX(TYPE a, TYPE count) {
    return count < BITS ? a >> count : 0;
}""",
)
define_family(
    "nibble",
    SIGNED,
    "the low 4 bits of a where i is even, else the next 4, with their sign",
    """TYPE nibble_SUFFIX(TYPE a, TYPE i) {
    return ((a >> 4 * (i & 1) & 15) ^ 8) - 8;
}""",
)
define_family(
    "nibble",
    UNSIGNED,
    "the low 4 bits of a where i is even, else the next 4",
    """TYPE nibble_SUFFIX(TYPE a, TYPE i) {
    return a >> 4 * (i & 1) & 15;
}""",
)

"""Device functions on floats, beside those of CUDA that are accurate and quick (see `scalar_math.py`).

Those named `_approx` are single instructions of the GPU and good enough for results of 16 bits. Errors are given in
units of the last place. Results below 2**-126 may become 0.
"""

from __future__ import annotations

from tiledsl.backend_cuda.functions.preamble import FLOATS, define, define_family

# Approximations


def _define_instruction(name: str, purpose: str, instruction: str) -> None:
    define(
        name,
        purpose,
        f"""float {name}(float x) {{
    float y;
    asm("{instruction} %0, %1;" : "=f"(y) : "f"(x));
    return y;
}}""",
    )


_define_instruction("exp2_approx", "2 to the x; 2 units off at most", "ex2.approx.ftz.f32")
_define_instruction("tanh_approx", "tanh of x; 2**-11 off at most, relatively", "tanh.approx.f32")
_define_instruction("log2_approx", "log2 of x; 2**-22 off at most, relatively where that is more", "lg2.approx.ftz.f32")
_define_instruction("reciprocal_approx", "1 / x; 1 unit off at most", "rcp.approx.ftz.f32")
_define_instruction("rsqrt_approx", "1 over the square root of x; 2 units off at most", "rsqrt.approx.ftz.f32")
_define_instruction("sqrt_approx", "the square root of x; 1 unit off at most", "sqrt.approx.f32")
define(
    "div_approx",
    "a / b; 2 units off at most, for numbers of any size",
    """float div_approx(float a, float b) {
    // the reciprocal of what is too small would be infinite, that of what is too large 0; one of many a is found once
    float size = fabsf(b), scale = size < 1.1754944e-38f ? 4294967296.0f : size > 8.507059e37f ? 0.0625f : 1.0f;
    return a * scale * reciprocal_approx(b * scale);
}""",
)
define(
    "exp_approx",
    "e to the x, for results of 16 bits",
    """float exp_approx(float x) {
    return exp2_approx(x * 1.442695f);
}""",
)
define(
    "sigmoid_approx",
    "1 / (1 + exp(-x)), for results of 16 bits",
    """float sigmoid_approx(float x) {
    return reciprocal_approx(1.0f + exp2_approx(x * -1.442695f));
}""",
)

define(
    "float_bits",
    "the bits of x as a number",
    """unsigned float_bits(float x) {
    return __float_as_uint(x);
}""",
)
define(
    "sigmoid2",
    "1 / (1 + 2**-x); 2**-22 off at most, and 4 units",
    """float sigmoid2(float x) {
    return reciprocal_approx(1.0f + exp2_approx(-x));
}""",
)

# Accurate functions, without branches: those of CUDA call a function for what is 0, tiny or huge, whoever of a warp has
# such a number, and keep what is computed of one element apart from what is computed of the next

define(
    "div_f32",
    "a / b; rounded once where a is above 2**-100, or 0, else 4 units off at most",
    """float div_f32(float a, float b) {
    float size = fabsf(b), scale = size < 1.3552527e-20f ? 4.611686e18f : size > 7.3786976e19f ? 2.1684043e-19f : 1.0f;
    float divisor = b * scale, scaled = a * scale, rough = reciprocal_approx(divisor);
    float inverse = fmaf(fmaf(-divisor, rough, 1.0f), rough, rough), first = scaled * rough;
    float second = fmaf(fmaf(-divisor, first, scaled), inverse, first);
    float quotient = fmaf(fmaf(-divisor, second, scaled), inverse, second);
    return quotient == quotient && first != 0.0f ? quotient : first;  // what is infinite or 0 has no residue
}""",
)
define(
    "sqrt_f32",
    "the square root of x, rounded once",
    """float sqrt_f32(float x) {
    bool small = x < 1.2621775e-29f;
    float scaled = small ? x * 1.8446744e19f : x, inverse = rsqrt_approx(scaled), root = scaled * inverse;
    root = fmaf(fmaf(-root, root, scaled), 0.5f * inverse, root);
    root = small ? root * 2.3283064e-10f : root;
    return x == 0.0f || x == __uint_as_float(0x7f800000u) ? x : root;
}""",
)
define(
    "div_by_repeated",
    "a / b, where many a have one b; rounded once where a and the result have usual sizes, else 2 units off at most",
    """float div_by_repeated(float a, float b) {
    // what is of b alone is found once: its inverse, and what keeps that from being too large or too small
    float size = fabsf(b), scale = size < 1.3552527e-20f ? 4.611686e18f : size > 7.3786976e19f ? 2.1684043e-19f : 1.0f;
    float divisor = b * scale, inverse = 1.0f / divisor, opposite = -inverse;
    float scaled = a * scale, first = scaled * inverse;
    float second = fmaf(fmaf(first, divisor, -scaled), opposite, first);
    float quotient = fmaf(fmaf(second, divisor, -scaled), opposite, second);
    return quotient == quotient ? quotient : first;  // what is infinite or 0 has no residue
}""",
)
define(
    "div_by_known",
    "a / b, a a small integer and b known: one correction rounds it, and nothing is infinite",
    """float div_by_known(float a, float b) {
    float inverse = 1.0f / b, first = a * inverse;
    return fmaf(fmaf(first, b, -a), -inverse, first);
}""",
)
define(
    "sigmoid_f32",
    "1 / (1 + exp(-x)); 4 units off at most",
    """float sigmoid_f32(float x) {
    return reciprocal_approx(1.0f + expf(-x));
}""",
)
define(
    "sigmoid_f64",
    "1 / (1 + exp(-x))",
    """double sigmoid_f64(double x) {
    return 1.0 / (1.0 + exp(-x));
}""",
)
for _name, _sign in (("min", "<"), ("max", ">")):
    _word = {"min": "smaller", "max": "larger"}[_name]
    define(
        f"{_name}_f32",
        f"the {_word} of two; NaN if either is",
        f"""float {_name}_f32(float a, float b) {{
    float y;
    asm("{_name}.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}}""",
    )
    define(
        f"{_name}_f64",
        f"the {_word} of two; NaN if either is",
        f"""double {_name}_f64(double a, double b) {{
    return a {_sign} b || a != a ? a : b;
}}""",
    )
define_family(
    "floordiv",
    FLOATS,
    "a // b rounded down, by the exact remainder",
    """TYPE floordiv_SUFFIX(TYPE a, TYPE b) {
    TYPE plain = a / b;
    if (b == 0)
        return plain;
    TYPE rest = fmodENDING(a, b), quotient = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0))
        quotient -= 1;
    if (quotient == 0)
        return copysignENDING(0.0ENDING, plain);
    // an integer but for rounding: the nearest one
    TYPE below = floorENDING(quotient);
    return quotient - below > 0.5ENDING ? below + 1 : below;
}""",
)
define_family(
    "mod",
    FLOATS,
    "a % b with the sign of b, exact but for the rounding of its last addition",
    """TYPE mod_SUFFIX(TYPE a, TYPE b) {
    TYPE rest = fmodENDING(a, b);
    if (rest == 0)
        return copysignENDING(0.0ENDING, b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
}""",
)

# Sine and cosine: x = quarter * pi / 2 + r with |r| <= pi / 4. CUDA's own keep an array in memory for large x.

define(
    "two_over_pi",
    "32 bits of 2 / pi from bit 32 * (index - 1) behind the point on",
    """unsigned two_over_pi(int index) {
    return index == 0 ? 0u
        : index == 1 ? 0xa2f9836eu
        : index == 2 ? 0x4e441529u
        : index == 3 ? 0xfc2757d1u
        : index == 4 ? 0xf534ddc0u
        : index == 5 ? 0xdb629599u
        : index == 6 ? 0x3c439041u : 0xfe5163abu;
}""",
)
define(
    "reduce_large_angle",
    "x, of at least 2**15, less the nearest multiple of pi / 2; and how many of these, modulo 4, in the bits of y",
    """float2 reduce_large_angle(float x) {
    unsigned word = __float_as_uint(x);
    unsigned mantissa = (word & 0x7fffffu) | 0x800000u;
    // |x| is mantissa * 2**exponent. Bits of 2 / pi that count whole turns are left out, the next 96 are taken.
    int exponent = (int)(word >> 23 & 0xffu) - 150;
    int index = (exponent + 30) >> 5, shift = (exponent + 30) & 31;
    unsigned a = two_over_pi(index), b = two_over_pi(index + 1);
    unsigned c = two_over_pi(index + 2), d = two_over_pi(index + 3);
    unsigned high = __funnelshift_l(b, a, shift), middle = __funnelshift_l(c, b, shift);
    unsigned low = __funnelshift_l(d, c, shift);
    unsigned long long carried = ((unsigned long long)mantissa * low >> 32) + (unsigned long long)mantissa * middle;
    unsigned long long turns = ((unsigned long long)(mantissa * high) << 32) + carried;
    // two bits of quarters, then a fraction of a quarter
    int count = (int)(turns >> 62) + (int)(turns >> 61 & 1u);
    float r = (float)((double)(long long)(turns << 2) * 8.515303950216386e-20);
    float2 reduced;
    reduced.x = x < 0.0f ? -r : r;
    reduced.y = __uint_as_float((unsigned)(x < 0.0f ? -count : count));
    return reduced;
}""",
    rare=True,
)
define(
    "reduce_angle",
    "x less the nearest multiple of pi / 2, which is counted modulo 4; NaN if x is not finite",
    """float reduce_angle(float x, int *quarter) {
    if (fabsf(x) >= 32768.0f) {
        if (fabsf(x) < __uint_as_float(0x7f800000u)) {
            float2 reduced = reduce_large_angle(x);
            *quarter = (int)__float_as_uint(reduced.y);
            return reduced.x;
        }
        *quarter = 0;
        return x - x;
    }
    // Adding 1.5 * 2**23 rounds to an integer and leaves it in the low bits. pi / 2 is the sum of three floats.
    float shifted = fmaf(x, 0.63661975f, 12582912.0f), count = shifted - 12582912.0f;
    *quarter = (int)__float_as_uint(shifted);
    float r = fmaf(count, -1.5707963f, x);
    r = fmaf(count, -7.5497894e-08f, r);
    return fmaf(count, -5.390303e-15f, r);
}""",
)
define(
    "sine_of_quarters",
    "the sine of quarter * pi / 2 + r, by minimax polynomials",
    """float sine_of_quarters(int quarter, float r) {
    float z = r * r;
    float sine = fmaf(fmaf(fmaf(-0.00019514632f, z, 0.0083321556f), z, -0.16666655f), z * r, r);
    float cosine = fmaf(fmaf(2.4432413e-05f, z, -0.0013887309f), z, 0.041666646f);
    cosine = fmaf(cosine, z * z, fmaf(-0.5f, z, 1.0f));
    float y = quarter & 1 ? cosine : copysignf(sine, r);
    return quarter & 2 ? -y : y;
}""",
)
for _name, _quarter in (("sin", "quarter"), ("cos", "quarter + 1")):
    define(
        f"{_name}_f32",
        f"the {'sine' if _name == 'sin' else 'cosine'} of x in radians; 2 units off at most",
        f"""float {_name}_f32(float x) {{
    int quarter;
    float r = reduce_angle(x, &quarter);
    return sine_of_quarters({_quarter}, r);
}}""",
    )

# Planes of f32 products

define(
    "plane_1",
    "what bf16 keeps of x * 2**16",
    """float plane_1(float x) {
    return round_bf16(x * 65536.0f);
}""",
)
define(
    "plane_2",
    "what bf16 keeps of what plane_1 leaves out",
    """float plane_2(float x) {
    float whole = x * 65536.0f;
    return round_bf16(whole - round_bf16(whole));
}""",
)
define(
    "plane_3",
    "what both leave out, which bf16 has without an error",
    """float plane_3(float x) {
    float whole = x * 65536.0f, rest = whole - round_bf16(whole);
    return rest - round_bf16(rest);
}""",
)

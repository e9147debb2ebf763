"""Applies C expressions of `backend_cuda` to arrays: the text of a kernel for each, and the same text run on the host.

The host's compiler stands in for the GPU's: the few functions that are GPU instructions are replaced by C that means
the same. What the GPU itself makes of them is for the tests in `tests/gpu`.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tiledsl.backend_cuda.functions.casts import bits, from_bits
from tiledsl.backend_cuda.functions.preamble import Preamble
from tiledsl.backend_cuda.functions.scalars import c_type, memory_type
from tiledsl.ir.dtypes import DType, to_numpy

Array: TypeAlias = npt.NDArray[Any]
Emit: TypeAlias = Callable[[list[str], Preamble], str]
"""Gives the C expression of some operands."""


@dataclass(frozen=True)
class Case:
    """An expression over operands of given dtypes, applied elementwise by a C function `name`."""

    name: str
    inputs: tuple[DType, ...]
    result: DType
    emit: Emit


def _element(place: str, dtype: DType, preamble: Preamble) -> str:
    return from_bits(place, dtype, preamble) if dtype.bits < 32 else place


def body(case: Case, preamble: Preamble) -> str:
    """C statements that read element `i` of in0, in1, ..., and write that of out."""
    lines: list[str] = []
    for number, dtype in enumerate(case.inputs):
        place = f"((const {memory_type(dtype)} *)in{number})[i]"
        lines.append(f"    {c_type(dtype)} x{number} = {_element(place, dtype, preamble)};")
    result = case.result
    lines.append(f"    {c_type(result)} y = {case.emit([f'x{n}' for n in range(len(case.inputs))], preamble)};")
    stored = bits("y", result, preamble) if result.bits < 32 else "y"
    lines.append(f"    (({memory_type(result)} *)out)[i] = ({memory_type(result)})({stored});")
    return "\n".join(lines)


_PARAMETERS = "long long size, const void *in0, const void *in1, const void *in2, void *out"


def device_program(cases: Sequence[Case], preamble: Preamble) -> str:
    """CUDA C with a kernel for each case, an element per thread."""
    kernels = [
        f'extern "C" __global__ void {case.name}({_PARAMETERS})\n{{\n'
        "    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"    if (i >= size) return;\n{body(case, preamble)}\n}}\n"
        for case in cases
    ]
    return "\n".join([preamble.text(), *kernels])


def host_program(cases: Sequence[Case], preamble: Preamble) -> str:
    """C with a function for each case, which goes through all elements."""
    functions = [
        f"void {case.name}({_PARAMETERS})\n{{\n"
        f"    for (long long i = 0; i < size; ++i) {{\n{body(case, preamble)}\n    }}\n}}\n"
        for case in cases
    ]
    texts = [
        f"static inline {INSTRUCTIONS[function.name] if 'asm' in function.text else function.text}\n"
        for function in preamble.functions()
    ]
    return "\n".join([_HOST, *texts, *functions])


@dataclass(frozen=True)
class HostLibrary:
    """Cases compiled for the host."""

    cases: Mapping[str, Case]
    library: ctypes.CDLL

    def apply(self, name: str, *arrays: Array) -> Array:
        """The case of that name on arrays of one length and of its dtypes."""
        case = self.cases[name]
        contiguous = [np.ascontiguousarray(array) for array in arrays]
        assert [array.dtype for array in contiguous] == [to_numpy(dtype) for dtype in case.inputs]
        out = np.zeros(len(arrays[0]), to_numpy(case.result))
        addresses = [array.ctypes.data for array in contiguous] + [0] * (3 - len(arrays))
        self.library[name](ctypes.c_int64(len(out)), *map(ctypes.c_void_p, [*addresses, out.ctypes.data]))
        return out


def compile_for_host(cases: Sequence[Case], preamble: Preamble, folder: Path) -> HostLibrary:
    """Compiles the cases by the host's C compiler, which traps where the meaning of the C is undefined."""
    source, library = folder / "cases.c", folder / "cases.so"
    source.write_text(host_program(cases, preamble), encoding="utf-8")
    checks = "signed-integer-overflow,shift,integer-divide-by-zero,float-cast-overflow"
    options = ["-x", "c", "-std=gnu11", "-O1", "-w", "-shared", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing"]
    options += [f"-fsanitize={checks}", "-fsanitize-undefined-trap-on-error"]
    compiler = host_compiler()
    assert compiler is not None
    subprocess.run([compiler, *options, "-o", str(library), str(source), "-lm"], check=True)
    return HostLibrary({case.name: case for case in cases}, ctypes.CDLL(str(library)))


def host_compiler() -> str | None:
    """A C compiler that knows `_Float16`, if there is one."""
    return shutil.which("gcc") or shutil.which("clang")


INSTRUCTIONS = {
    "bits_f16": """unsigned bits_f16(float x) {
    _Float16 half = (_Float16)x;
    unsigned short bits;
    memcpy(&bits, &half, 2);
    return bits;
}""",
    "among_digits": """float among_digits(unsigned word, unsigned mask) {
    return __uint_as_float((word & mask) | 0x4B000000u);
}""",
    "halves_add": """unsigned halves_add(unsigned a, unsigned b) {
    _Float16 x[2], y[2];
    memcpy(x, &a, 4), memcpy(y, &b, 4);
    for (int i = 0; i < 2; ++i) x[i] = (_Float16)((float)x[i] + (float)y[i]);
    memcpy(&a, x, 4);
    return a;
}""",
    "halves_sub": """unsigned halves_sub(unsigned a, unsigned b) {
    _Float16 x[2], y[2];
    memcpy(x, &a, 4), memcpy(y, &b, 4);
    for (int i = 0; i < 2; ++i) x[i] = (_Float16)((float)x[i] - (float)y[i]);
    memcpy(&a, x, 4);
    return a;
}""",
    "halves_mul": """unsigned halves_mul(unsigned a, unsigned b) {
    _Float16 x[2], y[2];
    memcpy(x, &a, 4), memcpy(y, &b, 4);
    for (int i = 0; i < 2; ++i) x[i] = (_Float16)((float)x[i] * (float)y[i]);
    memcpy(&a, x, 4);
    return a;
}""",
    "halves_fma": """unsigned halves_fma(unsigned a, unsigned b, unsigned c) {
    _Float16 x[2], y[2], z[2];
    memcpy(x, &a, 4), memcpy(y, &b, 4), memcpy(z, &c, 4);
    for (int i = 0; i < 2; ++i) x[i] = (_Float16)((double)x[i] * (double)y[i] + (double)z[i]);
    memcpy(&a, x, 4);
    return a;
}""",
    "among_halves": """unsigned among_halves(unsigned word, unsigned mask, unsigned flipped) {
    return (word & mask) ^ flipped;
}""",
    "low_f16": """float low_f16(unsigned word) {
    _Float16 half;
    memcpy(&half, &word, 2);
    return (float)half;
}""",
    "pack_f16": "unsigned pack_f16(float low, float high) { return bits_f16(low) | bits_f16(high) << 16; }",
    "pack_bf16": """unsigned pack_bf16(float low, float high) {
    unsigned a = __float_as_uint(low), b = __float_as_uint(high);
    a = low != low ? 0x7fffu : (a + 0x7fffu + (a >> 16 & 1u)) >> 16;
    b = high != high ? 0x7fffu : (b + 0x7fffu + (b >> 16 & 1u)) >> 16;
    return a | b << 16;
}""",
    "saturated_pair_f8e4m3": """unsigned saturated_pair_f8e4m3(float low, float high) {
    return saturated_f8(low, 3, -6, 0x7eu, 0x7fu) | saturated_f8(high, 3, -6, 0x7eu, 0x7fu) << 8;
}""",
    "saturated_pair_f8e5m2": """unsigned saturated_pair_f8e5m2(float low, float high) {
    return saturated_f8(low, 2, -14, 0x7bu, 0x7fu) | saturated_f8(high, 2, -14, 0x7bu, 0x7fu) << 8;
}""",
    "pair_f8e4m3": "unsigned pair_f8e4m3(unsigned word) { return f16_of_e4m3(word) | f16_of_e4m3(word >> 8) << 16; }",
    "exp2_approx": "float exp2_approx(float x) { return exp2f(x); }",
    # as far off as the instruction may be
    "log2_approx": "float log2_approx(float x) { return log2f(x) * (1.0f + 2.3841858e-7f) + 2.3841858e-7f; }",
    "tanh_approx": "float tanh_approx(float x) { return tanhf(x); }",
    "reciprocal_approx": "float reciprocal_approx(float x) { return 1.0f / x; }",
    "rsqrt_approx": "float rsqrt_approx(float x) { return (float)(1.0 / sqrt((double)x)); }",
    "sqrt_approx": "float sqrt_approx(float x) { return sqrtf(x); }",
    "min_f32": "float min_f32(float a, float b) { return a < b || a != a ? a : b; }",
    "atomic_add_f16": """float atomic_add_f16(void *address, float value) {
    unsigned short *place = (unsigned short *)address, before = *place;
    *place = (unsigned short)bits_f16(low_f16(before) + value);
    return low_f16(before);
}""",
    "atomic_add_bf16": """float atomic_add_bf16(void *address, float value) {
    unsigned short *place = (unsigned short *)address, before = *place;
    *place = (unsigned short)bits_bf16(low_bf16(before) + value);
    return low_bf16(before);
}""",
    "max_f32": "float max_f32(float a, float b) { return a > b || a != a ? a : b; }",
}
"""What the functions that hold inline PTX mean."""

_HOST = """\
static const struct { unsigned x, y, z; } blockIdx = {0, 0, 0};
#include <math.h>
#include <stdbool.h>
#include <string.h>

typedef struct { unsigned x, y, z, w; } uint4;
typedef struct { float x, y; } float2;

#define BITS_AS(name, target, source) \\
    static inline target name(source x) { target y; memcpy(&y, &x, sizeof y); return y; }
BITS_AS(__float_as_uint, unsigned, float)
BITS_AS(__uint_as_float, float, unsigned)
BITS_AS(__double_as_longlong, long long, double)
BITS_AS(__longlong_as_double, double, long long)

#define EXTREMUM(a, sign, b) ({ __auto_type a_ = (a); __auto_type b_ = (b); a_ sign b_ ? a_ : b_; })
#define min(a, b) EXTREMUM(a, <, b)
#define max(a, b) EXTREMUM(a, >, b)

/* cut off towards zero, saturating; of NaN the least integer, as in the widths where that is so */
#define CUT_OFF(name, target, source, low, high) \\
    static inline target name(source x) { return x != x ? low : x <= low ? low : x >= high ? high : (target)x; }
#define CUT_OFF_FROM(source, prefix) \\
    CUT_OFF(prefix##2ll_rz, long long, source, (-0x7fffffffffffffffll - 1), 0x7fffffffffffffffll) \\
    CUT_OFF(prefix##2uint_rz, unsigned, source, 0u, 0xffffffffu) \\
    CUT_OFF(prefix##2ull_rz, unsigned long long, source, 0ull, 0xffffffffffffffffull)
CUT_OFF_FROM(float, __float)
CUT_OFF_FROM(double, __double)
CUT_OFF(__double2int_rz, int, double, (-0x7fffffff - 1), 0x7fffffff)
static inline int __float2int_rz(float x) { return x != x ? 0 : __double2int_rz(x); }
static inline float __double2float_rz(double x) {
    float y = (float)x;
    return fabs((double)y) > fabs(x) ? nextafterf(y, 0.0f) : y;
}

static inline unsigned saturated_f8(float x, int mantissa, int least, unsigned largest, unsigned nan) {
    if (x != x) return nan;
    unsigned sign = signbit(x) ? 0x80u : 0u;
    if (x == 0.0f || isinf(x)) return sign | (x == 0.0f ? 0u : largest);
    int exponent;
    frexpf(fabsf(x), &exponent);
    exponent = max(exponent - 1, least);
    float units = rintf(ldexpf(fabsf(x), mantissa - exponent));
    return sign | min((unsigned)((exponent - least) << mantissa) + (unsigned)units, largest);
}
static inline unsigned f16_of_e4m3(unsigned byte) {
    unsigned exponent = byte >> 3 & 15u, sign = (byte & 0x80u) << 8;
    if ((byte & 0x7fu) == 0x7fu) return sign | 0x7e00u;
    float size = exponent ? ldexpf((float)(byte & 7u) + 8.0f, (int)exponent - 10) : ldexpf((float)(byte & 7u), -9);
    _Float16 half = (_Float16)size;
    unsigned short bits;
    memcpy(&bits, &half, 2);
    return sign | bits;
}

static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)((((unsigned long long)high << 32 | low) << (shift & 31)) >> 32);
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    unsigned long long both = (unsigned long long)b << 32 | a;
    unsigned word = 0;
    for (int byte = 0; byte < 4; ++byte)
        word |= (unsigned)(both >> 8 * (selector >> 4 * byte & 7) & 0xff) << 8 * byte;
    return word;
}
static inline float __fdividef(float a, float b) { return a / b; }
#define __logf logf
#define __log2f log2f
static inline float rsqrtf(float x) { return (float)(1.0 / sqrt((double)x)); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }

#define atomicCAS(place, expected, wanted) __sync_val_compare_and_swap(place, expected, wanted)
#define ADD(name, type) \\
    static inline type name(type *place, type value) { type before = *place; *place += value; return before; }
ADD(add_float, float)
ADD(add_double, double)
ADD(add_unsigned, unsigned)
ADD(add_long, unsigned long long)
static inline int add_int(int *place, int value) { return __sync_fetch_and_add(place, value); }
#define atomicAdd(place, value) _Generic((place), float *: add_float, double *: add_double, int *: add_int, \\
    unsigned *: add_unsigned, unsigned long long *: add_long)(place, value)
#define atomicMax(place, value) ({ __auto_type place_ = place; __typeof__(*place_) before_ = *place_; \\
    *place_ = max(*place_, (value)); before_; })
#define atomicMin(place, value) ({ __auto_type place_ = place; __typeof__(*place_) before_ = *place_; \\
    *place_ = min(*place_, (value)); before_; })
#define atomicAnd(place, value) __sync_fetch_and_and(place, value)
#define atomicOr(place, value) __sync_fetch_and_or(place, value)
#define atomicXor(place, value) __sync_fetch_and_xor(place, value)
#define atomicExch(place, value) ({ __auto_type place_ = place; __typeof__(*place_) before_ = *place_; \\
    *place_ = (value); before_; })
"""

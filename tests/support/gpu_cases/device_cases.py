"""Every expression that `backend_cuda` can write for scalars, as cases that a host or a GPU applies to arrays."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.support.gpu_cases.scalar_operands import DTYPES, Array, ulps_apart
from tests.support.gpu_code.device_functions import Case
from tiledsl.backend_cuda.functions import halves
from tiledsl.backend_cuda.functions.atomics import atomic
from tiledsl.backend_cuda.functions.casts import cast, pack, per_word, unpack
from tiledsl.backend_cuda.functions.preamble import Preamble
from tiledsl.backend_cuda.functions.random_bits import random
from tiledsl.backend_cuda.functions.scalar_math import scalar_function
from tiledsl.backend_cuda.functions.scalars import memory_type
from tiledsl.backend_ref.scalar_functions import cast as reference_cast
from tiledsl.ir.dtypes import DType, bool_, f32, f64, i8, i64, u8, u32
from tiledsl.ir.scalar_functions import ATOMICS, SCALAR_FUNCTIONS

DEFINED_BY = (halves,)
"""The modules whose device functions are called by name."""
F32_ULPS = {
    "exp": 2.0, "exp2": 2.0, "log": 1.5, "log2": 1.5, "sin": 2.0, "cos": 2.0, "rsqrt": 2.5, "pow": 4.5,
    "tanh": 2.5, "sigmoid": 4.0, "sigmoid2": 4.0, "erf": 2.5, "div": 0.5, "sqrt": 0.5,
}  # fmt: skip
"""How far f32 results may be from the true ones, in units of the last place; all other functions are exact."""
F64_ULPS = dict.fromkeys(F32_ULPS, 2.5) | {"sigmoid": 4.0, "div": 0.5, "sqrt": 0.5}
"""Those of f64; the reference's own functions are up to one unit off."""
SHORT_ULPS = 1.0
"""Those of f16 and bf16, rounded."""
LEAST_NORMAL = {"f64": 2.0**-1022}
"""Results below may be 0 instead; 2**-126 for all other floats, which are computed in f32."""


def scalar_cases(dtype: DType) -> list[Case]:
    """A case `<fn>_of_<dtype>` for each scalar function that takes the dtype."""

    def case(fn: str) -> Case:
        row = SCALAR_FUNCTIONS[fn]
        inputs = (bool_, dtype, dtype) if fn == "where" else (dtype,) * row.arity
        result = row.result(dtype)
        return Case(f"{fn}_of_{dtype}", inputs, result, lambda o, p: scalar_function(fn, dtype, o, p))

    return [case(fn) for fn, row in SCALAR_FUNCTIONS.items() if row.accepts(dtype)]


def cast_cases(source: DType) -> list[Case]:
    """A case `cast_<source>_<target>` for each target."""

    def case(target: DType) -> Case:
        return Case(f"cast_{source}_{target}", (source,), target, lambda o, p: cast(o[0], source, target, p))

    return [case(target) for target in DTYPES]


def packed_cases(dtype: DType) -> Iterator[Case]:
    """`pack_<dtype>_case`: words of the first operand, the second, and the first again; `unpack_...`: an element."""
    count = per_word(dtype)
    held = f32 if dtype.is_float else dtype

    def packed(operands: list[str]) -> list[str]:
        return [operands[0], *[operands[1]] * (count - 2), operands[0]]

    yield Case(f"pack_{dtype}_case", (held, held), u32, lambda o, p: pack(packed(o), dtype, p))

    def element(position: int) -> Case:
        name = f"unpack_{dtype}_{position}"
        return Case(name, (u32,), dtype, lambda o, p: unpack(o[0], position, dtype, p))

    yield from (element(position) for position in range(count))
    yield Case(f"unpack_{dtype}_any", (u32, i64), dtype, lambda o, p: unpack(o[0], o[1], dtype, p))
    if dtype in (i8, u8):
        name = f"float_of_byte_{dtype}"
        yield Case(f"{name}_case", (u32, i64), f32, lambda o, p: f"{p.use(name)}({o[0]}, (unsigned){o[1]})")
        half = f"float_of_nibble_{dtype}"
        yield Case(f"{half}_case", (u32, i64), f32, lambda o, p: f"{p.use(half)}({o[0]}, (unsigned){o[1]})")


def halves_cases() -> list[Case]:
    """`halves_<fn>_case`: of two pairs of f16; `halves_of_nibbles_<dtype>_case` and others: of element `at % 8` of one
    word and element `at / 8` of another."""

    def binary(fn: str) -> Case:
        return Case(f"halves_{fn}_case", (u32, u32), u32, lambda o, p: f"{p.use(f'halves_{fn}')}({o[0]}, {o[1]})")

    def taken(function: str) -> Case:
        def emit(operands: list[str], preamble: Preamble) -> str:
            low, high, at = operands
            return f"{preamble.use(function)}({low}, {high}, (unsigned){at} % 8u, (unsigned){at} / 8u)"

        return Case(f"{function}_case", (u32, u32, i64), u32, emit)

    of_integers = [f"halves_of_{kind}_{dtype}" for kind in ("nibbles", "bytes") for dtype in (i8, u8)]
    return [*map(binary, ("add", "sub", "mul")), *map(taken, (*of_integers, "pick_halves"))]


def atomic_cases(dtype: DType) -> list[Case]:
    """`atomic_<fn>_<dtype>`: combines in0[i] into in1[i] and gives what was there."""

    def case(fn: str) -> Case:
        address = f"({memory_type(dtype)} *)in1 + i"
        name = f"case_atomic_{fn}_{dtype}"
        return Case(name, (dtype, dtype), dtype, lambda o, p: atomic(fn, dtype, address, o[0], p))

    return [case(fn) for fn in ATOMICS if takes(fn, dtype)]


def takes(fn: str, dtype: DType) -> bool:
    """Whether there are atomics with `fn` of a dtype."""
    if fn in ("and", "or", "xor"):
        return not dtype.is_float
    return fn != "add" or dtype != bool_


def random_cases() -> list[Case]:
    """`random_<fn>_case`, of i64 seeds and offsets."""

    def case(fn: str) -> Case:
        result = u32 if fn == "bits" else f32
        return Case(f"case_random_{fn}", (i64, i64), result, lambda o, p: random(fn, o[0], o[1], p))

    return [case(fn) for fn in ("bits", "uniform", "normal")]


def every_case() -> list[Case]:
    """All of them."""
    cases = [*random_cases(), *halves_cases()]
    for dtype in DTYPES:
        cases += [*scalar_cases(dtype), *cast_cases(dtype), *atomic_cases(dtype)]
        if dtype.bits < 32:
            cases += packed_cases(dtype)
    return cases


def errors(fn: str, dtype: DType, got: Array, want: Array) -> Array:
    """How far results are from those wanted (as f64 for floats), in units of the last place; else 0 or inf.

    Of functions that are approximated, results below LEAST_NORMAL are right wherever they are below it.
    """
    if not SCALAR_FUNCTIONS[fn].result(dtype).is_float:
        return np.where(got != want, np.inf, 0.0)
    apart = ulps_apart(got, want, dtype)
    if fn in F32_ULPS and fn not in ("div", "sqrt"):
        least = LEAST_NORMAL.get(dtype.name, 2.0**-126)
        small = np.abs(reference_cast(want, f64)) < least
        return np.where(small & (np.abs(reference_cast(got, f64)) < least), 0.0, apart)
    return apart


def bound(fn: str, dtype: DType) -> float:
    """How far the results of a function may be from the true ones; 0.5 is what rounding alone makes."""
    if fn not in F32_ULPS or dtype.bits == 8:
        return 0.5
    if dtype.bits == 16:
        return SHORT_ULPS
    return F64_ULPS[fn] if dtype == f64 else F32_ULPS[fn]

"""Operands that try a scalar function or a conversion at its corners, and how far a result is from the true one."""

from __future__ import annotations

import zlib
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tiledsl.backend_ref.scalar_functions import cast
from tiledsl.ir.dtypes import ALL, BY_NAME, DType, bool_, f64, i4, to_numpy, u4
from tiledsl.ir.scalar_functions import SCALAR_FUNCTIONS

Array: TypeAlias = npt.NDArray[Any]

DTYPES = [dtype for dtype in ALL if dtype not in (i4, u4)]
"""The dtypes that arrays have."""

RANGES: dict[str, tuple[float, float]] = {
    "exp": (-105, 90), "exp2": (-152, 130), "log": (0.3, 3), "log2": (0.3, 3), "tanh": (-10, 10), "sigmoid": (-87, 90),
    "erf": (-4.5, 4.5), "sin": (-100, 100), "cos": (-100, 100), "rsqrt": (0.1, 10),
}  # fmt: skip
"""Where each function of one operand is neither flat nor infinite, in f32."""


def in_range(name: str) -> Array:
    """f32 operands for a function of one operand: where it is lively, and 30,000 bit patterns."""
    random = np.random.default_rng(5)
    patterns = np.frombuffer(random.bytes(4 * 30_000), np.float32)
    inside = random.uniform(*RANGES[name], 60_000)
    return np.concatenate([inside.astype(np.float32), (inside * 1e-4).astype(np.float32), patterns])


MANTISSA_AND_LEAST_EXPONENT = {
    "f64": (52, -1022), "f32": (23, -126), "f16": (10, -14), "bf16": (7, -126), "f8e4m3": (3, -6), "f8e5m2": (2, -14),
}  # fmt: skip


def ulps_apart(got: Array, want: Array, dtype: DType) -> Array:
    """|got - want| in units of the last place of `want` as `dtype`; inf where only one is NaN or infinite."""
    mantissa, least = MANTISSA_AND_LEAST_EXPONENT[dtype.name]
    rounded, got = cast(cast(want, dtype), f64), cast(got, f64)
    with np.errstate(all="ignore"):
        unit = 2.0 ** (np.maximum(np.frexp(rounded)[1] - 1, least) - mantissa)
        distance = np.abs(got - want) / unit
        both_finite = np.isfinite(got - rounded)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return np.where(same, np.minimum(np.nan_to_num(distance), 0.5), np.where(both_finite, distance, np.inf))


def operands_of(name: str, dtype: DType) -> list[Array]:
    """All combinations of the awkward values of a dtype, then random ones."""
    random = np.random.default_rng(zlib.crc32(f"{name} {dtype}".encode()))
    arity = SCALAR_FUNCTIONS[name].arity
    if dtype.is_float:
        special = cast(np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-3, 100.0, np.inf, -np.inf, np.nan]), dtype)
        some = cast(random.normal(0, 4, (arity, 150)), dtype)
    elif dtype == bool_:
        special, some = np.array([False, True]), random.integers(0, 2, (arity, 20)) == 1
    else:
        highest = (1 << dtype.bits - dtype.is_signed) - 1
        awkward = [0, 1, 2, 3, 7, dtype.bits - 1, dtype.bits, highest - 1, highest]
        if dtype.is_signed:
            awkward += [-1, -2, -3, -7, -highest, -highest - 1]
        special = np.array(awkward, np.int64 if dtype.is_signed else np.uint64).astype(to_numpy(dtype))
        some = cast(random.integers(-20, 20, (arity, 150)), dtype)
    if arity == 3:
        special = special[:7]
    combined: list[Array] = [axis.ravel() for axis in np.meshgrid(*[special] * arity)]
    result: list[Array] = [np.concatenate([first, second]) for first, second in zip(combined, some)]
    if name == "where":
        result[0] = cast(result[0], bool_)
    return result


def reinterpreted(array: Array, dtype: DType) -> Array:
    """The same bytes as another type."""
    return np.frombuffer(array.tobytes(), to_numpy(dtype))


def bits(array: Array) -> Array:
    return reinterpreted(array, BY_NAME[f"u{array.itemsize * 8}"])


def assert_same(got: Array, want: Array) -> None:
    """Equal bits, but for NaN, of which any will do."""
    assert got.dtype == want.dtype
    different = bits(got) != bits(want)
    if got.dtype.kind not in "iub":
        different &= ~(np.isnan(cast(got, f64)) & np.isnan(cast(want, f64)))
    assert not different.any(), f"{got[different][:5]} instead of {want[different][:5]}"


def every_value(dtype: DType) -> Array:
    """All values of a type of at most 16 bits."""
    if dtype == bool_:
        return np.array([False, True])
    return reinterpreted(cast(np.arange(1 << dtype.bits), BY_NAME[f"u{dtype.bits}"]), dtype)


def samples(dtype: DType) -> Array:
    """Values of any dtype: all of them where there are few, else numbers of all sizes (floats: below 120)."""
    if dtype.bits <= 16:
        return every_value(dtype)
    if dtype.is_float:
        small = np.random.default_rng(1).uniform(0, 120, 1000)
        return np.concatenate([np.array([0.0, -0.0, 1.0, 0.5]), small]).astype(to_numpy(dtype))
    some = reinterpreted(np.random.default_rng(1).integers(0, 256, 1000 * dtype.bytes, dtype=np.uint8), dtype)
    edges = np.array([0, 1, 2**24 + 1, 2 ** (dtype.bits - 1) - 1], np.uint64).astype(to_numpy(dtype))
    return np.concatenate([edges, ~edges, some])

"""Discrete Fourier transforms by products with matrices of sines and cosines; complex numbers are pairs of tensors.

A length of up to 64, or a prime one, is one product of that many rows and columns; others are cut into two factors,
with a multiplication between their transforms. So it is meant for lengths that are short or have small factors: 4096 =
64 * 64 costs 128 complex multiplications for each element. In f32 for narrow floats.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tiledsl import tile
from tiledsl.ops.checks import as_tensor, axis_of, float_dtype, refuse_option, refuse_shapes, widened

MOST_AT_ONCE = 64
"""Lengths up to here are one product."""


@tile.kernel
def fft(real: Any, imag: Any = None, axis: int = -1, *, n: Any = None, inverse: bool = False) -> Any:
    """(real, imaginary part) of X[k] = sum over j of x[j] * exp(-2 pi i j k / n) along an axis.

    `imag` has the shape of `real`, or is None for real numbers. `n`: only the first n elements, or zeros behind them.
    `inverse`: exp(+...), divided by n. The length is known. Raises TileShapeError if shapes differ.
    """
    name = "ops.fft"
    real = as_tensor(real)
    re, im, order, length = _rows(name, real, imag, axis, n)
    re, im = _transform(re, im, length, 1.0 if inverse else -1.0)
    return tuple(_back(part * (1.0 / length) if inverse else part, order, real) for part in (re, im))


@tile.kernel
def rfft(x: Any, axis: int = -1, *, n: Any = None) -> Any:
    """(real, imaginary part) of the first n // 2 + 1 elements of `fft` of real numbers: the others mirror them."""
    x = as_tensor(x)
    re, im, order, length = _rows("ops.rfft", x, None, axis, n)
    re, im = _transform(re, im, length, -1.0, length // 2 + 1)
    return tuple(_back(part, order, x) for part in (re, im))


@tile.kernel
def irfft(real: Any, imag: Any = None, axis: int = -1, *, n: Any = None) -> Any:
    """The `n` real numbers (default 2 * (size - 1)) whose `rfft` these are; `imag` is None for real numbers."""
    name = "ops.irfft"
    real = as_tensor(real)
    at = axis_of(name, real, axis)
    length = 2 * (real.shape[at] - 1) if n is None else n
    if not isinstance(length, int) or length < 1:
        refuse_option(name, "n", n, "a length of at least 1", "say how many numbers there were")
    half = length // 2 + 1
    re, im, order, _ = _rows(name, real, imag, axis, half)
    if _first_factor(length) == 1:  # an element and that which mirrors it give the same
        twice = np.where(np.arange(half) * 2 % length == 0, 1.0, 2.0)[:, None] / length
        c, s = _turned(np.outer(np.arange(half), np.arange(length)) % length / length, 1.0, re.dtype, twice)
        return _back(re @ c if im is None else re @ c - im @ s, order, real)
    place = np.arange(length)
    mirrored = 2 * place > length
    index = np.where(mirrored, length - place, place)
    re = tile.take(re, index, axis=-1)
    if im is not None:
        im = tile.take(im, index, axis=-1) * np.where(mirrored, -1.0, 1.0).astype(_kind(re.dtype))
    return _back(_transform(re, im, length, 1.0)[0] * (1.0 / length), order, real)


def _rows(name: str, real: Any, imag: Any, axis: Any, n: Any) -> tuple[Any, Any, tuple[int, ...], int]:
    """Both parts with the axis last and of length n, the order of axes that this takes, and n. Without an imaginary
    part that is None."""
    at = axis_of(name, real, axis)
    size = real.shape[at]
    length = size if n is None else n
    if not isinstance(length, int) or length < 1 or not isinstance(size, int):
        refuse_option(name, "n", n, "a length of at least 1, of an axis whose size is known", "give it as a number")
    if imag is not None:
        imag = as_tensor(imag)
        if imag.shape != real.shape:
            refuse_shapes(name, imag, real, "they are parts of the same numbers", "give both one shape")
    order = (*(i for i in range(real.ndim) if i != at), at)
    parts: list[Any] = []
    for part in (real, imag):
        if part is None:
            parts.append(None)
            continue
        row = widened(part).transpose(order)
        if length < size:
            row = row[..., :length]
        elif length > size:
            row = tile.pad(row, ((0, 0),) * (row.ndim - 1) + ((0, length - size),))
        parts.append(row)
    return parts[0], parts[1], order, length


def _back(y: Any, order: tuple[int, ...], like: Any) -> Any:
    return y.transpose(tuple(order.index(i) for i in range(len(order)))).to(float_dtype(like))


def _transform(re: Any, im: Any, length: int, sign: float, count: int | None = None) -> tuple[Any, Any]:
    """The transform of the last axis, or its first `count` elements. `im` may be None.

    With j = i * b + l and k = p + a * q: X[k] = sum over l of exp(l * p / n) * exp(l * q / b) * (sum over i of x[j] *
    exp(i * p / a)), where exp(t) is a turn by t.
    """
    count = length if count is None else count
    first = _first_factor(length)
    if first == 1:
        return _product(re, im, length, sign, re.dtype, count)
    second = length // first
    lead = re.shape[:-1]
    parts = [None if part is None else part.reshape((*lead, first, second)).mT for part in (re, im)]
    re, im = _product(parts[0], parts[1], first, sign, re.dtype, first)  # [..., l, p]
    turns = np.outer(np.arange(second), np.arange(first)) / length
    c, s = _turned(turns, sign, re.dtype)
    re, im = (re * c - im * s).mT, (re * s + im * c).mT  # [..., p, l]
    rows = -(-count // first)
    both = [part.mT.reshape((*lead, first * rows)) for part in _transform(re, im, second, sign, rows)]
    return (both[0], both[1]) if first * rows == count else (both[0][..., :count], both[1][..., :count])


def _product(re: Any, im: Any, length: int, sign: float, dtype: Any, count: int) -> tuple[Any, Any]:
    """The first `count` elements of the transform of the last axis as a product."""
    c, s = _turned(np.outer(np.arange(length), np.arange(count)) % length / length, sign, dtype)
    both = re @ np.concatenate([c, s], axis=1)
    if im is not None:
        both = both + im @ np.concatenate([-s, c], axis=1)
    return both[..., :count], both[..., count:]


def _turned(turns: Any, sign: float, dtype: Any, scale: Any = 1.0) -> tuple[Any, Any]:
    """Cosines and sines of so many turns, times a number."""
    kind = _kind(dtype)
    return (scale * np.cos(2 * math.pi * turns)).astype(kind), (scale * np.sin(sign * 2 * math.pi * turns)).astype(kind)


def _kind(dtype: Any) -> Any:
    return np.float64 if dtype == tile.f64 else np.float32


def _first_factor(length: int) -> int:
    """The largest factor up to the root; 1 for what is one product."""
    if length <= MOST_AT_ONCE:
        return 1
    return next(n for n in range(math.isqrt(length), 0, -1) if length % n == 0)

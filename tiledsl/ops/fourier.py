"""Discrete Fourier transforms; complex numbers are pairs of tensors. In f32 for narrow floats.

On GPUs, lengths of 65 to 4096 that are products of two numbers of up to 64, whose prime factors are at most 7, are one
kernel: a thread transforms the elements that it has loaded, threads exchange what they have by shared memory, and each
does so again. With j = i * b + l and k = p + a * q: X[k] = sum over l of turn(l * p / n) * turn(l * q / b) * (sum over
i of x[j] * turn(i * p / a)), where turn(t) is exp(+-2 pi i t).

Elsewhere a length of up to 64, or a prime one, is a product with a matrix of sines and cosines; others are cut into two
factors, with a multiplication between their transforms: 4096 = 64 * 64 costs 128 complex multiplications for each
element.
"""

# ruff: noqa: RUF005 - in tile form tuples grow by `+`

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tiledsl import tile
from tiledsl.frontend.trace.trace_serial import record_serial
from tiledsl.ops.checks import active, as_tensor, axis_of, float_dtype, refuse_option, refuse_shapes, widened

MOST_AT_ONCE = 64
"""Lengths up to here are one product, and one thread transforms so many elements."""
STEPS = (4, 2, 3, 5, 7)
"""Elements that are added up at a time, in the order in which they are tried."""


@tile.kernel
def fft(real: Any, imag: Any = None, axis: int = -1, *, n: Any = None, inverse: bool = False) -> Any:
    """(real, imaginary part) of X[k] = sum over j of x[j] * exp(-2 pi i j k / n) along an axis.

    `imag` has the shape of `real`, or is None for real numbers. `n`: only the first n elements, or zeros behind them.
    `inverse`: exp(+...), divided by n. The length is known. Raises TileShapeError if shapes differ.
    """
    name = "ops.fft"
    real = as_tensor(real)
    re, im, order, length = _rows(name, real, imag, axis, n)
    parts = _transform(re, im, length, 1.0 if inverse else -1.0)
    parts = tuple(part * (1.0 / length) for part in parts) if inverse else parts
    parts = _in_one_kernel(parts, re, im, length, 1.0 if inverse else -1.0)
    return tuple(_back(part, order, real) for part in parts)


@tile.kernel
def rfft(x: Any, axis: int = -1, *, n: Any = None) -> Any:
    """(real, imaginary part) of the first n // 2 + 1 elements of `fft` of real numbers: the others mirror them."""
    x = as_tensor(x)
    re, im, order, length = _rows("ops.rfft", x, None, axis, n)
    parts = _in_one_kernel(_transform(re, im, length, -1.0, length // 2 + 1), re, im, length, -1.0)
    return tuple(_back(part, order, x) for part in parts)


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
    halves = re, im
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
    whole = _transform(re, im, length, 1.0)[0] * (1.0 / length)
    return _back(_in_one_kernel((whole,), *halves, length, 1.0)[0], order, real)


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


# In one kernel


def _in_one_kernel(parts: tuple[Any, ...], re: Any, im: Any, length: int, sign: float) -> tuple[Any, ...]:
    """What a transform has come to; on GPUs, what the kernel gives that makes the same of its rows."""
    first = _first_of_two(length)
    mirrored = len(parts) == 1
    if first == 0 or re.dtype != tile.f32 or (mirrored and (im is None or first % 2)):
        return parts
    second = length // first
    turns = np.outer(np.arange(first), np.arange(second)) / length
    tables = *_turned(turns, sign, re.dtype), _steps(first, sign), _steps(second, sign)
    rows = [part.reshape((math.prod(part.shape[:-1]), part.shape[-1])) for part in (re, im) if part is not None]
    flat = tuple(part.reshape((math.prod(part.shape[:-1]), part.shape[-1])) for part in parts)
    count, scale = parts[0].shape[-1], 1.0 / length if sign > 0 else 1.0
    if mirrored:
        made = (_real_rows(*rows, *tables, scale),)
    elif im is None:
        made = _rows_of_real(*rows, *tables, count)
    else:
        made = _rows_of_complex(*rows, *tables, scale)
    found = record_serial(active(), flat, made, on_gpus=True)
    return tuple(one.reshape(part.shape) for one, part in zip(found, parts))


def _first_of_two(length: int) -> int:
    """The first of two factors of which one thread transforms so many elements, an even one if there is one; 0 if there
    are none."""
    if length <= MOST_AT_ONCE:
        return 0
    factors = [n for n in range(2, MOST_AT_ONCE + 1) if length % n == 0 and length // n <= MOST_AT_ONCE]
    factors = [n for n in factors if _factors(n) and _factors(length // n) and (n % 2 == 0 or length % 2)]
    return min(factors, key=lambda n: (max(n, length // n), n), default=0)


def _factors(length: int) -> tuple[int, ...]:
    """A number as a product of steps; empty where it is none."""
    found: list[int] = []
    for step in STEPS:
        while length % step == 0:
            found.append(step)
            length //= step
    return tuple(found) if length == 1 else ()


def _steps(length: int, sign: float) -> tuple[tuple[Any, ...], ...]:
    """The steps of a transform that one thread does, and cosines and sines of multiples of a turn by 1 / length: exact
    where these are 0 or 1."""
    turns = np.arange(length) / length
    cosines, sines = (np.round(part, 15) + 0.0 for part in (np.cos(2 * math.pi * turns), np.sin(2 * math.pi * turns)))
    return _factors(length), tuple(map(float, cosines)), tuple(map(float, sign * sines + 0.0))


@tile.func
def _turn(re: Any, im: Any, c: Any, s: Any) -> Any:
    """A complex number times another one, which is known."""
    if c == 1.0:
        turned = re, im
    elif c == -1.0:
        turned = -re, -im
    elif s == 1.0:
        turned = -im, re
    elif s == -1.0:
        turned = im, -re
    else:
        turned = re * c - im * s, re * s + im * c
    return turned


@tile.func
def _small(re: Any, im: Any, steps: Any) -> Any:
    """The transform of as many numbers as a tuple has tiles, in order, by Stockham's steps."""
    factors, c, s = steps
    n = len(re)
    done = 1
    for f in factors:
        apart = n // f
        new_re = ()
        new_im = ()
        for j in range(apart // done):
            for u in range(f):
                for k in range(done):
                    sum_re = re[k + j * done]
                    sum_im = im[k + j * done]
                    for t in range(1, f):
                        turn = t * u * apart % n
                        part_re, part_im = _turn(
                            re[k + j * done + t * apart], im[k + j * done + t * apart], c[turn], s[turn]
                        )
                        sum_re = sum_re + part_re
                        sum_im = sum_im + part_im
                    part_re, part_im = _turn(sum_re, sum_im, c[u * j * done % n], s[u * j * done % n])
                    new_re = new_re + (part_re,)
                    new_im = new_im + (part_im,)
        re = new_re
        im = new_im
        done = done * f
    return re, im


@tile.func
def _twice(re: Any, im: Any, cosines: Any, sines: Any, first: Any, second: Any) -> Any:
    """The transform of rows of which tile i has the elements from i * b on; tile q has those from q * a on."""
    a = len(re)
    b = len(second[1])
    re, im = _small(re, im, first)
    turned_re = (re[0],)
    turned_im = (im[0] + 0.0 * re[0],)
    for p in range(1, a):
        c = cosines[p, 0:b]
        s = sines[p, 0:b]
        turned_re = turned_re + (re[p] * c - im[p] * s,)
        turned_im = turned_im + (re[p] * s + im[p] * c,)
    whole_re = tile.stack(turned_re, axis=1)
    whole_im = tile.stack(turned_im, axis=1)
    re = ()
    im = ()
    for i in range(b):
        re = re + (whole_re[:, :, i],)
        im = im + (whole_im[:, :, i],)
    return _small(re, im, second)


@tile.kernel
def _rows_of_complex(
    real: tile.Tensor, imag: tile.Tensor, cosines: tile.Tensor, sines: tile.Tensor, first: tile.constexpr,
    second: tile.constexpr, scale: tile.constexpr,
) -> Any:  # fmt: skip
    M, N = real.shape
    out_re = tile.empty((M, N), real.dtype)
    out_im = tile.empty((M, N), real.dtype)
    for m in tile.grid(M):
        re = ()
        im = ()
        for i in range(len(first[1])):
            re = re + (tile.load(real[m, i * len(second[1]) : (i + 1) * len(second[1])]),)
            im = im + (tile.load(imag[m, i * len(second[1]) : (i + 1) * len(second[1])]),)
        re, im = _twice(re, im, cosines, sines, first, second)
        for q in range(len(second[1])):
            out_re[m, q * len(first[1]) : (q + 1) * len(first[1])] = re[q] * scale
            out_im[m, q * len(first[1]) : (q + 1) * len(first[1])] = im[q] * scale
    return out_re, out_im


@tile.kernel
def _rows_of_real(
    x: tile.Tensor, cosines: tile.Tensor, sines: tile.Tensor, first: tile.constexpr, second: tile.constexpr,
    count: tile.constexpr,
) -> Any:  # fmt: skip
    """The first `count` elements."""
    M = x.shape[0]
    out_re = tile.empty((M, count), x.dtype)
    out_im = tile.empty((M, count), x.dtype)
    for m in tile.grid(M):
        re = ()
        im = ()
        for i in range(len(first[1])):
            re = re + (tile.load(x[m, i * len(second[1]) : (i + 1) * len(second[1])]),)
            im = im + (0.0,)
        re, im = _twice(re, im, cosines, sines, first, second)
        a = len(first[1])
        for q in range(len(second[1])):
            if (q + 1) * a <= count:
                out_re[m, q * a : (q + 1) * a] = re[q]
                out_im[m, q * a : (q + 1) * a] = im[q]
            elif q * a < count:
                out_re[m, q * a + tile.arange(a)] = re[q]
                out_im[m, q * a + tile.arange(a)] = im[q]
    return out_re, out_im


@tile.kernel
def _real_rows(
    real: tile.Tensor, imag: tile.Tensor, cosines: tile.Tensor, sines: tile.Tensor, first: tile.constexpr,
    second: tile.constexpr, scale: tile.constexpr,
) -> Any:  # fmt: skip
    """The real parts of the transform of rows whose second half mirrors the first."""
    M = real.shape[0]
    y = tile.empty((M, len(first[1]) * len(second[1])), real.dtype)
    for m in tile.grid(M):
        a = len(first[1])
        b = len(second[1])
        re = ()
        im = ()
        for i in range(a):
            if 2 * i < a:
                re = re + (tile.load(real[m, i * b : (i + 1) * b]),)
                im = im + (tile.load(imag[m, i * b : (i + 1) * b]),)
            else:
                mirrored = (a - i) * b - tile.arange(b)
                re = re + (tile.load(real[m, mirrored]),)
                im = im + (-tile.load(imag[m, mirrored]),)
        re, im = _twice(re, im, cosines, sines, first, second)
        for q in range(b):
            y[m, q * a : (q + 1) * a] = re[q] * scale
    return y

"""Fourier transforms against NumPy."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportCallIssue=false, reportPrivateUsage=false
# ruff: noqa: B023 - what loops make is called at once

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.support.op_checks import F16, F64, agree, kernels_of, meant, normal
from tiledsl import TileError, ops, tile
from tiledsl.ops import fourier


@pytest.mark.parametrize("n", [1, 2, 7, 64, 67, 90, 128, 1000])
def test_lengths(n: int) -> None:
    re, im = normal(2, n), normal(2, n, seed=1)
    number = re.astype(F64) + 1j * im
    for inverse in (False, True):
        wanted = (np.fft.ifft if inverse else np.fft.fft)(number)
        meant(lambda a, b: ops.fft(a, b, inverse=inverse), [re, im], (wanted.real, wanted.imag), terms=4 * n)
    wanted = np.fft.fft(re.astype(F64))
    meant(lambda a: ops.fft(a), [re], (wanted.real, wanted.imag), terms=4 * n)
    half = np.fft.rfft(re.astype(F64))
    meant(lambda a: ops.rfft(a), [re], (half.real, half.imag), terms=4 * n)
    back = [half.real.astype(np.float32), half.imag.astype(np.float32)]
    meant(lambda a, b: ops.irfft(a, b, n=n), back, re, terms=4)
    meant(lambda a: ops.irfft(a, n=n), back[:1], np.fft.irfft(half.real, n), terms=4)


def test_axes_and_other_lengths() -> None:
    x = normal(6, 5, 4)
    for axis in (0, 1, -1):
        for n in (3, 9, None):
            wanted = np.fft.rfft(x.astype(F64), n, axis)
            meant(lambda x: ops.rfft(x, axis, n=n), [x], (wanted.real, wanted.imag), terms=16)
            number = x + 1j * x[::-1]
            wanted = np.fft.irfft(number.astype(np.complex128), n, axis)
            meant(lambda a, b: ops.irfft(a, b, axis, n=n), [x, np.ascontiguousarray(x[::-1])], wanted, terms=16)


def test_compiled() -> None:
    x = normal(3, 72, dtype=F16)
    wanted = np.fft.rfft(x.astype(F64))
    agree(lambda x: ops.rfft(x), [x], (wanted.real, wanted.imag), terms=16)
    x = normal(3, 20)
    meant(lambda x: ops.irfft(*ops.rfft(x)), [x], x, terms=16)
    wide = normal(2, 80, dtype=F64)
    meant(lambda x: ops.fft(x)[0], [wide], np.fft.fft(wide).real, terms=80)


def _kernels(n: int, sign: float) -> tuple[int, Any]:
    first = fourier._first_of_two(n)
    turns = np.outer(np.arange(first), np.arange(n // first)) / n
    tables = *fourier._turned(turns, sign, tile.f32), fourier._steps(first, sign), fourier._steps(n // first, sign)
    return first, tables


@pytest.mark.parametrize("n", [72, 75, 80])
def test_in_one_kernel(n: int) -> None:
    """What GPUs run, in the emulator and on a CPU: rows whose number is no multiple of a block."""
    _, tables = _kernels(n, -1.0)
    re, im = normal(5, n), normal(5, n, seed=1)
    number = re.astype(F64) + 1j * im
    close: dict[str, Any] = {"atol": 4e-6 * math.sqrt(n), "rtol": 1e-5}
    wanted = np.fft.fft(number)
    for run in (fourier._rows_of_complex.emulate, fourier._rows_of_complex):
        found: Any = run(re, im, *tables, 1.0)
        assert np.allclose(found[0], wanted.real, **close)
        assert np.allclose(found[1], wanted.imag, **close)
    half = np.fft.rfft(re.astype(F64))
    for run in (fourier._rows_of_real.emulate, fourier._rows_of_real):
        found = run(re, *tables, n // 2 + 1)
        assert np.allclose(found[0], half.real, **close)
        assert np.allclose(found[1], half.imag, **close)
    if n % 2 == 0:
        first, tables = _kernels(n, 1.0)
        assert first % 2 == 0
        back: Any = fourier._real_rows.emulate(*(p.astype(np.float32) for p in (half.real, half.imag)), *tables, 1 / n)
        assert np.allclose(back, re, atol=1e-6)


def test_lengths_of_one_kernel() -> None:
    found = {n: fourier._first_of_two(n) for n in (64, 67, 121, 400, 480, 1000, 1024, 1536, 2048, 4096, 8192)}
    wanted = {64: 0, 67: 0, 121: 0, 400: 20, 480: 20, 1000: 40, 1024: 32, 1536: 32, 2048: 32, 4096: 64, 8192: 0}
    assert {n: min(a, n // a) if a else 0 for n, a in found.items()} == {
        n: min(a, n // a) if a else 0 for n, a in wanted.items()
    }


def test_a_filter_is_two_kernels() -> None:
    """What is multiplied between two transforms is computed where the first one stores its result."""

    def filtered(x: Any, g: Any) -> Any:
        re, im = ops.rfft(x)
        return ops.irfft(re * g, im * g, n=100)

    assert kernels_of(filtered, tile.spec((3000, 100), tile.f32), tile.spec((51,), tile.f32)) == 2
    assert kernels_of(lambda x: ops.rfft(x), tile.spec((3000, 8192), tile.f32)) > 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.fft(normal(3, 4), normal(3)), r"they are parts of the same numbers"),
        (lambda: ops.rfft(normal(3, 4), n=0), r"`n` is 0, not a length of at least 1"),
        (lambda: ops.irfft(normal(3, 1), normal(3, 1)), r"`n` is None, not a length of at least 1"),
        (lambda: ops.fft(normal(3), axis=1), r"not a tensor with an axis 1"),
    ],
)  # fmt: skip
def test_bad_arguments(call: Any, message: str) -> None:
    with pytest.raises(TileError, match=message):
        call()

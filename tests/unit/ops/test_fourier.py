"""Fourier transforms against NumPy."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportCallIssue=false
# ruff: noqa: B023 - what loops make is called at once

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.op_checks import F16, F64, agree, meant, normal
from tiledsl import TileError, ops


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

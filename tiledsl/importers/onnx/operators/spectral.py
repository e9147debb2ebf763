"""Fourier transforms: complex numbers are pairs."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl import ops, tile
from tiledsl.importers.onnx.register import operator


def _dft(x: Any, length: Any, axis: int, inverse: bool, onesided: bool) -> Any:
    """[..., n, ..., 1 or 2] along an axis; onesided: of real numbers, or to them, half of the frequencies."""
    n = None if length is None else int(np.ravel(length)[0])
    parts = [x[..., i] for i in range(x.shape[-1])]
    at = axis % x.ndim
    results = (ops.irfft(*parts, axis=at, n=n),) if inverse and onesided else _spectrum(parts, at, n, inverse, onesided)
    return tile.stack(results, axis=-1)


def _spectrum(parts: list[Any], axis: int, n: int | None, inverse: bool, onesided: bool) -> Any:
    """Real and imaginary part of the frequencies, or of the first half of them."""
    if onesided and len(parts) == 1:
        return ops.rfft(parts[0], axis, n=n)
    results = ops.fft(*parts, axis=axis, n=n, inverse=inverse)
    half = results[0].shape[axis] // 2 + 1 if onesided else None
    return tuple(part[(slice(None),) * axis + (slice(half),)] for part in results)


@operator("DFT", since=17, known=("length",))
def dft_by_attribute(x: Any, length: Any = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0) -> Any:
    return _dft(x, length, axis, bool(inverse), bool(onesided))


@operator("DFT", since=20, known=("length", "axis"))
def dft(x: Any, length: Any = None, axis: Any = None, *, inverse: int = 0, onesided: int = 0) -> Any:
    return _dft(x, length, -2 if axis is None else int(np.ravel(axis)[0]), bool(inverse), bool(onesided))


@operator("STFT", since=17, known=("step", "length"))
def stft(signal: Any, step: Any, window: Any = None, length: Any = None, *, onesided: int = 1) -> Any:
    """The transforms [batch, frames, frequencies, 2] of windows of a signal [batch, n, 1 or 2]."""
    size = window.shape[0] if length is None else int(np.ravel(length)[0])
    parts: list[Any] = []
    for i in range(signal.shape[2] if signal.ndim > 2 else 1):
        frames = tile.window(signal[..., i] if signal.ndim > 2 else signal, size, 1, int(np.ravel(step)[0]))
        parts.append(frames if window is None else frames * window)
    return tile.stack(_spectrum(parts, 2, None, False, bool(onesided)), axis=-1)

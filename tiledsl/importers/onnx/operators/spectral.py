"""Fourier transforms: products with the matrices of sines and cosines, and complex numbers as pairs."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl import tile
from tiledsl.importers.onnx.call import Call
from tiledsl.importers.onnx.register import operator


def _waves(length: int, count: int, sign: float, dtype: Any) -> tuple[Any, Any]:
    """cos and sin [length, count] of the turns of frequency k at place n."""
    turns = np.outer(np.arange(length), np.arange(count)) % length / length * (2 * np.pi)
    kind = np.float64 if dtype == tile.f64 else np.float32
    return np.cos(turns).astype(kind), (sign * np.sin(turns)).astype(kind)


def _transformed(re: Any, im: Any, length: int, count: int, inverse: bool) -> tuple[Any, Any]:
    """The first `count` frequencies of the last axis; `im` None for real numbers."""
    cos, sin = _waves(length, count, 1.0 if inverse else -1.0, re.dtype)
    if im is None:
        return re @ cos, re @ sin
    return re @ cos - im @ sin, re @ sin + im @ cos


def _resized(x: Any, length: int) -> Any:
    """The last axis cut, or filled with zeros."""
    size = x.shape[-1]
    if size >= length:
        return x[..., :length]
    return tile.pad(x, (*((0, 0) for _ in range(x.ndim - 1)), (0, length - size)))


def _dft(x: Any, length: Any, axis: int, inverse: int, onesided: int, node: Call) -> Any:
    """[..., n, ..., 1 or 2] along an axis; onesided: of real numbers, or to them, half of the frequencies."""
    wide = x.to(tile.f32) if x.dtype.bits < 32 else x
    at = axis % x.ndim
    last = x.ndim - 2
    order = (*(i for i in range(x.ndim - 1) if i != at), at)
    parts = [wide[..., i].transpose(order) for i in range(x.shape[-1])]
    given = x.shape[at]
    if inverse and onesided:
        full = 2 * (given - 1) if length is None else int(np.ravel(length)[0])
        re, im = (_resized(p, full // 2 + 1) for p in parts)
        re, im = _whole(re, full, 1.0), _whole(im, full, -1.0)
        real, _ = _transformed(re, im, full, full, True)
        results, n = [real / float(full)], full
    else:
        n = given if length is None else int(np.ravel(length)[0])
        parts = [_resized(p, n) for p in parts]
        re, im = _transformed(parts[0], parts[1] if len(parts) > 1 else None, n, n // 2 + 1 if onesided else n,
                              bool(inverse))  # fmt: skip
        results = [re / float(n), im / float(n)] if inverse else [re, im]
    back = tuple(order.index(i) for i in range(last + 1))
    return tile.stack([r.transpose(back) for r in results], axis=-1).to(x.dtype)


def _whole(x: Any, length: int, sign: float) -> Any:
    """All frequencies of a real signal from the first half of them: the others are their conjugates."""
    count = length - x.shape[-1]
    mirrored = tile.take(x, np.arange(count, 0, -1), axis=-1)
    return tile.concat((x, mirrored * sign), axis=-1)


@operator("DFT", since=17, known=("length",))
def dft_by_attribute(
    x: Any, length: Any = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0, node: Call
) -> Any:
    return _dft(x, length, axis, inverse, onesided, node)


@operator("DFT", since=20, known=("length", "axis"))
def dft(x: Any, length: Any = None, axis: Any = None, *, inverse: int = 0, onesided: int = 0, node: Call) -> Any:
    return _dft(x, length, -2 if axis is None else int(np.ravel(axis)[0]), inverse, onesided, node)


@operator("STFT", since=17, known=("step", "length"))
def stft(signal: Any, step: Any, window: Any = None, length: Any = None, *, onesided: int = 1) -> Any:
    """The transforms [batch, frames, frequencies, 2] of windows of a signal [batch, n, 1 or 2]."""
    size = window.shape[0] if length is None else int(np.ravel(length)[0])
    count = size // 2 + 1 if onesided else size
    parts: list[Any] = []
    for i in range(signal.shape[2] if signal.ndim > 2 else 1):
        frames = tile.window(signal[..., i] if signal.ndim > 2 else signal, size, 1, int(np.ravel(step)[0]))
        parts.append(frames if window is None else frames * window)
    re, im = _transformed(parts[0], parts[1] if len(parts) > 1 else None, size, count, False)
    return tile.stack((re, im), axis=-1)

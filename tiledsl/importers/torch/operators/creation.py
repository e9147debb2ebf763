"""Tensors that are made of nothing: filled ones, ranges."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tiledsl import tile
from tiledsl.importers.torch.promotion import named
from tiledsl.importers.torch.register import aten
from tiledsl.ir.dtypes import DType, bool_, f32, f64, i64
from tiledsl.ops.checks import as_tensor


def _filled(shape: Any, value: Any, dtype: DType) -> Any:
    if dtype == bool_:
        value = bool(value)
    elif not dtype.is_float and isinstance(value, float):
        value = int(value)
    return tile.full(tuple(shape), value, dtype)


def _of_number(value: Any) -> DType:
    return bool_ if isinstance(value, bool) else i64 if isinstance(value, int) else f32


@aten("full")
def full(shape: Any, value: Any, *, dtype: Any = None) -> Any:
    return _filled(shape, value, _of_number(value) if dtype is None else named(dtype))


@aten("full_like")
def full_like(x: Any, value: Any, *, dtype: Any = None) -> Any:
    x = as_tensor(x)
    return _filled(x.shape, value, x.dtype if dtype is None else named(dtype))


@aten("new_full")
def new_full(x: Any, shape: Any, value: Any, *, dtype: Any = None) -> Any:
    return _filled(shape, value, as_tensor(x).dtype if dtype is None else named(dtype))


@aten("zeros")
@aten("empty", "memory_format")
def zeros(shape: Any, *, dtype: Any = None) -> Any:
    """What is empty may hold anything."""
    return full(shape, 0.0, dtype=dtype)


@aten("ones")
def ones(shape: Any, *, dtype: Any = None) -> Any:
    return full(shape, 1.0, dtype=dtype)


@aten("zeros_like")
@aten("empty_like")
def zeros_like(x: Any, *, dtype: Any = None) -> Any:
    return full_like(x, 0, dtype=dtype)


@aten("ones_like")
def ones_like(x: Any, *, dtype: Any = None) -> Any:
    return full_like(x, 1, dtype=dtype)


@aten("new_zeros")
@aten("new_empty")
def new_zeros(x: Any, shape: Any, *, dtype: Any = None) -> Any:
    return new_full(x, shape, 0, dtype=dtype)


@aten("new_empty_strided")
def new_empty_strided(x: Any, shape: Any, strides: Any, *, dtype: Any = None) -> Any:
    return new_full(x, shape, 0, dtype=dtype)


@aten("empty_strided")
def empty_strided(shape: Any, strides: Any, *, dtype: Any = None) -> Any:
    return zeros(shape, dtype=dtype)


@aten("new_ones")
def new_ones(x: Any, shape: Any, *, dtype: Any = None) -> Any:
    return new_full(x, shape, 1, dtype=dtype)


@aten("scalar_tensor")
def scalar_tensor(value: Any, *, dtype: Any = None) -> Any:
    return full((), value, dtype=dtype)


@aten("fill", "Scalar")
def fill(x: Any, value: Any) -> Any:
    return full_like(x, value)


@aten("fill", "Tensor")
@aten("copy")
def copy(x: Any, value: Any, *_: Any) -> Any:
    x = as_tensor(x)
    return tile.broadcast_to(as_tensor(value).to(x.dtype), x.shape)


@aten("arange")
def arange(end: Any, *, dtype: Any = None) -> Any:
    return arange_start(0, end, dtype=dtype)


@aten("arange", "start")
def arange_start(start: Any, end: Any, *, dtype: Any = None) -> Any:
    return arange_step(start, end, 1, dtype=dtype)


@aten("arange", "start_step")
def arange_step(start: Any, end: Any, step: Any = 1, *, dtype: Any = None) -> Any:
    floating = any(isinstance(v, float) for v in (start, end, step))
    wanted = (f32 if floating else i64) if dtype is None else named(dtype)
    if not floating and isinstance(step, int) and step == 1:
        return tile.arange(start, end).to(wanted)
    count = max(math.ceil((end - start) / step), 0)
    turns = tile.arange(count)
    if floating or wanted.is_float:
        return (turns.to(f64) * float(step) + float(start)).to(wanted)
    return (turns * step + start).to(wanted)


@aten("linspace")
def linspace(start: Any, end: Any, steps: int, *, dtype: Any = None) -> Any:
    """From both ends to the middle, so that both are met exactly."""
    wanted = f32 if dtype is None else named(dtype)
    turns = tile.arange(steps).to(f64)
    step = (end - start) / (steps - 1) if steps > 1 else 0.0
    first = turns * float(step) + float(start)
    last = float(end) - ((steps - 1) - turns) * float(step)
    return tile.where(turns < steps // 2 + (steps == 1), first, last).to(wanted)


def _window(fn: Callable[..., Any], count: int, periodic: bool, dtype: Any) -> Any:
    """A window that NumPy knows, which is symmetric; a periodic one is without its last element."""
    shape = fn(count + 1)[:-1] if periodic and count > 1 else fn(count)
    return as_tensor(np.asarray(shape, np.float64)).to(f32 if dtype is None else named(dtype))


@aten("hamming_window", "default", "periodic", "periodic_alpha", "periodic_alpha_beta")
def hamming_window(
    count: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: Any = None
) -> Any:  # fmt: skip
    def shape(n: int) -> Any:
        return alpha - beta * np.cos(2 * np.pi * np.arange(n) / max(n - 1, 1)) if n > 1 else np.ones(n)

    return _window(shape, count, periodic, dtype)


@aten("blackman_window", "default", "periodic")
def blackman_window(count: int, periodic: bool = True, *, dtype: Any = None) -> Any:
    return _window(np.blackman, count, periodic, dtype)


@aten("bartlett_window", "default", "periodic")
def bartlett_window(count: int, periodic: bool = True, *, dtype: Any = None) -> Any:
    return _window(np.bartlett, count, periodic, dtype)


@aten("hann_window", "default", "periodic")
def hann_window(count: int, periodic: bool = True, *, dtype: Any = None) -> Any:
    return _window(np.hanning, count, periodic, dtype)


@aten("kaiser_window", "default", "periodic", "beta")
def kaiser_window(count: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None) -> Any:
    def shape(n: int) -> Any:
        return np.kaiser(n, beta)

    return _window(shape, count, periodic, dtype)


@aten("eye")
def eye(n: Any, *, dtype: Any = None) -> Any:
    return eye_m(n, n, dtype=dtype)


@aten("eye", "m")
def eye_m(n: Any, m: Any, *, dtype: Any = None) -> Any:
    return (tile.arange(n)[:, None] == tile.arange(m)).to(f32 if dtype is None else named(dtype))


@aten("tril_indices")
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None) -> Any:
    found = [(i, j) for i in range(row) for j in range(col) if j - i <= offset]
    return listed(found, dtype)


@aten("triu_indices")
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None) -> Any:
    found = [(i, j) for i in range(row) for j in range(col) if j - i >= offset]
    return listed(found, dtype)


def listed(pairs: list[tuple[int, int]], dtype: Any) -> Any:
    """Pairs as the columns of a matrix of two rows."""
    rows = [np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1)]
    return as_tensor(np.stack(rows)).to(i64 if dtype is None else named(dtype))


# Numbers


@aten("sym_size", "int")
def sym_size(x: Any, dim: int) -> Any:
    return as_tensor(x).shape[dim]


@aten("sym_numel")
def sym_numel(x: Any) -> Any:
    return as_tensor(x).size


@aten("item")
@aten("_local_scalar_dense")
def item(x: Any) -> Any:
    """A number that only the values tell stays a tensor."""
    return as_tensor(x).reshape(())

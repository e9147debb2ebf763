"""Sums, extrema, variances, running sums, softmax: what goes along axes."""

from __future__ import annotations

import math
from typing import Any

from tiledsl import ops, tile
from tiledsl.frontend.trace.trace_shapes import entries_of
from tiledsl.importers.torch.operators.comparisons import truth
from tiledsl.importers.torch.promotion import named, promoted
from tiledsl.importers.torch.register import aten
from tiledsl.ir.dtypes import DType, i64
from tiledsl.ops.checks import as_tensor, widened


def axes_of(x: Any, dim: Any) -> tuple[int, ...]:
    """The axes that a fold goes over: an empty list means all, as in PyTorch."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return tuple(range(x.ndim))
    return tuple(d % x.ndim for d in entries_of(dim)) if x.ndim else ()


def size_of(x: Any, axes: tuple[int, ...]) -> Any:
    """How many elements are folded into one."""
    return math.prod([x.shape[i] for i in axes])


def _in(x: Any, dtype: Any) -> Any:
    """What sums take: in the dtype that is asked for; integers widen."""
    x = as_tensor(x)
    if dtype is not None:
        return x.to(named(dtype))
    return x if x.dtype.is_float else x.to(i64)


@aten("sum", "default", "dim_IntList")
def sum_(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    x = _in(x, dtype)
    return tile.sum(x, axes_of(x, dim), keepdims=keepdim).to(x.dtype)


@aten("nansum")
def nansum(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    x = as_tensor(x)
    return sum_(tile.where(x == x, x, 0), dim, keepdim, dtype=dtype)


@aten("prod", "default", "dim_int")
def prod(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    x = _in(x, dtype)
    return tile.prod(x, axes_of(x, dim), keepdims=keepdim).to(x.dtype)


@aten("mean", "default", "dim")
def mean(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    x = _in(x, dtype)
    return tile.mean(x, axes_of(x, dim), keepdims=keepdim).to(x.dtype)


@aten("amax")
def amax(x: Any, dim: Any = (), keepdim: bool = False) -> Any:
    x = as_tensor(x)
    return tile.max(x, axes_of(x, dim), keepdims=keepdim)


@aten("amin")
def amin(x: Any, dim: Any = (), keepdim: bool = False) -> Any:
    x = as_tensor(x)
    return tile.min(x, axes_of(x, dim), keepdims=keepdim)


@aten("max")
def max_all(x: Any) -> Any:
    return amax(x)


@aten("min")
def min_all(x: Any) -> Any:
    return amin(x)


@aten("aminmax")
def aminmax(x: Any, *, dim: Any = None, keepdim: bool = False) -> Any:
    return amin(x, dim, keepdim), amax(x, dim, keepdim)


@aten("max", "dim")
def max_dim(x: Any, dim: int, keepdim: bool = False) -> Any:
    return amax(x, dim, keepdim), argmax(x, dim, keepdim)


@aten("min", "dim")
def min_dim(x: Any, dim: int, keepdim: bool = False) -> Any:
    return amin(x, dim, keepdim), argmin(x, dim, keepdim)


@aten("argmax")
def argmax(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    x = as_tensor(x)
    if not x.ndim:
        return tile.zeros((), i64)
    return tile.argmax(x, axis=dim, keepdims=keepdim)


@aten("argmin")
def argmin(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    x = as_tensor(x)
    if not x.ndim:
        return tile.zeros((), i64)
    return tile.argmin(x, axis=dim, keepdims=keepdim)


@aten("any", "default", "dim", "dims")
def any_(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    x = truth(x)
    return tile.any(x, axes_of(x, dim), keepdims=keepdim)


@aten("all", "default", "dim", "dims")
def all_(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    x = truth(x)
    return tile.all(x, axes_of(x, dim), keepdims=keepdim)


@aten("count_nonzero", "default", "dim_IntList")
def count_nonzero(x: Any, dim: Any = None) -> Any:
    return sum_(truth(x), dim)


@aten("var", "correction")
def var(x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return _variance(x, dim, correction, keepdim)[0]


@aten("var_mean", "correction")
def var_mean(x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return _variance(x, dim, correction, keepdim)


@aten("std", "correction")
def std(x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return tile.sqrt(_variance(x, dim, correction, keepdim)[0])


@aten("std_mean", "correction")
def std_mean(x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    variance, middle = _variance(x, dim, correction, keepdim)
    return tile.sqrt(variance), middle


def _variance(x: Any, dim: Any, correction: Any, keepdim: bool) -> tuple[Any, Any]:
    x = as_tensor(x)
    axes = axes_of(x, dim)
    wide = widened(x)
    middle = tile.mean(wide, axes, keepdims=True)
    centred = wide - middle
    left = size_of(x, axes) - (1 if correction is None else correction)
    total = tile.sum(centred * centred, axes, keepdims=keepdim)
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape) if keepdim or i not in axes)
    left = max(left, 0) if isinstance(left, (int, float)) else left
    return (total / left).to(x.dtype), middle.reshape(shape).to(x.dtype)


@aten("linalg_vector_norm")
def vector_norm(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    x = as_tensor(x) if dtype is None else as_tensor(x).to(named(dtype))
    axes = axes_of(x, dim)
    sizes = tile.abs(widened(x))
    return norm_of(sizes, float(ord), axes, keepdim).to(x.dtype)


def norm_of(sizes: Any, order: float, axes: tuple[int, ...], keepdim: bool) -> Any:
    """The norm over some axes, of the sizes of elements."""
    if math.isinf(order):
        return tile.max(sizes, axes, keepdims=keepdim) if order > 0 else tile.min(sizes, axes, keepdims=keepdim)
    if order == 0:
        return tile.sum((sizes != 0).to(sizes.dtype), axes, keepdims=keepdim)
    if order == 1:
        return tile.sum(sizes, axes, keepdims=keepdim)
    if order == 2:
        return tile.sqrt(tile.sum(sizes * sizes, axes, keepdims=keepdim))
    return tile.sum(sizes**order, axes, keepdims=keepdim) ** (1.0 / order)


@aten("dist")
def dist(x: Any, y: Any, p: Any = 2) -> Any:
    x, y = promoted(x, y)
    return vector_norm(x - y, p)


@aten("cumsum")
def cumsum(x: Any, dim: int, *, dtype: Any = None) -> Any:
    x = _in(x, dtype)
    return tile.cumsum(x, axis=dim).to(x.dtype) if x.ndim else x


@aten("cumprod")
def cumprod(x: Any, dim: int, *, dtype: Any = None) -> Any:
    x = _in(x, dtype)
    return tile.scan(x, dim, tile.prod) if x.ndim else x


@aten("logcumsumexp")
def logcumsumexp(x: Any, dim: int) -> Any:
    x = as_tensor(x)
    return ops.logcumsumexp(x, dim) if x.ndim else x


@aten("cummax")
def cummax(x: Any, dim: int) -> Any:
    x = as_tensor(x)
    return ops.cummax(x, dim) if x.ndim else (x, tile.zeros((), i64))


@aten("cummin")
def cummin(x: Any, dim: int) -> Any:
    x = as_tensor(x)
    return ops.cummin(x, dim) if x.ndim else (x, tile.zeros((), i64))


# Softmax


def _softmax_dtype(x: Any, dtype: Any) -> DType:
    return as_tensor(x).dtype if dtype is None else named(dtype)


@aten("softmax", "int")
@aten("special_softmax")
def softmax_int(x: Any, dim: int, dtype: Any = None) -> Any:
    x = as_tensor(x).to(_softmax_dtype(x, dtype))
    return tile.softmax(x, axis=dim) if x.ndim else tile.softmax(x[None])[0]


@aten("_softmax")
def softmax(x: Any, dim: int, half_to_float: bool = False) -> Any:
    return softmax_int(widened(as_tensor(x)) if half_to_float else x, dim)


@aten("_safe_softmax")
def safe_softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    x = as_tensor(x).to(_softmax_dtype(x, dtype))
    nothing = tile.max(x, axis=dim, keepdims=True) == -math.inf
    return tile.where(nothing, 0.0, tile.softmax(x, axis=dim)).to(x.dtype)


@aten("log_softmax", "int")
@aten("special_log_softmax")
def log_softmax_int(x: Any, dim: int, dtype: Any = None) -> Any:
    x = as_tensor(x).to(_softmax_dtype(x, dtype))
    return ops.log_softmax(x, dim) if x.ndim else ops.log_softmax(x[None])[0]


@aten("_log_softmax")
def log_softmax(x: Any, dim: int, half_to_float: bool = False) -> Any:
    return log_softmax_int(widened(as_tensor(x)) if half_to_float else x, dim)


@aten("logsumexp")
def logsumexp(x: Any, dim: Any, keepdim: bool = False) -> Any:
    x = as_tensor(x)
    wide = widened(x)
    axes = axes_of(x, dim)
    largest = tile.max(wide, axes, keepdims=True)
    finite = tile.where(tile.abs(largest) == math.inf, 0.0, largest)
    total = tile.log(tile.sum(tile.exp(wide - finite), axes, keepdims=True)) + finite
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape) if keepdim or i not in axes)
    return total.reshape(shape).to(x.dtype if x.dtype.is_float else total.dtype)


# Losses that PyTorch takes apart wrongly


@aten("multilabel_margin_loss")
def multilabel_margin_loss(x: Any, target: Any, reduction: int = 1) -> Any:
    return multilabel_margin_loss_forward(x, target, reduction)[0]


@aten("multilabel_margin_loss_forward")
def multilabel_margin_loss_forward(x: Any, target: Any, reduction: int) -> Any:
    """Of classes in `target`, up to its first -1, against all others; also which classes are targets."""
    x, target = as_tensor(x), as_tensor(target)
    size = x.shape[-1] if x.ndim else 1
    wide, given = widened(x).reshape((-1, size)), target.reshape((-1, size))
    nth = tile.arange(size)
    end = tile.min(tile.where(given < 0, nth, size), axis=-1, keepdims=True)
    holds = nth < end
    hits = holds[..., None] & (given[..., None] == nth)
    is_target = tile.any(hits, axis=-2)
    of_target = tile.sum(tile.where(hits, wide[:, None, :], 0.0), axis=-1)
    margin = tile.maximum(1.0 - of_target[..., None] + wide[:, None, :], 0.0)
    loss = tile.sum(tile.where(holds[..., None] & ~is_target[:, None, :], margin, 0.0), axis=(-2, -1)) / size
    result = loss.reshape(x.shape[:-1]) if reduction == 0 else tile.mean(loss) if reduction == 1 else tile.sum(loss)
    return result.to(x.dtype), is_target.reshape(x.shape).to(x.dtype)

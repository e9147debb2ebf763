"""Sums, extrema and statistics over the first, the last, several and middle axes; norms, which fold and come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.zoo import formulas
from benchmarks.zoo import numpy_functions as plain
from benchmarks.zoo.case import Family, ZooCase
from tiledsl import ops, tile

row = Family("folds")
SQUARE, TALL, WIDE = "m=8192 n=8192", "m=4096 n=8192", "m=8192 n=4096"
AXES = "abcd"


def _sum(name: str, shape: tuple[int, ...], *axes: int, small: str = "") -> ZooCase:
    """A sum over axes of f16 elements, in f32."""
    names = AXES[: len(shape)]
    sizes = " ".join(f"{axis}={size}" for axis, size in zip(names, shape))

    def formula() -> Callable[[Any], Any]:
        return lambda x: tile.sum(x.to(tile.f32), axis=axes)

    def torch() -> Callable[[Any, Any], Any]:
        return lambda t, x: x.float().sum(dim=axes)

    return row(
        f"sum, {name}", f"f16[{','.join(names)}]", sizes, formula(), lambda x: x.sum(axis=axes), torch(), small=small
    )


def _statistics(x: Any) -> tuple[Any, Any]:
    wide = x.to(tile.f32)
    mean = tile.mean(wide, axis=1, keepdims=True)
    return tile.sum(mean, axis=1), tile.mean((wide - mean) * (wide - mean), axis=1)


def _gradients(d: Any, x: Any, w: Any) -> tuple[Any, Any, Any]:
    """Of a layer norm's argument, of rows, and of its weight and bias, sums of columns."""
    y, wide = formulas.normed(x), d.to(tile.f32)
    centred = x.to(tile.f32) - tile.mean(x.to(tile.f32), axis=1, keepdims=True)
    scale = tile.rsqrt(tile.mean(centred * centred, axis=1, keepdims=True) + 1e-5)
    g = wide * w
    inner = g - tile.mean(g, axis=1, keepdims=True) - y * tile.mean(g * y, axis=1, keepdims=True)
    return (inner * scale).to(x.dtype), tile.sum(wide * y, axis=0), tile.sum(wide, axis=0)


def _plain_gradients(d: Any, x: Any, w: Any) -> tuple[Any, Any, Any]:
    y, g = plain.normed(x), d * w
    inner = g - g.mean(axis=1, keepdims=True) - y * (g * y).mean(axis=1, keepdims=True)
    return inner / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5), (d * y).sum(axis=0), d.sum(axis=0)


def _torch_gradients(t: Any, d: Any, x: Any, w: Any) -> tuple[Any, Any, Any]:
    d, wide = d.float(), x.float()
    mean, scale = wide.mean(1, keepdim=True), t.rsqrt(wide.var(1, keepdim=True, correction=0) + 1e-5)
    y, g = (wide - mean) * scale, d * w
    inner = g - g.mean(1, keepdim=True) - y * (g * y).mean(1, keepdim=True)
    return (inner * scale).to(x.dtype), (d * y).sum(0), d.sum(0)


FOLDS = (
    _sum("rows", (8192, 8192), 1),
    _sum("columns", (8192, 8192), 0),
    _sum("all", (8192, 8192), 0, 1),
    _sum("middle axis", (64, 4096, 256), 1),
    _sum("two outer of three axes", (64, 4096, 256), 0, 2),
    _sum("long rows", (64, 1 << 20), 1),
    _sum("short rows", (1 << 20, 64), 1),
    _sum("very short rows", (1 << 22, 12), 1),
    _sum("odd rows", (8191, 4099), 1, small="a=31 b=57"),
    _sum("batch, height, width", (64, 256, 56, 56), 0, 2, 3),
    _sum("height, width", (64, 256, 56, 56), 2, 3),
    _sum("one row", (1 << 26,), 0),
    row("sum, rows of i8", "i8[m,n]", SQUARE, lambda x: tile.sum(x.to(tile.i32), axis=1),
        lambda x: x.astype(np.int64).sum(axis=1), lambda t, x: x.sum(1)),
    row("maximum, columns", "f16[m,n]", TALL, lambda x: tile.max(x, axis=0), lambda x: x.max(axis=0),
        lambda t, x: t.amax(x, 0)),
    row("least and largest, rows", "f16[m,n]", SQUARE, lambda x: (tile.min(x, axis=1), tile.max(x, axis=1)),
        lambda x: (x.min(axis=1), x.max(axis=1)), lambda t, x: t.aminmax(x, dim=1)),
    row("mean and variance, rows", "f16[m,n]", WIDE, _statistics, lambda x: (x.mean(axis=1), x.var(axis=1)),
        lambda t, x: t.var_mean(x.float(), 1, correction=0)[::-1]),
    row("dot products of rows", "f16[m,n], f16[m,n]", SQUARE,
        lambda x, y: tile.sum(x.to(tile.f32) * y.to(tile.f32), axis=1), lambda x, y: (x * y).sum(axis=1),
        lambda t, x, y: (x.float() * y.float()).sum(1)),
    row("norm of all", "f32[m,n]", SQUARE, lambda x: tile.sqrt(tile.sum(x * x)), lambda x: np.sqrt((x * x).sum()),
        lambda t, x: t.linalg.vector_norm(x)),
    row("any and count above", "f16[m,n]", SQUARE, lambda x: tile.sum((x > 1).to(tile.i32), axis=1),
        lambda x: (x > 1).sum(axis=1), lambda t, x: (x > 1).sum(1)),
)  # fmt: skip

norm = Family("norms")

NORMS = (
    norm("softmax, rows", "f16[m,n]", WIDE, tile.softmax, plain.softmax, lambda t, x: t.softmax(x, -1)),
    norm("softmax, columns", "f16[m,n]", TALL, lambda x: tile.softmax(x, axis=0), lambda x: plain.softmax(x, 0),
         lambda t, x: t.softmax(x, 0)),
    norm("softmax, middle axis", "f16[a,b,c]", "a=64 b=1024 c=512", lambda x: tile.softmax(x, axis=1),
         lambda x: plain.softmax(x, 1), lambda t, x: t.softmax(x, 1)),
    norm("softmax, long rows", "f16[m,n]", "m=512 n=131072", tile.softmax, plain.softmax,
         lambda t, x: t.softmax(x, -1), small="n=5000"),
    norm("softmax, short rows", "f16[m,n]", "m=1048576 n=49", tile.softmax, plain.softmax,
         lambda t, x: t.softmax(x, -1)),
    norm("log-softmax, rows", "bf16[m,n]", "m=4096 n=32000", ops.log_softmax, plain.log_softmax,
         lambda t, x: t.log_softmax(x, -1)),
    norm("log-sum-exp, rows", "f16[m,n]", WIDE, formulas.log_sum_exp, plain.log_sum_exp,
         lambda t, x: t.logsumexp(x.float(), -1)),
    norm("log-sum-exp, columns", "f16[m,n]", TALL, lambda x: formulas.log_sum_exp(x, 0),
         lambda x: plain.log_sum_exp(x, 0), lambda t, x: t.logsumexp(x.float(), 0)),
    norm("layer norm", "f16[m,n], f16[n], f16[n]", WIDE, formulas.layer_norm, plain.layer_norm,
         lambda t, x, w, b: t.nn.functional.layer_norm(x, x.shape[-1:], w, b)),
    norm("layer norm, gradients", "bf16[m,n], bf16[m,n], bf16[n]", WIDE, _gradients, _plain_gradients,
         _torch_gradients),
    norm("layer norm, long rows", "bf16[m,n], bf16[n], bf16[n]", "m=1024 n=65536", formulas.layer_norm,
         plain.layer_norm, lambda t, x, w, b: t.nn.functional.layer_norm(x, x.shape[-1:], w, b)),
    norm("rms norm", "f16[m,n], f16[n]", WIDE, formulas.rms_norm, plain.rms_norm,
         lambda t, x, w: t.nn.functional.rms_norm(x, x.shape[-1:], w, 1e-5)),
    norm("rms norm of heads", "f16[m,h,n], f16[n]", "m=8192 h=32 n=128", formulas.rms_norm, plain.rms_norm,
         lambda t, x, w: t.nn.functional.rms_norm(x, x.shape[-1:], w, 1e-5)),
    norm("residual and rms norm", "f16[m,n], f16[m,n], f16[n]", WIDE,
         lambda x, r, w: (x + r, formulas.rms_norm(x + r, w)),
         lambda x, r, w: (x + r, plain.rms_norm(x + r, w)),
         lambda t, x, r, w: (x + r, t.nn.functional.rms_norm(x + r, x.shape[-1:], w, 1e-5))),
    norm("rms norm and quantise", "f16[m,n], f16[n]", WIDE,
         lambda x, w: _quantised(formulas.rms_norm(x.to(tile.f32), w)), lambda x, w: _rounded(plain.rms_norm(x, w)),
         lambda t, x, w: _torch_quantised(t, t.nn.functional.rms_norm(x.float(), x.shape[-1:], w.float(), 1e-5))),
    norm("group norm", "f16[n,c,h,w]", "n=64 c=256 h=56 w=56", lambda x: _grouped(x, formulas.normed),
         lambda x: _grouped(x, plain.normed), lambda t, x: t.nn.functional.group_norm(x, 4), small="c=24"),
    norm("instance norm", "f16[n,c,h,w]", "n=64 c=256 h=56 w=56",
         lambda x: formulas.normed(x, (2, 3)).to(x.dtype), lambda x: plain.normed(x, (2, 3)),
         lambda t, x: t.nn.functional.instance_norm(x)),
    norm("batch norm, training", "f16[n,c,h,w]", "n=64 c=256 h=56 w=56",
         lambda x: formulas.normed(x, (0, 2, 3)).to(x.dtype), lambda x: plain.normed(x, (0, 2, 3)),
         lambda t, x: t.nn.functional.batch_norm(x, None, None, training=True)),
    norm("batch norm, inference", "f16[n,c,h,w], f16[c], f16[c]", "n=64 c=256 h=56 w=56",
         lambda x, m, s: ops.batch_norm(x, m, s * s), lambda x, m, s: _scaled(x, m, s),
         lambda t, x, m, s: t.nn.functional.batch_norm(x, m, s * s)),
    norm("rows of length 1", "f16[m,n]", WIDE,
         lambda x: (x * tile.rsqrt(tile.sum(x.to(tile.f32) * x.to(tile.f32), axis=1, keepdims=True))).to(x.dtype),
         lambda x: x / np.sqrt((x * x).sum(axis=1, keepdims=True)), lambda t, x: t.nn.functional.normalize(x, dim=1)),
)  # fmt: skip


def _quantised(y: Any) -> tuple[Any, Any]:
    """i8, and the scale of each row."""
    scale = tile.max(tile.abs(y), axis=-1, keepdims=True) / 127
    return tile.round(y / scale).to(tile.i8), scale


def _rounded(y: Any) -> tuple[Any, Any]:
    scale = np.abs(y).max(axis=-1, keepdims=True) / 127
    return np.rint(y / scale), scale


def _torch_quantised(t: Any, y: Any) -> tuple[Any, Any]:
    scale = y.abs().amax(-1, keepdim=True) / 127
    return t.round(y / scale).to(t.int8), scale


def _grouped(x: Any, normed: Callable[[Any, Any], Any]) -> Any:
    """Groups of a quarter of the channels."""
    n, c, h, w = x.shape
    y = normed(x.reshape((n, 4, c // 4, h, w)), (2, 3, 4)).reshape((n, c, h, w))
    return y.to(x.dtype) if hasattr(y, "to") else y


def _scaled(x: Any, mean: Any, deviation: Any) -> Any:
    mean, variance = mean[:, None, None], (deviation * deviation)[:, None, None]
    return (x - mean) / np.sqrt(variance + 1e-5)

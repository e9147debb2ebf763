"""Products with work before them (prologues), behind them (epilogues) and beside them."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.zoo import formulas
from benchmarks.zoo import numpy_functions as plain
from benchmarks.zoo.case import Family
from tiledsl import ops, tile

row = Family("fused products")
TWO, SIZES = "f16[m,k], f16[k,n]*0.05", "m=4096 n=4096 k=4096"


def _torch_normed(t: Any, x: Any) -> Any:
    return t.nn.functional.rms_norm(x, x.shape[-1:], None, 1e-5)


FUSED_PRODUCTS = (
    row("x @ w + b", f"{TWO}, f16[n]", SIZES, lambda x, w, b: x @ w + b, None, lambda t, x, w, b: t.addmm(b, x, w)),
    row("a x @ w + c y", f"{TWO}, f16[m,n]", SIZES, lambda x, w, y: 0.5 * (x @ w) + 2 * y, None,
        lambda t, x, w, y: t.addmm(y, x, w, alpha=0.5, beta=2)),
    row("gelu(x @ w)", TWO, SIZES, lambda x, w: tile.gelu(x @ w), lambda x, w: plain.gelu(x @ w),
        lambda t, x, w: t.nn.functional.gelu(x @ w)),
    row("gelu(x @ w + r)", f"{TWO}, f16[m,n]", SIZES, lambda x, w, r: tile.gelu(x @ w + r),
        lambda x, w, r: plain.gelu(x @ w + r), lambda t, x, w, r: t.nn.functional.gelu(x @ w + r)),
    row("relu(x @ w + b) + r", f"{TWO}, f16[n], f16[m,n]", SIZES, lambda x, w, b, r: tile.relu(x @ w + b) + r,
        lambda x, w, b, r: np.maximum(x @ w + b, 0) + r, lambda t, x, w, b, r: t.relu(t.addmm(b, x, w)) + r),
    row("(x @ w) * s * t", "i8[m,k], i8[n,k], f32[m,1], f32[n]", SIZES,
        lambda x, w, s, c: (tile.dot(x, w.T).to(tile.f32) * s * c).to(tile.bf16),
        lambda x, w, s, c: (x.astype(int) @ w.astype(int).T) * s * c,
        lambda t, x, w, s, c: (t._int_mm(x, w.T).float() * s * c).bfloat16()),
    row("gated", "f16[m,k], f16[k,n]*0.05, f16[k,n]*0.05", "m=4096 n=11008 k=4096",
        lambda x, w, v: tile.silu(x @ w) * (x @ v), lambda x, w, v: plain.silu(x @ w) * (x @ v),
        lambda t, x, w, v: t.nn.functional.silu(x @ w) * (x @ v)),
    row("gated, one weight", "f16[m,k], f16[k,n]*0.05", "m=4096 n=22016 k=4096",
        lambda x, w: ops.swiglu(x @ w), lambda x, w: _halves(x @ w), lambda t, x, w: _torch_halves(t, x @ w)),
    row("rms norm of x @ w", TWO, SIZES, lambda x, w: formulas.rms_norm(x @ w), lambda x, w: plain.rms_norm(x @ w),
        lambda t, x, w: _torch_normed(t, x @ w)),
    row("layer norm of x @ w + b + r", "f16[m,k], f16[k,n]*0.05, f16[n], f16[m,n], f16[n], f16[n]",
        "m=8192 n=1024 k=4096", lambda x, w, b, r, g, c: formulas.layer_norm(x @ w + b + r, g, c),
        lambda x, w, b, r, g, c: plain.layer_norm(x @ w + b + r, g, c),
        lambda t, x, w, b, r, g, c: t.nn.functional.layer_norm(t.addmm(b, x, w) + r, g.shape, g, c)),
    row("softmax of x @ w", TWO, SIZES, lambda x, w: tile.softmax(x @ w), lambda x, w: plain.softmax(x @ w),
        lambda t, x, w: t.softmax(x @ w, -1)),
    row("largest of x @ w", TWO, "m=4096 n=32000 k=4096", lambda x, w: tile.max(x @ w, axis=1),
        lambda x, w: (x @ w).max(axis=1), lambda t, x, w: t.amax(x @ w, 1)),
    row("argmax of x @ w", TWO, "m=512 n=32000 k=4096", lambda x, w: tile.argmax(tile.dot(x, w), axis=1),
        lambda x, w: (x @ w).argmax(axis=1), lambda t, x, w: (x @ w).argmax(1)),
    row("sum of columns of x @ w", TWO, SIZES, lambda x, w: tile.sum(tile.dot(x, w), axis=0),
        lambda x, w: (x @ w).sum(axis=0), lambda t, x, w: (x @ w).float().sum(0)),
    row("distances of points", "f16[m,k], f16[n,k]", "m=8192 n=8192 k=128", lambda x, y: _distances(x, y),
        lambda x, y: ((x[:, None] - y[None]) ** 2).sum(axis=-1),
        lambda t, x, y: (x.float() ** 2).sum(1)[:, None] + (y.float() ** 2).sum(1) - 2 * (x @ y.T)),
    row("(x @ w) turned", TWO, SIZES, lambda x, w: (x @ w).T * 2, None, lambda t, x, w: ((x @ w).T * 2).contiguous()),
    row("heads of x @ w", "f16[b,s,k], f16[k,c]*0.05", "b=4 s=2048 k=4096 c=4096",
        lambda x, w: _heads(x @ w), lambda x, w: _heads(x @ w), lambda t, x, w: _heads(x @ w).contiguous(),
        small="c=32"),
    row("(rms norm of x) @ w", "f16[m,k], f16[k,n]*0.05", SIZES, lambda x, w: formulas.rms_norm(x) @ w,
        lambda x, w: plain.rms_norm(x) @ w, lambda t, x, w: _torch_normed(t, x) @ w),
    row("(layer norm of x) @ w + b", "f16[m,k], f16[k], f16[k], f16[k,n]*0.05, f16[n]", "m=8192 k=768 n=2304",
        lambda x, g, c, w, b: formulas.layer_norm(x, g, c) @ w + b,
        lambda x, g, c, w, b: plain.layer_norm(x, g, c) @ w + b,
        lambda t, x, g, c, w, b: t.addmm(b, t.nn.functional.layer_norm(x, g.shape, g, c), w)),
    row("silu(x) * y @ w", "f16[m,k], f16[m,k], f16[k,n]*0.05", "m=4096 k=11008 n=4096",
        lambda x, y, w: (tile.silu(x) * y) @ w, lambda x, y, w: (plain.silu(x) * y) @ w,
        lambda t, x, y, w: (t.nn.functional.silu(x) * y) @ w),
    row("x @ w of i8", "f16[m,k], i8[k,n], f16[n]*0.05", "m=256 n=14336 k=4096", lambda x, w, s: x @ w.to(tile.f16) * s,
        lambda x, w, s: x @ w * s, lambda t, x, w, s: x @ w.to(x.dtype) * s),
    row("x @ w of i8, 1 row", "f16[m,k], i8[k,n], f16[n]*0.05", "m=1 n=14336 k=4096",
        lambda x, w, s: x @ w.to(tile.f16) * s, lambda x, w, s: x @ w * s, lambda t, x, w, s: x @ w.to(x.dtype) * s),
    row("x @ w of groups of i8", "f16[m,k], i8[g,c,n], f16[g,1,n]*0.05", "m=256 k=4096 g=32 c=128 n=4096",
        lambda x, w, s: x @ (w.to(tile.f16) * s).reshape((x.shape[1], w.shape[2])),
        lambda x, w, s: x @ (w * s).reshape((x.shape[1], w.shape[2])),
        lambda t, x, w, s: x @ (w.to(s.dtype) * s).reshape(x.shape[1], w.shape[2]), small="k=24 g=2 c=12"),
    row("masked (x @ w)", TWO, SIZES,
        lambda x, w: tile.where(tile.arange(x.shape[0])[:, None] >= tile.arange(w.shape[1]), x @ w, 0),
        lambda x, w: np.tril(x @ w), lambda t, x, w: t.tril(x @ w)),
    row("x @ w, product and column mean", TWO, SIZES, lambda x, w: (x @ w, tile.mean(tile.dot(x, w), axis=0)),
        lambda x, w: (x @ w, (x @ w).mean(axis=0)), lambda t, x, w: (x @ w, (x @ w).float().mean(0))),
    row("q, k, v of one x", "f16[m,k], f16[k,n]*0.05, f16[k,n]*0.05, f16[k,n]*0.05", SIZES,
        lambda x, q, k, v: (x @ q, x @ k, x @ v)),
    row("low-rank update", "f16[m,k], f16[k,n]*0.05, f16[k,r]*0.05, f16[r,n]*0.05", "m=4096 n=4096 k=4096 r=16",
        lambda x, w, a, b: x @ w + (x @ a) @ b),
    row("multilayer perceptron", "f16[m,k], f16[k,h]*0.05, f16[h,n]*0.05", "m=4096 k=1024 h=4096 n=1024",
        lambda x, w, v: tile.gelu(x @ w) @ v, lambda x, w, v: plain.gelu(x @ w) @ v,
        lambda t, x, w, v: t.nn.functional.gelu(x @ w) @ v),
    row("narrow perceptron", "f16[m,k], f16[k,h]*0.2, f16[h,h]*0.2, f16[h,k]*0.2", "m=1048576 k=16 h=64",
        lambda x, w, v, u: tile.relu(tile.relu(x @ w) @ v) @ u,
        lambda x, w, v, u: np.maximum(np.maximum(x @ w, 0) @ v, 0) @ u,
        lambda t, x, w, v, u: t.relu(t.relu(x @ w) @ v) @ u),
)  # fmt: skip


def _halves(y: Any) -> Any:
    left, right = np.split(y, 2, axis=-1)
    return plain.silu(left) * right


def _torch_halves(t: Any, y: Any) -> Any:
    left, right = y.chunk(2, -1)
    return t.nn.functional.silu(left) * right


def _distances(x: Any, y: Any) -> Any:
    a, b = x.to(tile.f32), y.to(tile.f32)
    return tile.sum(a * a, axis=1)[:, None] + tile.sum(b * b, axis=1) - 2 * tile.dot(x, y.T)


def _heads(y: Any) -> Any:
    """[B, S, H * D] to [B, H, S, D], H = 4 ... of 32 channels and 32 of 4096."""
    b, s, c = y.shape
    h = max(1, c // 128)
    y = y.reshape((b, s, h, c // h))
    return y.permute(0, 2, 1, 3) if hasattr(y, "permute") else y.transpose(0, 2, 1, 3)

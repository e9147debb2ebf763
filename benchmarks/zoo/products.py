"""Bare products: square, few waves, skinny, deep, batched; every order of memory and dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.zoo.case import Family, Formula, ZooCase
from tiledsl import tile

row = Family("products")


def _plain(name: str, m: int, n: int, k: int, dtype: str = "bf16", torch: Formula | None = None) -> ZooCase:
    return row(
        f"product, {name}", f"{dtype}[m,k], {dtype}[k,n]*0.05", f"m={m} n={n} k={k}", lambda x, w: x @ w, None, torch
    )


def _torch_of_f8(t: Any, x: Any, w: Any) -> Any:
    """PyTorch multiplies f8 by a function of its own, which wants scales."""
    if x.dtype.itemsize > 1:
        return x @ w.T
    one = t.ones((), device=x.device)
    return t._scaled_mm(x, w.T, one, one, out_dtype=t.bfloat16)


PRODUCTS = (
    _plain("4096", 4096, 4096, 4096),
    _plain("8192, f16", 8192, 8192, 8192, "f16"),
    _plain("512", 512, 512, 512),
    _plain("few waves", 777, 4096, 4096),
    _plain("uneven", 2000, 1000, 3000),
    _plain("odd", 1999, 1001, 3001),
    _plain("192 rows", 192, 8192, 8192),
    _plain("64 columns", 16384, 64, 4096),
    _plain("16 rows", 16, 8192, 8192),
    _plain("1 row", 1, 8192, 8192),
    _plain("1 column", 8192, 1, 8192),
    _plain("deep", 64, 64, 262144),
    _plain("deep and wide", 256, 256, 65536),
    _plain("shallow", 8192, 8192, 64),
    _plain("tall", 131072, 256, 256),
    _plain("f32", 2048, 2048, 2048, "f32"),
    _plain("f64", 1024, 1024, 1024, "f64"),
    row("product, tf32", "f32[m,k], f32[k,n]*0.05", "m=4096 n=4096 k=4096",
        lambda x, w: tile.dot(x, w, precision="tf32"), lambda x, w: x @ w, lambda t, x, w: x @ w, tf32=True),
    row("product, f32 out of bf16", "bf16[m,k], bf16[k,n]*0.05", "m=4096 n=4096 k=4096", lambda x, w: tile.dot(x, w),
        lambda x, w: x @ w, lambda t, x, w: (x @ w).float()),
    row("product, i8", "i8[m,k], i8[n,k]", "m=4096 n=4096 k=4096", lambda x, w: tile.dot(x, w.T),
        lambda x, w: x.astype(np.int32) @ w.astype(np.int32).T, lambda t, x, w: t._int_mm(x, w.T)),
    row("product, f8", "f8e4m3[m,k], f8e4m3[n,k]*0.05", "m=4096 n=4096 k=4096",
        lambda x, w: tile.dot(x, w.T).to(tile.bf16), lambda x, w: x @ w.T,
        _torch_of_f8),
    row("product, right operand turned", "bf16[m,k], bf16[n,k]*0.05", "m=4096 n=4096 k=4096", lambda x, w: x @ w.T),
    row("product, left operand turned", "bf16[k,m], bf16[k,n]*0.05", "m=4096 n=4096 k=4096", lambda x, w: x.T @ w),
    row("product, both turned", "bf16[k,m], bf16[n,k]*0.05", "m=4096 n=4096 k=4096", lambda x, w: x.T @ w.T),
    row("product with itself", "bf16[m,k]*0.2", "m=4096 k=4096", lambda x: x @ x.T),
    row("product, batched", "bf16[b,m,k], bf16[b,k,n]*0.05", "b=64 m=512 n=512 k=512", lambda x, w: x @ w),
    row("product, small ones batched", "f16[b,m,k], f16[b,k,n]", "b=8192 m=32 n=32 k=32", lambda x, w: x @ w),
    row("product, batched with one", "bf16[b,m,k], bf16[k,n]*0.05", "b=32 m=512 n=1024 k=1024", lambda x, w: x @ w),
    row("product, batch in the middle", "bf16[m,b,k], bf16[n,b,k]*0.05", "b=16 m=1024 n=1024 k=512",
        lambda x, w: tile.einsum("mbk,nbk->bmn", x, w).to(tile.bf16), lambda x, w: np.einsum("mbk,nbk->bmn", x, w),
        lambda t, x, w: t.einsum("mbk,nbk->bmn", x, w)),
    row("product, batches side by side", "bf16[m,k,b], bf16[n,k,b]*0.05", "m=384 n=384 k=384 b=128",
        lambda x, w: tile.einsum("mkb,nkb->mnb", x, w).to(tile.bf16), lambda x, w: np.einsum("mkb,nkb->mnb", x, w),
        lambda t, x, w: t.einsum("mkb,nkb->mnb", x, w)),
    row("product, four by four", "f32[b,4,4], f32[b,4,4]", "b=2000000", lambda x, w: x @ w),
    row("product, sum over two axes", "bf16[m,h,d], bf16[h,d,n]*0.05", "m=4096 h=32 d=128 n=4096",
        lambda x, w: tile.einsum("mhd,hdn->mn", x, w).to(tile.bf16), lambda x, w: np.einsum("mhd,hdn->mn", x, w),
        lambda t, x, w: t.einsum("mhd,hdn->mn", x, w)),
    row("product, heads apart", "bf16[b,s,k], bf16[h,k,d]*0.05", "b=4 s=2048 k=4096 h=32 d=128",
        lambda x, w: tile.einsum("bsk,hkd->bhsd", x, w).to(tile.bf16), lambda x, w: np.einsum("bsk,hkd->bhsd", x, w),
        lambda t, x, w: t.einsum("bsk,hkd->bhsd", x, w)),
    row("products in a row", "bf16[m,k], bf16[k,r]*0.05, bf16[r,n]*0.05", "m=8192 k=4096 r=16 n=4096",
        lambda x, a, b: x @ a @ b),
)  # fmt: skip

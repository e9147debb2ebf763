"""Attention as servers ask for it: keys up to a length, in pages, few queries, the log of sums; latent keys."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from benchmarks.zoo import numpy_functions as plain
from benchmarks.zoo.case import Family
from benchmarks.zoo.formulas import scores, weighted
from benchmarks.zoo.sdpa import sdpa
from tiledsl import ops

row = Family("serving")
DENSE = "f16[b,h,m,d], f16[b,g,n,d], f16[b,g,n,d], i32[b]<8"
PAGED = "f16[b,h,m,d], f16[x,p,g,d], f16[x,p,g,d], i32[b,t]<x, i32[b]<8"
"""The last numbers say how many keys short of all each sequence is."""
MODEL = "h=32 g=8 d=128"
FEW = "b=2 h=4 g=2 n=36 d=16"
FEW_PAGES = "b=2 h=4 g=2 p=8 t=4 x=9 d=16"


def _dense(q: Any, k: Any, v: Any, short: Any, **options: Any) -> Any:
    return ops.attention(q, k, v, seq_lens=k.shape[2] - short, causal=True, **options)


def _paged(q: Any, k: Any, v: Any, tables: Any, short: Any, **options: Any) -> Any:
    lengths = tables.shape[1] * k.shape[1] - short
    return ops.attention(q, k, v, seq_lens=lengths, block_tables=tables, causal=True, **options)


def _plain_dense(q: Any, k: Any, v: Any, short: Any, lse: bool = False) -> Any:
    group, columns = q.shape[1] // k.shape[1], k.shape[2]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    s = q @ k.mT * q.shape[-1] ** -0.5
    away = plain.distances(q.shape[2], columns) - short[:, None, None, None]
    s = s + plain.hidden(away >= 0)
    out = plain.softmax(s) @ v
    return (out, np.log(np.exp(s).sum(axis=-1))) if lse else out


def _plain_paged(q: Any, k: Any, v: Any, tables: Any, short: Any) -> Any:
    k, v = (x[tables].reshape(len(tables), -1, *x.shape[2:]).swapaxes(1, 2) for x in (k, v))
    return _plain_dense(q, k, v, short)


def _torch_seen(t: Any, q: Any, columns: int, short: Any) -> Any:
    first = t.arange(q.shape[2], device=q.device)[:, None] - q.shape[2] + columns
    return first - short[:, None, None, None] - t.arange(columns, device=q.device) >= 0


def _torch_dense(t: Any, q: Any, k: Any, v: Any, short: Any) -> Any:
    return sdpa(t, q, k, v, attn_mask=_torch_seen(t, q, k.shape[2], short), enable_gqa=True)


def _torch_paged(t: Any, q: Any, k: Any, v: Any, tables: Any, short: Any) -> Any:
    k, v = (x[tables.long()].flatten(1, 2).transpose(1, 2) for x in (k, v))
    return _torch_dense(t, q, k, v, short)


def _torch_sums(t: Any, q: Any, k: Any, v: Any, short: Any) -> Any:
    group = q.shape[1] // k.shape[1]
    s = (q @ k.repeat_interleave(group, 1).mT).float() * q.shape[-1] ** -0.5
    s = s.masked_fill(~_torch_seen(t, q, k.shape[2], short), -math.inf)
    return t.softmax(s, -1).to(v.dtype) @ v.repeat_interleave(group, 1), t.logsumexp(s, -1)


def _latent(q: Any, keys: Any) -> Any:
    """All heads share one key; its first part is the value."""
    return weighted(scores(q, keys), keys[..., : keys.shape[-1] - 64])


def _few_queries(q: Any, k: Any, v: Any) -> Any:
    return ops.attention(q, k, v, causal=True)


SERVING = (
    row("decoding, lengths", DENSE, f"{MODEL} b=16 m=1 n=8192", _dense, _plain_dense, _torch_dense, small=FEW),
    row("decoding, log of sums", DENSE, f"{MODEL} b=16 m=1 n=8192", partial(_dense, return_lse=True),
        partial(_plain_dense, lse=True), _torch_sums, small=FEW),
    row("decoding, four queries", "f16[b,h,m,d], f16[b,g,n,d], f16[b,g,n,d]", f"{MODEL} b=16 m=4 n=8192",
        _few_queries, lambda q, k, v: _plain_dense(q, k, v, np.zeros(len(q), np.int64)),
        lambda t, q, k, v: _torch_dense(t, q, k, v, t.zeros(len(q), dtype=t.int32, device=q.device)), small=FEW),
    row("decoding, pages of 16", PAGED, f"{MODEL} b=16 m=1 p=16 t=512 x=8192", _paged, _plain_paged, _torch_paged,
        small=FEW_PAGES),
    row("decoding, pages of 64", PAGED, f"{MODEL} b=16 m=1 p=64 t=128 x=2048", _paged, _plain_paged, _torch_paged,
        small=FEW_PAGES),
    row("decoding, pages, batch 1", PAGED, f"{MODEL} b=1 m=1 p=64 t=128 x=128", _paged, _plain_paged, _torch_paged,
        small=FEW_PAGES),
    row("prefill, pages", PAGED, f"{MODEL} b=2 m=2048 p=64 t=64 x=128", _paged, _plain_paged, _torch_paged,
        small=f"{FEW_PAGES} m=12"),
    row("decoding, latent", "f16[b,h,d], f16[b,n,d]", "b=16 h=128 n=8192 d=576", _latent,
        lambda q, k: plain.softmax(q @ k.mT * q.shape[-1] ** -0.5) @ k[..., : k.shape[-1] - 64],
        lambda t, q, k: t.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ k[..., : k.shape[-1] - 64],
        small="b=2 h=4 n=36 d=80"),
)  # fmt: skip

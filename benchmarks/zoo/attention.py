"""softmax(q k) v in its variants: masks, heads in groups, biases, caps, decoding, widths; and without softmax."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.zoo import formulas
from benchmarks.zoo import numpy_functions as plain
from benchmarks.zoo.case import Family, ZooCase
from benchmarks.zoo.formulas import causal, distances, scores, weighted
from benchmarks.zoo.sdpa import sdpa
from tiledsl import ops, tile

row = Family("attention")
HEADS = "f16[h,m,d], f16[h,n,d], f16[h,n,d]"
SIZES = "h=32 m=4096 n=4096 d=128"
FEW = "h=4 m=36 n=36"
GROUPED = "f16[g,r,m,d], f16[g,n,d], f16[g,n,d]"


def _self(name: str, h: int, length: int, d: int, dtype: str = "f16", causal_too: bool = False) -> ZooCase:
    """Attention of as many queries as keys."""
    sizes = f"h={h} m={length} n={length} d={d}"
    heads = HEADS.replace("f16", dtype)
    if causal_too:
        return row(f"attention, causal{name}", heads, sizes, lambda q, k, v: weighted(causal(scores(q, k), q, k), v),
                   lambda q, k, v: plain.attention(q, k, v, plain.causal(q.shape[-2], k.shape[-2])),
                   lambda t, q, k, v: sdpa(t, q, k, v, is_causal=True), small=FEW)  # fmt: skip
    return row(f"attention{name}", heads, sizes, lambda q, k, v: weighted(scores(q, k), v), plain.attention, sdpa)


def _window(q: Any, k: Any, v: Any, w: int) -> Any:
    away = distances(q, k)
    return weighted(tile.where((away >= 0) & (away < w), scores(q, k), -math.inf), v)


def _near(q: Any, k: Any, w: int) -> Any:
    away = plain.distances(q.shape[-2], k.shape[-2])
    return (away >= 0) & (away < w)


def _torch_near(t: Any, q: Any, k: Any, w: int) -> Any:
    away = _torch_away(t, q, k)
    return (away >= 0) & (away < w)


def _torch_away(t: Any, q: Any, k: Any) -> Any:
    rows, columns = q.shape[-2], k.shape[-2]
    return t.arange(rows, device=q.device)[:, None] + (columns - rows) - t.arange(columns, device=q.device)


def _capped(s: Any, tanh: Any) -> Any:
    return 30 * tanh(s / 30)


def _plain_scores(q: Any, k: Any) -> Any:
    return q @ k.mT * q.shape[-1] ** -0.5


def _with_sinks(q: Any, k: Any, v: Any, sinks: Any) -> Any:
    """A score beside those of the keys, without a value, of each head."""
    s = causal(scores(q, k), q, k)
    sink = sinks.to(tile.f32)[:, None, None]
    top = tile.maximum(tile.max(s, axis=-1, keepdims=True), sink)
    e = tile.exp(s - top)
    total = tile.sum(e, axis=-1, keepdims=True) + tile.exp(sink - top)
    return ((e.to(v.dtype) @ v) / total).to(v.dtype)


def _plain_sinks(q: Any, k: Any, v: Any, sinks: Any) -> Any:
    s = _plain_scores(q, k) + plain.causal(q.shape[-2], k.shape[-2])
    both = np.concatenate([s, np.broadcast_to(sinks[:, None, None], (*s.shape[:-1], 1))], axis=-1)
    return plain.softmax(both)[..., :-1] @ v


def _torch_sinks(t: Any, q: Any, k: Any, v: Any, sinks: Any) -> Any:
    s = (q @ k.mT) * q.shape[-1] ** -0.5
    s = s.masked_fill(_torch_away(t, q, k) < 0, -math.inf)
    both = t.cat([s, sinks[:, None, None].expand(*s.shape[:-1], 1)], -1)
    return t.softmax(both, -1)[..., :-1] @ v


def _alibi(q: Any, k: Any, v: Any, slopes: Any) -> Any:
    away = distances(q, k)
    s = scores(q, k) - slopes[:, None, None] * away.to(tile.f32)
    return weighted(tile.where(away >= 0, s, -math.inf), v)


def _plain_alibi(q: Any, k: Any, v: Any, slopes: Any) -> Any:
    away = plain.distances(q.shape[-2], k.shape[-2])
    return plain.attention(q, k, v, plain.hidden(away >= 0) - slopes[:, None, None] * away)


def _torch_alibi(t: Any, q: Any, k: Any, v: Any, slopes: Any) -> Any:
    away = _torch_away(t, q, k)
    bias = (-slopes[:, None, None] * away).to(q.dtype).masked_fill(away < 0, -math.inf)
    return sdpa(t, q, k, v, attn_mask=bias)


def _lengths(q: Any, k: Any, v: Any, lengths: Any) -> Any:
    """Each sequence has so many keys."""
    s = tile.where(tile.arange(k.shape[-2]) < lengths[:, None, None] + 1, scores(q, k), -math.inf)
    return weighted(s, v)


def _plain_lengths(q: Any, k: Any, v: Any, lengths: Any) -> Any:
    return plain.attention(q, k, v, plain.hidden(np.arange(k.shape[-2]) < lengths[:, None, None] + 1))


def _torch_lengths(t: Any, q: Any, k: Any, v: Any, lengths: Any) -> Any:
    return sdpa(t, q, k, v, attn_mask=t.arange(k.shape[-2], device=q.device) < lengths[:, None, None] + 1)


def _linear(q: Any, k: Any, v: Any) -> Any:
    """Positive features, and the sum that they are divided by."""
    q, k = tile.relu(q) + 1, tile.relu(k) + 1
    state, total = k.mT @ v, tile.sum(k.to(tile.f32), axis=-2, keepdims=True)
    return (tile.dot(q, state) / tile.sum(q.to(tile.f32) * total, axis=-1, keepdims=True)).to(v.dtype)


def _plain_linear(q: Any, k: Any, v: Any) -> Any:
    q, k = np.maximum(q, 0) + 1, np.maximum(k, 0) + 1
    return q @ (k.mT @ v) / (q * k.sum(axis=-2, keepdims=True)).sum(axis=-1, keepdims=True)


def _torch_linear(t: Any, q: Any, k: Any, v: Any) -> Any:
    q, k = t.relu(q) + 1, t.relu(k) + 1
    return q @ (k.mT @ v) / (q.float() * k.float().sum(-2, keepdim=True)).sum(-1, keepdim=True)


def _retention(q: Any, k: Any, v: Any, decay: Any) -> Any:
    """Weights fall with the distance, and nothing is divided."""
    away = distances(q, k)
    fading = tile.exp(away.to(tile.f32) * -tile.abs(decay.to(tile.f32))[:, None, None])
    return tile.where(away >= 0, scores(q, k) * fading, 0).to(v.dtype) @ v


def _plain_retention(q: Any, k: Any, v: Any, decay: Any) -> Any:
    away = plain.distances(q.shape[-2], k.shape[-2])
    fading = np.exp(-away * np.abs(decay)[:, None, None])
    return np.where(away >= 0, _plain_scores(q, k) * fading, 0) @ v


def _torch_retention(t: Any, q: Any, k: Any, v: Any, decay: Any) -> Any:
    away = _torch_away(t, q, k)
    fading = t.exp(-away * decay.float().abs()[:, None, None]).to(q.dtype)
    return ((q @ k.mT) * q.shape[-1] ** -0.5 * fading).masked_fill(away < 0, 0) @ v


def _grouped(q: Any, k: Any, v: Any) -> Any:
    return weighted(scores(q, k[:, None]), v[:, None])


def _plain_grouped(q: Any, k: Any, v: Any) -> Any:
    return plain.softmax(_plain_scores(q, k[:, None])) @ v[:, None]


def _torch_grouped(t: Any, q: Any, k: Any, v: Any) -> Any:
    return sdpa(t, q, k[:, None].expand(-1, q.shape[1], -1, -1), v[:, None].expand(-1, q.shape[1], -1, -1))


def _ops_attention(q: Any, k: Any, v: Any) -> Any:
    return ops.attention(q, k, v, causal=True)


def _normed_heads(q: Any, k: Any, v: Any) -> Any:
    return weighted(scores(formulas.rms_norm(q), formulas.rms_norm(k)), v)


def _torch_normed_heads(t: Any, q: Any, k: Any, v: Any) -> Any:
    q, k = (t.nn.functional.rms_norm(x, x.shape[-1:], None, 1e-5) for x in (q, k))
    return sdpa(t, q, k, v)


ATTENTION = (
    _self("", 32, 4096, 128),
    _self(", d 64", 32, 4096, 64),
    _self(", d 80", 32, 4096, 80),
    _self(", d 256", 16, 4096, 256),
    _self(", short", 768, 197, 64),
    _self(", 16k, bf16", 8, 16384, 128, "bf16"),
    _self(", f32", 16, 1024, 64, "f32"),
    _self("", 32, 4096, 128, causal_too=True),
    _self(", d 64", 32, 1024, 64, causal_too=True),
    row("attention, window of 1024", HEADS, f"{SIZES} w=1024", _window,
        lambda q, k, v, w: plain.attention(q, k, v, plain.hidden(_near(q, k, w))),
        lambda t, q, k, v, w: sdpa(t, q, k, v, attn_mask=_torch_near(t, q, k, w)), small=f"{FEW} w=10", passed="w"),
    row("attention, both sides of 256", HEADS, f"{SIZES} w=256",
        lambda q, k, v, w: weighted(tile.where(tile.abs(distances(q, k)) < w, scores(q, k), -math.inf), v),
        lambda q, k, v, w: plain.attention(q, k, v,
        plain.hidden(np.abs(plain.distances(q.shape[-2], k.shape[-2])) < w)),
        lambda t, q, k, v, w: sdpa(t, q, k, v, attn_mask=_torch_away(t, q, k).abs() < w),
        small=f"{FEW} w=10", passed="w"),
    row("attention, capped", HEADS, SIZES, lambda q, k, v: weighted(_capped(scores(q, k), tile.tanh), v),
        lambda q, k, v: plain.softmax(_capped(_plain_scores(q, k), np.tanh)) @ v,
        lambda t, q, k, v: t.softmax(_capped((q @ k.mT) * q.shape[-1] ** -0.5, t.tanh), -1) @ v),
    row("attention, ALiBi", f"{HEADS}, f32[h]*0.1", SIZES, _alibi, _plain_alibi, _torch_alibi, small=FEW),
    row("attention, bias", f"{HEADS}, f16[h,m,n]", SIZES, lambda q, k, v, b: weighted(scores(q, k) + b, v),
        plain.attention, lambda t, q, k, v, b: sdpa(t, q, k, v, attn_mask=b)),
    row("attention, bias of all heads", f"{HEADS}, f16[m,n]", SIZES, lambda q, k, v, b: weighted(scores(q, k) + b, v),
        plain.attention, lambda t, q, k, v, b: sdpa(t, q, k, v, attn_mask=b)),
    row("attention, mask", f"{HEADS}, i8[m,n]", SIZES,
        lambda q, k, v, b: weighted(tile.where(b >= -7, scores(q, k), -math.inf), v),
        lambda q, k, v, b: plain.attention(q, k, v, plain.hidden(b >= -7)),
        lambda t, q, k, v, b: sdpa(t, q, k, v, attn_mask=b >= -7)),
    row("attention, sinks", f"{HEADS}, f16[h]", SIZES, _with_sinks, _plain_sinks, _torch_sinks, small=FEW),
    row("attention, lengths", f"{HEADS}, i32[h]<n", "h=64 m=512 n=2048 d=128", _lengths, _plain_lengths,
        _torch_lengths),
    row("attention, normed heads", HEADS, SIZES,
        _normed_heads, lambda q, k, v: plain.attention(plain.rms_norm(q), plain.rms_norm(k), v), _torch_normed_heads),
    row("attention, grouped", GROUPED, "g=8 r=4 m=4096 n=4096 d=128", _grouped, _plain_grouped, _torch_grouped),
    row("attention, grouped, ops", "f16[b,h,m,d], f16[b,g,m,d], f16[b,g,m,d]", "b=2 h=32 g=8 m=2048 d=128",
        _ops_attention, lambda q, k, v: plain.attention(q, k, v, plain.causal(q.shape[-2], q.shape[-2])),
        lambda t, q, k, v: sdpa(t, q, k, v, is_causal=True, enable_gqa=True), small="h=4 g=2"),
    row("attention, cross", HEADS, "h=128 m=1024 n=77 d=64", lambda q, k, v: weighted(scores(q, k), v),
        plain.attention, sdpa),
    row("attention, values of 64", "f16[h,m,d], f16[h,n,d], f16[h,n,e]", "h=32 m=4096 n=4096 d=192 e=128",
        lambda q, k, v: weighted(scores(q, k), v), plain.attention, sdpa),
    row("attention, later part", HEADS, "h=32 m=512 n=4608 d=128",
        lambda q, k, v: weighted(causal(scores(q, k), q, k), v),
        lambda q, k, v: plain.attention(q, k, v, plain.causal(q.shape[-2], k.shape[-2])),
        lambda t, q, k, v: sdpa(t, q, k, v, attn_mask=_torch_away(t, q, k) >= 0), small="h=4 m=12 n=36"),
    row("decoding", "f16[h,d], f16[h,n,d], f16[h,n,d]", "h=1024 n=2048 d=128",
        lambda q, k, v: weighted(scores(q[:, None], k), v)[:, 0],
        lambda q, k, v: plain.attention(q[:, None], k, v)[:, 0],
        lambda t, q, k, v: sdpa(t, q[:, None], k, v)[:, 0]),
    row("decoding, grouped", GROUPED, "g=128 r=4 m=1 n=8192 d=128", _grouped, _plain_grouped, _torch_grouped),
    row("decoding, grouped, batch 1", GROUPED, "g=8 r=4 m=1 n=8192 d=128", _grouped, _plain_grouped, _torch_grouped),
    row("linear attention", HEADS, SIZES, _linear, _plain_linear, _torch_linear),
    row("linear attention, bare", HEADS.replace("]", "]*0.1"), SIZES, lambda q, k, v: q @ (k.mT @ v)),
    row("retention", f"{HEADS}, f16[h]*0.1", SIZES, _retention, _plain_retention, _torch_retention, small=FEW),
)  # fmt: skip

"""Attention and tables."""

from __future__ import annotations

import math
from typing import Any

from tiledsl import ops, tile
from tiledsl.importers.torch.register import aten
from tiledsl.ir.dtypes import bool_, i64, u64
from tiledsl.ops.checks import as_tensor, refuse, widened


@aten("embedding")
def embedding(weight: Any, indices: Any, *_: Any) -> Any:
    return ops.embedding(indices, weight)


@aten("scaled_dot_product_attention")
def attention(
    q: Any, k: Any, v: Any, mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, *, scale: Any = None,
    enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """PyTorch's causal mask lets query i see the first i + 1 keys, however many there are."""
    if dropout_p:
        refuse("torch-training", name="scaled_dot_product_attention", detail=f"dropout_p={dropout_p}")
    q, k, v = as_tensor(q), as_tensor(k), as_tensor(v)
    bias: Any = None if mask is None else as_tensor(mask)
    if bias is not None and bias.dtype == bool_:
        bias = tile.where(bias, 0.0, -math.inf).to(q.dtype)
    rows, columns = q.shape[-2], k.shape[-2]
    if is_causal and rows != columns:
        seen = tile.arange(columns) <= tile.arange(rows)[:, None]
        bias = tile.where(seen, 0.0 if bias is None else bias, -math.inf).to(q.dtype)
        is_causal = False
    return ops.attention(q, k, v, bias=bias, causal=is_causal, scale=scale)


@aten("_scaled_dot_product_flash_attention_for_cpu")
def attention_on_cpu(
    q: Any, k: Any, v: Any, dropout_p: float = 0.0, is_causal: bool = False, *, attn_mask: Any = None, scale: Any = None
) -> Any:
    """With the logarithm of the sum of each query's scores, which backward passes read."""
    scores = _scores(q, k, attn_mask, is_causal, scale)
    largest = tile.max(scores, axis=-1, keepdims=True)
    total = tile.log(tile.sum(tile.exp(scores - largest), axis=-1)) + largest[..., 0]
    return attention(q, k, v, attn_mask, dropout_p, is_causal, scale=scale), total


@aten("_scaled_dot_product_flash_attention_for_cpu_backward")
def attention_on_cpu_backward(
    grad: Any, q: Any, k: Any, v: Any, out: Any, total: Any, dropout_p: float, is_causal: bool, *,
    attn_mask: Any = None, scale: Any = None,
) -> Any:  # fmt: skip
    """The gradients of q, k and v."""
    return _gradients(grad, (q, k, v), attn_mask, out, total, is_causal, scale)[:3]


@aten("_scaled_dot_product_flash_attention")
def flash_attention(
    q: Any, k: Any, v: Any, dropout_p: float = 0.0, is_causal: bool = False, return_debug_mask: bool = False, *,
    scale: Any = None,
) -> Any:  # fmt: skip
    """Also sums, lengths of no use here, the state of random numbers that are not drawn."""
    out, total = attention_on_cpu(q, k, v, dropout_p, is_causal, scale=scale)
    rows, columns = as_tensor(q).shape[-2], as_tensor(k).shape[-2]
    state, unused, mask = tile.zeros((2,), u64), tile.zeros((), u64), tile.zeros((0,), out.dtype)
    return out, total, None, None, rows, columns, state, unused, mask


@aten("_scaled_dot_product_flash_attention_backward")
def flash_attention_backward(
    grad: Any, q: Any, k: Any, v: Any, out: Any, total: Any, cum_seq_q: Any, cum_seq_k: Any, max_q: int, max_k: int,
    dropout_p: float, is_causal: bool, *_: Any, scale: Any = None,
) -> Any:  # fmt: skip
    """The gradients of q, k and v."""
    return _gradients(grad, (q, k, v), None, out, total, is_causal, scale)[:3]


@aten("_scaled_dot_product_efficient_attention")
def efficient_attention(
    q: Any, k: Any, v: Any, attn_bias: Any, compute_log_sumexp: bool, dropout_p: float = 0.0, is_causal: bool = False,
    *, scale: Any = None,
) -> Any:  # fmt: skip
    """Sums are padded to a multiple of 32 queries."""
    out, total = attention_on_cpu(q, k, v, dropout_p, is_causal, attn_mask=attn_bias, scale=scale)
    *batch, rows = total.shape
    if not compute_log_sumexp:
        total = tile.zeros((*batch, 0))
    elif rows % _PADDED:
        total = ops.pad(total, [(0, 0)] * len(batch) + [(0, -rows % _PADDED)])
    return out, total, tile.zeros((), i64), tile.zeros((), i64)


@aten("_scaled_dot_product_efficient_attention_backward")
def efficient_attention_backward(
    grad: Any, q: Any, k: Any, v: Any, attn_bias: Any, out: Any, total: Any, philox_seed: Any, philox_offset: Any,
    dropout_p: float, grad_input_mask: Any, is_causal: bool = False, *, scale: Any = None,
) -> Any:  # fmt: skip
    """The gradients of q, k, v and the bias, if that one is asked for."""
    total = as_tensor(total)[..., : as_tensor(q).shape[-2]]
    *gradients, of_bias = _gradients(grad, (q, k, v), attn_bias, out, total, is_causal, scale)
    return *gradients, of_bias if grad_input_mask[3] else None


@aten("_scaled_dot_product_cudnn_attention")
def cudnn_attention(
    q: Any, k: Any, v: Any, attn_bias: Any, compute_log_sumexp: bool, dropout_p: float = 0.0, is_causal: bool = False,
    return_debug_mask: bool = False, *, scale: Any = None,
) -> Any:  # fmt: skip
    """Sums have an axis of one more."""
    out, total = attention_on_cpu(q, k, v, dropout_p, is_causal, attn_mask=attn_bias, scale=scale)
    rows, columns = as_tensor(q).shape[-2], as_tensor(k).shape[-2]
    return out, total[..., None], None, None, rows, columns, tile.zeros((), i64), tile.zeros((), i64), None


@aten("_scaled_dot_product_cudnn_attention_backward")
def cudnn_attention_backward(
    grad: Any, q: Any, k: Any, v: Any, out: Any, total: Any, philox_seed: Any, philox_offset: Any, attn_bias: Any,
    cum_seq_q: Any, cum_seq_k: Any, max_q: int, max_k: int, dropout_p: float, is_causal: bool, *, scale: Any = None,
) -> Any:  # fmt: skip
    """The gradients of q, k and v."""
    return _gradients(grad, (q, k, v), attn_bias, out, as_tensor(total)[..., 0], is_causal, scale)[:3]


_PADDED = 32


def _scores(q: Any, k: Any, bias: Any, is_causal: bool, scale: Any) -> Any:
    """f32 [..., rows, columns] of queries and keys."""
    q, k = as_tensor(q), as_tensor(k)
    scores = tile.dot(q, k.mT) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if bias is not None:
        scores = scores + as_tensor(bias).to(scores.dtype)
    if is_causal:
        scores = tile.where(tile.arange(k.shape[-2]) <= tile.arange(q.shape[-2])[:, None], scores, -math.inf)
    return scores


def _gradients(
    grad: Any, operands: tuple[Any, Any, Any], bias: Any, out: Any, total: Any, is_causal: bool, scale: Any
) -> tuple[Any, Any, Any, Any]:
    """Of q, k, v and the bias, with the shares of keys computed again from the logarithms of their sums."""
    grad, (q, k, v) = as_tensor(grad), map(as_tensor, operands)
    shares = tile.exp(_scores(q, k, bias, is_causal, scale) - as_tensor(total)[..., None])
    own = tile.sum(widened(grad) * widened(as_tensor(out)), axis=-1, keepdims=True)
    of_bias = shares * (tile.dot(grad, v.mT) - own)
    of_scores = (of_bias * (q.shape[-1] ** -0.5 if scale is None else scale)).to(q.dtype)
    of_shares = shares.to(q.dtype)
    return (
        tile.dot(of_scores, k).to(q.dtype), tile.dot(of_scores.mT, q).to(k.dtype),
        tile.dot(of_shares.mT, grad).to(v.dtype), None if bias is None else _summed(of_bias, as_tensor(bias)),
    )  # fmt: skip


def _summed(value: Any, like: Any) -> Any:
    """The gradient of what was broadcast: summed to its shape."""
    extra = value.ndim - like.ndim
    total = tile.sum(value, axis=tuple(range(extra))) if extra else value
    for axis, size in enumerate(like.shape):
        if size == 1 and total.shape[axis] != 1:
            total = tile.sum(total, axis=axis, keepdims=True)
    return total.to(like.dtype)

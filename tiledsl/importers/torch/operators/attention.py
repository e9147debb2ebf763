"""Attention and tables."""

from __future__ import annotations

import math
from typing import Any

from tiledsl import ops, tile
from tiledsl.importers.torch.register import aten
from tiledsl.ir.dtypes import bool_
from tiledsl.ops.checks import as_tensor, refuse_option, widened


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
        refuse_option("scaled_dot_product_attention", "dropout_p", dropout_p, "0", "call `model.eval()`")
    q, k, v = as_tensor(q), as_tensor(k), as_tensor(v)
    bias: Any = None if mask is None else as_tensor(mask)
    if bias is not None and bias.dtype == bool_:
        bias = tile.where(bias, 0.0, -math.inf).to(q.dtype)
    rows, columns = q.shape[-2], k.shape[-2]
    if is_causal and rows != columns:
        seen = tile.arange(columns) <= tile.arange(rows)[:, None]
        bias = tile.where(seen, 0.0, -math.inf).to(q.dtype)
        is_causal = False
    return ops.attention(q, k, v, bias=bias, causal=is_causal, scale=scale)


@aten("_scaled_dot_product_flash_attention_for_cpu")
def attention_on_cpu(
    q: Any, k: Any, v: Any, dropout_p: float = 0.0, is_causal: bool = False, *, attn_mask: Any = None, scale: Any = None
) -> Any:
    """With the logarithm of the sum of each query's scores, which backward passes read."""
    q, k = as_tensor(q), as_tensor(k)
    scores = tile.dot(q, k.mT) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if attn_mask is not None:
        scores = scores + as_tensor(attn_mask).to(scores.dtype)
    if is_causal:
        scores = tile.where(tile.arange(k.shape[-2]) <= tile.arange(q.shape[-2])[:, None], scores, -math.inf)
    largest = tile.max(scores, axis=-1, keepdims=True)
    total = tile.log(tile.sum(tile.exp(scores - largest), axis=-1)) + largest[..., 0]
    return attention(q, k, v, attn_mask, dropout_p, is_causal, scale=scale), total


@aten("_scaled_dot_product_flash_attention_for_cpu_backward")
def attention_on_cpu_backward(
    grad: Any, q: Any, k: Any, v: Any, out: Any, total: Any, dropout_p: float, is_causal: bool, *,
    attn_mask: Any = None, scale: Any = None,
) -> Any:  # fmt: skip
    """The gradients of q, k and v, with the shares of keys computed again from the logarithm of their sums."""
    grad, q, k, v = as_tensor(grad), as_tensor(q), as_tensor(k), as_tensor(v)
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    scores = tile.dot(q, k.mT) * factor
    if attn_mask is not None:
        scores = scores + as_tensor(attn_mask).to(scores.dtype)
    if is_causal:
        scores = tile.where(tile.arange(k.shape[-2]) <= tile.arange(q.shape[-2])[:, None], scores, -math.inf)
    shares = tile.exp(scores - as_tensor(total)[..., None])
    own = tile.sum(widened(grad) * widened(as_tensor(out)), axis=-1, keepdims=True)
    of_scores = (shares * (tile.dot(grad, v.mT) - own) * factor).to(q.dtype)
    of_shares = shares.to(q.dtype)
    return (
        tile.dot(of_scores, k).to(q.dtype), tile.dot(of_scores.mT, q).to(k.dtype),
        tile.dot(of_shares.mT, grad).to(v.dtype),
    )  # fmt: skip

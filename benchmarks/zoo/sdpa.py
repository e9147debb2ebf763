"""PyTorch's fused attention, for queries, keys and values with three or four axes."""

from __future__ import annotations

from typing import Any


def sdpa(t: Any, q: Any, k: Any, v: Any, attn_mask: Any = None, **more: Any) -> Any:
    """PyTorch's fused kernels ask for four axes, of masks of heads too; what has three is computed step by step."""
    heads = q.ndim == 3
    if heads:
        q, k, v = q[None], k[None], v[None]
        attn_mask = attn_mask[None] if attn_mask is not None and attn_mask.ndim == 3 else attn_mask
    result = t.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, **more)
    return result[0] if heads else result

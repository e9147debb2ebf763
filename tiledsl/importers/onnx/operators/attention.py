"""Attention, kept whole where it is plain; what else the operator can do is what ONNX defines it by."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import math
from typing import Any

from tiledsl import ops, tile
from tiledsl.importers.onnx.call import Call
from tiledsl.importers.onnx.register import operator


def _heads(x: Any, count: int) -> Any:
    """[batch, length, heads * width] as [batch, heads, length, width]."""
    if x.ndim == 4:
        return x
    batch, length, width = x.shape
    return x.reshape((batch, length, count, width // count)).transpose((0, 2, 1, 3))


@operator("Attention", since=23, kind="values")
def attention(
    q: Any, k: Any, v: Any, mask: Any = None, past_key: Any = None, past_value: Any = None, lengths: Any = None, *,
    is_causal: int = 0, kv_num_heads: int = 0, left_window_size: int = -1, q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0, right_window_size: int = -1, scale: float | None = None, softcap: float = 0.0,
    softmax_precision: int = 0, node: Call,
) -> Any:  # fmt: skip
    others = (mask, past_key, past_value, lengths)
    queries, keys = (node.shape(x) for x in (q, k))
    windows = left_window_size >= 0 or right_window_size >= 0
    apart = bool(is_causal) and queries[-2] != keys[-2]  # the first query is at the first key here
    if any(x is not None for x in others) or softcap or windows or any(map(node.wants, (1, 2, 3))):
        return NotImplemented

    def formula(q: Any, k: Any, v: Any) -> Any:
        wide = _heads(q, q_num_heads), _heads(k, kv_num_heads), _heads(v, kv_num_heads)
        bias = None
        if apart:
            seen = tile.arange(queries[-2])[:, None] >= tile.arange(keys[-2])[None, :]
            bias = tile.where(seen, 0.0, -math.inf)
        y = ops.attention(*wide, bias=bias, causal=bool(is_causal) and not apart, scale=scale)
        return y if q.ndim == 4 else y.transpose((0, 2, 1, 3)).reshape((*q.shape[:2], y.shape[1] * y.shape[3]))

    return node.formula(formula, q, k, v)

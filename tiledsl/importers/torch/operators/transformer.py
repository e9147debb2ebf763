"""Layers of transformers that PyTorch runs as one operator in evaluation."""

from __future__ import annotations

from typing import Any

from tiledsl import ops
from tiledsl.importers.torch.register import aten
from tiledsl.ops.checks import as_tensor, refuse_option

_UNMASKED = "call the layer without a mask, or in training mode, where PyTorch takes it apart"


@aten("_transformer_encoder_layer_fwd")
def encoder_layer(
    x: Any, embed_dim: int, num_heads: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any, proj_bias: Any,
    use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Any, norm_bias_1: Any, norm_weight_2: Any,
    norm_bias_2: Any, ffn_weight_1: Any, ffn_bias_1: Any, ffn_weight_2: Any, ffn_bias_2: Any, mask: Any = None,
    mask_type: int | None = None,
) -> Any:  # fmt: skip
    """Attention of a sequence [batch, length, width] to itself and a perceptron, each with a residual and a norm."""
    if mask is not None:
        refuse_option("_transformer_encoder_layer_fwd", "mask", f"of type {mask_type}", "None", _UNMASKED)

    def first_norm(value: Any) -> Any:
        return ops.layer_norm(value, embed_dim, norm_weight_1, norm_bias_1, eps)

    def second_norm(value: Any) -> Any:
        return ops.layer_norm(value, embed_dim, norm_weight_2, norm_bias_2, eps)

    def attended(value: Any) -> Any:
        return _self_attention(value, num_heads, (qkv_weight, qkv_bias), (proj_weight, proj_bias))

    def perceptron(value: Any) -> Any:
        hidden = ops.linear(value, ffn_weight_1, ffn_bias_1)
        return ops.linear(ops.gelu(hidden) if use_gelu else ops.relu(hidden), ffn_weight_2, ffn_bias_2)

    x = as_tensor(x)
    if norm_first:
        x = x + attended(first_norm(x))
        return x + perceptron(second_norm(x))
    x = first_norm(x + attended(x))
    return second_norm(x + perceptron(x))


def _self_attention(x: Any, heads: int, into: tuple[Any, Any], out: tuple[Any, Any]) -> Any:
    batch, length, width = x.shape
    projected = ops.linear(x, *into).reshape((batch, length, 3, heads, width // heads))
    q, k, v = (ops.transpose(projected[:, :, part], (0, 2, 1, 3)) for part in range(3))
    attended = ops.transpose(ops.attention(q, k, v), (0, 2, 1, 3)).reshape((batch, length, width))
    return ops.linear(attended, *out)

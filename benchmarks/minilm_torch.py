"""The encoder of examples/minilm.py by functions of PyTorch, with the same weights: a peer to be timed beside it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from minilm_weights import Array, Weights

HEADS = 12
EPS = 1e-12


class TorchEncoder:
    """Called with tokens[B, L] and mask[B, L], i64 and i32, of the device. Gives f32 embeddings[B, E]."""

    def __init__(self, torch: Any, weights: Weights, device: str, dtype: Any) -> None:
        self.torch = torch
        self.functional: Any = torch.nn.functional

        def tensor(array: Array, turned: bool = False) -> Any:
            # linear layers keep [outputs, inputs]
            made = torch.from_numpy(np.array(np.transpose(array) if turned else array))
            return made.to(device, dtype)

        self.words, self.positions, self.types, self.scale, self.shift = map(
            tensor, (weights.words, weights.positions, weights.types, weights.scale, weights.shift)
        )
        self.layers: list[Any] = [
            SimpleNamespace(**{name: tensor(array, array.ndim == 2) for name, array in vars(layer).items()})
            for layer in weights.layers
        ]

    def __call__(self, tokens: Any, mask: Any) -> Any:
        torch, functional = self.torch, self.functional
        x = self.words[tokens] + self.positions[: tokens.shape[1]] + self.types[0]
        x = self._norm(x, self.scale, self.shift)
        hidden = torch.where(mask == 0, -1e4, 0.0).to(x.dtype)[:, None, None, :]
        for layer in self.layers:
            x = self._layer(x, hidden, layer)
        counted = mask[:, :, None].float()
        pooled = (x.float() * counted).sum(1) / counted.sum(1)
        return functional.normalize(pooled, dim=1)

    def _layer(self, x: Any, hidden: Any, w: Any) -> Any:
        functional = self.functional
        batch, length, width = x.shape
        heads = functional.linear(x, w.qkv, w.qkv_bias).view(batch, length, 3, HEADS, width // HEADS)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v, attn_mask=hidden)
        seen = seen.transpose(1, 2).reshape(batch, length, width)
        x = self._norm(functional.linear(seen, w.out, w.out_bias) + x, w.out_scale, w.out_shift)
        up = functional.gelu(functional.linear(x, w.up, w.up_bias))
        return self._norm(functional.linear(up, w.down, w.down_bias) + x, w.down_scale, w.down_shift)

    def _norm(self, x: Any, scale: Any, shift: Any) -> Any:
        return self.functional.layer_norm(x, (x.shape[-1],), scale, shift, EPS)

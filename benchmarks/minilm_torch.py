"""The encoder of examples/minilm.py by functions of PyTorch, with the same weights: a peer to be timed beside it."""

from __future__ import annotations

from typing import Any

import numpy as np

from minilm_weights import Array, Weights

HEADS = 12
EPS = 1e-12


def torch_encoder(torch: Any, weights: Weights, device: str, dtype: Any) -> Any:
    """A module of PyTorch's that is called with tokens[B, L] and mask[B, L], i64 and i32, of the device.

    It gives f32 embeddings[B, E]. Weights are parameters, as compilers of PyTorch want them: what stays where it is.
    """
    functional = torch.nn.functional

    def parameter(array: Array, turned: bool = False) -> Any:
        # linear layers keep [outputs, inputs]
        made = torch.from_numpy(np.array(np.transpose(array) if turned else array))
        return torch.nn.Parameter(made.to(device, dtype), requires_grad=False)

    def norm(x: Any, scale: Any, shift: Any) -> Any:
        return functional.layer_norm(x, (x.shape[-1],), scale, shift, EPS)

    class Layer(torch.nn.Module):  # pyright: ignore[reportUntypedBaseClass]
        def __init__(self, arrays: dict[str, Array]) -> None:
            super().__init__()  # pyright: ignore[reportUnknownMemberType]
            for name, array in arrays.items():
                self.register_parameter(name, parameter(array, array.ndim == 2))

        def forward(self, x: Any, hidden: Any) -> Any:
            w: Any = self
            batch, length, width = x.shape
            heads = functional.linear(x, w.qkv, w.qkv_bias).view(batch, length, 3, HEADS, width // HEADS)
            q, k, v = heads.permute(2, 0, 3, 1, 4)
            seen = functional.scaled_dot_product_attention(q, k, v, attn_mask=hidden)
            seen = seen.transpose(1, 2).reshape(batch, length, width)
            x = norm(functional.linear(seen, w.out, w.out_bias) + x, w.out_scale, w.out_shift)
            up = functional.gelu(functional.linear(x, w.up, w.up_bias))
            return norm(functional.linear(up, w.down, w.down_bias) + x, w.down_scale, w.down_shift)

    class Encoder(torch.nn.Module):  # pyright: ignore[reportUntypedBaseClass]
        def __init__(self) -> None:
            super().__init__()  # pyright: ignore[reportUnknownMemberType]
            for name in ("words", "positions", "types", "scale", "shift"):
                self.register_parameter(name, parameter(getattr(weights, name)))
            self.layers: Any = torch.nn.ModuleList([Layer(vars(layer)) for layer in weights.layers])

        def forward(self, tokens: Any, mask: Any) -> Any:
            w: Any = self
            x = w.words[tokens] + w.positions[: tokens.shape[1]] + w.types[0]
            x = norm(x, w.scale, w.shift)
            hidden = torch.where(mask == 0, -1e4, 0.0).to(x.dtype)[:, None, None, :]
            for layer in self.layers:
                x = layer(x, hidden)
            counted = mask[:, :, None].float()
            pooled = (x.float() * counted).sum(1) / counted.sum(1)
            return functional.normalize(pooled, dim=1)

    return Encoder()

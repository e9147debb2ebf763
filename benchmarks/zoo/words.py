"""The words that layers of models are written in, in the language, in NumPy and in PyTorch."""

from __future__ import annotations

from typing import Any, Protocol

from benchmarks.zoo import formulas
from benchmarks.zoo import numpy_functions as plain
from tiledsl import ops, tile


class Words(Protocol):
    """Images are [N, H, W, C], heads [B, H, S, D]."""

    def relu(self, x: Any) -> Any: ...
    def gelu(self, x: Any) -> Any: ...
    def silu(self, x: Any) -> Any: ...
    def softmax(self, x: Any) -> Any: ...
    def layer_norm(self, x: Any, weight: Any, bias: Any) -> Any: ...
    def rms_norm(self, x: Any, weight: Any) -> Any: ...
    def turned(self, x: Any, *axes: int) -> Any: ...
    def rotated(self, x: Any, cosine: Any, sine: Any) -> Any: ...
    def attention(self, q: Any, k: Any, v: Any, causal: bool = False) -> Any: ...
    def conv(self, x: Any, weight: Any, stride: int = 1, padding: int = 0) -> Any: ...
    def depthwise(self, x: Any, weight: Any) -> Any: ...


class InTile:
    """As a formula has them."""

    relu, gelu, silu, softmax = (staticmethod(f) for f in (tile.relu, tile.gelu, tile.silu, tile.softmax))
    layer_norm, rms_norm = staticmethod(formulas.layer_norm), staticmethod(formulas.rms_norm)
    rotated = staticmethod(formulas.rotated)

    def turned(self, x: Any, *axes: int) -> Any:
        return x.transpose(*axes)

    def attention(self, q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        return ops.attention(q, k, v, causal=causal)

    def conv(self, x: Any, weight: Any, stride: int = 1, padding: int = 0) -> Any:
        return ops.conv2d(x, weight, stride=stride, padding=padding, layout="NHWC")

    def depthwise(self, x: Any, weight: Any) -> Any:
        r, _, c = weight.shape
        weight = weight.transpose(2, 0, 1).reshape((c, r, r, 1))
        return ops.conv2d(x, weight, padding=r // 2, groups=c, layout="NHWC")


class InNumPy:
    """What they mean."""

    gelu, silu, softmax = staticmethod(plain.gelu), staticmethod(plain.silu), staticmethod(plain.softmax)
    layer_norm, rms_norm = staticmethod(plain.layer_norm), staticmethod(plain.rms_norm)
    rotated, conv = staticmethod(plain.rotated), staticmethod(plain.conv)

    def relu(self, x: Any) -> Any:
        return x * (x > 0)

    def turned(self, x: Any, *axes: int) -> Any:
        return x.transpose(*axes)

    def attention(self, q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        return plain.attention(q, k, v, plain.causal(q.shape[-2], k.shape[-2]) if causal else 0.0)

    def depthwise(self, x: Any, weight: Any) -> Any:
        return plain.depthwise(x, weight, 1, weight.shape[0] // 2)


class InTorch:
    """PyTorch's functions, its images in the memory that they have."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.functional = torch.nn.functional
        self.relu, self.gelu, self.silu = torch.relu, self.functional.gelu, self.functional.silu

    def softmax(self, x: Any) -> Any:
        return self.torch.softmax(x, -1)

    def layer_norm(self, x: Any, weight: Any, bias: Any) -> Any:
        return self.functional.layer_norm(x, x.shape[-1:], weight, bias)

    def rms_norm(self, x: Any, weight: Any) -> Any:
        return self.functional.rms_norm(x, x.shape[-1:], weight, 1e-5)

    def turned(self, x: Any, *axes: int) -> Any:
        return x.permute(*axes)

    def rotated(self, x: Any, cosine: Any, sine: Any) -> Any:
        left, right = x.chunk(2, -1)
        return self.torch.cat([left * cosine - right * sine, right * cosine + left * sine], -1)

    def attention(self, q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        grouped = q.shape[1] != k.shape[1]
        return self.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)

    def conv(self, x: Any, weight: Any, stride: int = 1, padding: int = 0) -> Any:
        x, weight = channels_second(x), channels_second(weight)
        return channels_last(self.functional.conv2d(x, weight, stride=stride, padding=padding))

    def depthwise(self, x: Any, weight: Any) -> Any:
        weight = weight.permute(2, 0, 1)[:, None]
        y = self.functional.conv2d(channels_second(x), weight, padding=weight.shape[-1] // 2, groups=x.shape[-1])
        return channels_last(y)


def channels_second(x: Any) -> Any:
    """[N, H, W, C] as PyTorch has it: [N, C, H, W], in the memory that it has."""
    return x.permute(0, 3, 1, 2)


def channels_last(x: Any) -> Any:
    return x.permute(0, 2, 3, 1)

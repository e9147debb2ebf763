"""Layers of models: transformers, vision, mixtures of experts.

Each is written once, over words of the language, of NumPy and of PyTorch: what is held against each other is what the
words mean, and how the compiler puts them together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.zoo.case import Family, ZooCase
from benchmarks.zoo.words import InNumPy, InTile, InTorch, Words

row = Family("blocks")


def _heads(words: Words, x: Any, width: int) -> Any:
    """[B, S, H * D] to [B, H, S, D]."""
    b, s, c = x.shape
    return words.turned(x.reshape((b, s, c // width, width)), 0, 2, 1, 3)


def _joined(words: Words, x: Any) -> Any:
    """[B, H, S, D] to [B, S, H * D]."""
    b, h, s, d = x.shape
    return words.turned(x, 0, 2, 1, 3).reshape((b, s, h * d))


def _decoder(
    m: Words, x: Any, g: Any, q: Any, k: Any, v: Any, o: Any, c: Any, s: Any, n: Any, w: Any, u: Any, d: Any
) -> Any:
    """Llama's: norms of squares, turned heads in groups, a gated perceptron."""
    y, width = m.rms_norm(x, g), 2 * c.shape[-1]
    queries, keys, values = (_heads(m, y @ weight, width) for weight in (q, k, v))
    x = x + _joined(m, m.attention(m.rotated(queries, c, s), m.rotated(keys, c, s), values, causal=True)) @ o
    y = m.rms_norm(x, n)
    return x + (m.silu(y @ w) * (y @ u)) @ d


def _encoder(m: Words, x: Any, qkv: Any, o: Any, g: Any, b: Any, w: Any, v: Any, width: int) -> Any:
    """BERT's: norms behind the sums."""
    size = x.shape[-1]
    y = x @ qkv
    q, k, v_ = (_heads(m, y[..., i * size : (i + 1) * size], width) for i in range(3))
    x = m.layer_norm(x + _joined(m, m.attention(q, k, v_)) @ o, g, b)
    return m.layer_norm(x + m.gelu(x @ w) @ v, g, b)


def _vision(m: Words, x: Any, qkv: Any, o: Any, g: Any, b: Any, w: Any, v: Any, width: int) -> Any:
    """A vision transformer's: norms in front."""
    size = x.shape[-1]
    y = m.layer_norm(x, g, b) @ qkv
    q, k, v_ = (_heads(m, y[..., i * size : (i + 1) * size], width) for i in range(3))
    x = x + _joined(m, m.attention(q, k, v_)) @ o
    return x + m.gelu(m.layer_norm(x, g, b) @ w) @ v


def _crossed(m: Words, x: Any, z: Any, g: Any, q: Any, k: Any, v: Any, o: Any, width: int) -> Any:
    """Queries of x, keys and values of z."""
    y = m.rms_norm(x, g)
    queries, keys, values = (_heads(m, a @ w, width) for a, w in ((y, q), (z, k), (z, v)))
    return x + _joined(m, m.attention(queries, keys, values)) @ o


def _perceptron(m: Words, x: Any, g: Any, w: Any, u: Any, d: Any) -> Any:
    y = m.rms_norm(x, g)
    return x + (m.silu(y @ w) * (y @ u)) @ d


def _bottleneck(m: Words, x: Any, w: Any, v: Any, u: Any, b: Any) -> Any:
    """ResNet's, its norms folded into the weights."""
    y = m.relu(m.conv(x, w) + b)
    return m.relu(m.conv(m.relu(m.conv(y, v, 1, 1) + b), u) + x)


def _convnext(m: Words, x: Any, d: Any, g: Any, b: Any, w: Any, v: Any) -> Any:
    return x + m.gelu(m.layer_norm(m.depthwise(x, d), g, b) @ w) @ v


def _mixer(m: Words, x: Any, g: Any, b: Any, w: Any, v: Any, p: Any, q: Any) -> Any:
    """Perceptrons along tokens, then along channels."""
    y = m.turned(m.layer_norm(x, g, b), 0, 2, 1)
    x = x + m.turned(m.gelu(y @ w) @ v, 0, 2, 1)
    return x + m.gelu(m.layer_norm(x, g, b) @ p) @ q


def _experts(m: Words, x: Any, r: Any, w: Any, v: Any) -> Any:
    """All of a few experts, weighted: [E, K, H] and [E, H, K]."""
    shares = m.softmax(x @ r)
    total = shares[:, 0:1] * (m.silu(x @ w[0]) @ v[0])
    for e in range(1, w.shape[0]):
        total = total + shares[:, e : e + 1] * (m.silu(x @ w[e]) @ v[e])
    return total


def _latent(m: Words, x: Any, down: Any, g: Any, up: Any, q: Any, o: Any, width: int) -> Any:
    """Keys and values out of one narrow vector for each token."""
    y = m.rms_norm(x @ down, g) @ up
    size = y.shape[-1] // 2
    queries, keys, values = (_heads(m, z, width) for z in (x @ q, y[..., :size], y[..., size:]))
    return _joined(m, m.attention(queries, keys, values, causal=True)) @ o


def _case(name: str, arguments: str, sizes: str, block: Callable[..., Any], small: str, passed: str = "") -> ZooCase:
    def torch(t: Any, *tensors: Any) -> Any:
        return block(InTorch(t), *tensors)

    return row(
        name, arguments, sizes, partial(block, InTile()), partial(block, InNumPy()), torch, small=small, passed=passed
    )


_DECODER = (
    "f16[b,s,c], f16[c], f16[c,c]*0.02, f16[c,k]*0.02, f16[c,k]*0.02, f16[c,c]*0.02, f16[s,e], f16[s,e], f16[c], "
    "f16[c,h]*0.02, f16[c,h]*0.02, f16[h,c]*0.02"
)
_ENCODER = "f16[b,s,c], f16[c,3*c]*0.05, f16[c,c]*0.05, f16[c], f16[c], f16[c,h]*0.05, f16[h,c]*0.05"
_SMALL = "b=2 s=12 c=32 h=48"

BLOCKS = (
    _case("decoder layer", _DECODER, "b=1 s=2048 c=4096 k=1024 e=64 h=14336", _decoder, f"{_SMALL} k=16 e=4"),
    _case("decoder layer, batch of 8", _DECODER, "b=8 s=512 c=2048 k=512 e=32 h=8192", _decoder, f"{_SMALL} k=16 e=4"),
    _case("encoder layer, 384 wide", _ENCODER, "b=64 s=128 c=384 h=1536 d=32", _encoder, f"{_SMALL} d=8", "d"),
    _case("encoder layer, 1024 wide", _ENCODER, "b=16 s=512 c=1024 h=4096 d=64", _encoder, f"{_SMALL} d=8", "d"),
    _case("vision transformer layer", _ENCODER, "b=64 s=197 c=768 h=3072 d=64", _vision, f"{_SMALL} d=8", "d"),
    _case("cross-attention layer", "f16[b,s,c], f16[b,n,z], f16[c], f16[c,c]*0.05, f16[z,c]*0.05, f16[z,c]*0.05, "
          "f16[c,c]*0.05", "b=8 s=4096 n=77 c=640 z=768 d=64", _crossed, "b=2 s=12 n=7 c=32 z=20 d=8", "d"),
    _case("gated perceptron layer", "f16[m,c], f16[c], f16[c,h]*0.02, f16[c,h]*0.02, f16[h,c]*0.02",
          "m=2048 c=4096 h=14336", _perceptron, ""),
    _case("gated perceptron layer, 16 tokens", "f16[m,c], f16[c], f16[c,h]*0.02, f16[c,h]*0.02, f16[h,c]*0.02",
          "m=16 c=4096 h=14336", _perceptron, ""),
    _case("bottleneck of an image net", "f16[n,h,h,c], f16[k,1,1,c]*0.05, f16[k,3,3,k]*0.05, f16[c,1,1,k]*0.05, f16[k]",
          "n=32 h=28 c=512 k=128", _bottleneck, "n=2 h=6 c=32 k=8"),
    _case("ConvNeXt's layer", "f16[n,h,h,c], f16[7,7,c]*0.1, f16[c], f16[c], f16[c,k]*0.05, f16[k,c]*0.05",
          "n=32 h=28 c=192 k=768", _convnext, "n=2 h=8 c=12 k=20"),
    _case("mixer layer", "f16[b,s,c], f16[c], f16[c], f16[s,t]*0.05, f16[t,s]*0.05, f16[c,h]*0.05, f16[h,c]*0.05",
          "b=64 s=196 c=512 t=256 h=2048", _mixer, "b=2"),
    _case("eight experts, all of them", "f16[m,c], f16[c,e], f16[e,c,h]*0.05, f16[e,h,c]*0.05",
          "m=2048 c=1024 e=8 h=2048", _experts, "e=3"),
    _case("latent attention layer", "f16[b,s,c], f16[c,r]*0.02, f16[r], f16[r,2*k]*0.05, f16[c,k]*0.02, f16[k,c]*0.05",
          "b=1 s=2048 c=2048 r=512 k=2048 d=128", _latent, "b=2 s=12 c=32 r=12 k=16 d=8", "d"),
)  # fmt: skip

"""What the kernels of the gallery are, written for PyTorch: by its own operation where it has one, else as a formula.

A file of the gallery has its operation beside it (`torchs`); formulas of the others are here. All take `torch` first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from examples.gallery.__main__ import entry_of

Peer = Callable[..., Any]


def peer_of(name: str) -> Peer | None:
    """The operation or formula; None where there is none."""
    own = entry_of(name).torchs
    return FORMULAS.get(name) if own is None else own


def dequantising_gemm(torch: Any, x: Any, packed: Any, scales: Any) -> Any:
    q = torch.stack([packed & 15, packed >> 4], dim=-1).reshape(packed.shape[0], -1).to(x.dtype)
    group = q.shape[1] // scales.shape[1]
    return x @ ((q - 8) * scales.repeat_interleave(group, dim=1)).T


def gpt_step(torch: Any, tokens: Any, words: Any, places: Any, qkv: Any, out: Any, up: Any, down: Any) -> Any:
    def norm(x: Any) -> Any:
        return x * torch.rsqrt((x * x).mean(dim=-1, keepdim=True) + 1e-5)

    length, heads = tokens.shape[0], 4
    x = words[tokens] + places[:length]
    for layer in range(qkv.shape[0]):
        mixed = (norm(x) @ qkv[layer]).reshape(length, 3 * heads, -1).transpose(0, 1)
        q, k, v = (part[None] for part in mixed.split(heads))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)[0]
        x = x + y.transpose(0, 1).reshape(x.shape) @ out[layer]
        x = x + torch.nn.functional.silu(norm(x) @ up[layer]) @ down[layer]
    return norm(x)[-1] @ words.T


def grouped_experts(torch: Any, x: Any, w: Any, first: Any) -> Any:
    bounds = first.tolist()
    return torch.cat([x[bounds[e] : bounds[e + 1]] @ w[e] for e in range(w.shape[0])])


def histogram(torch: Any, x: Any) -> Any:
    bins = torch.floor((x + 4.0) / (8.0 / 64)).to(torch.int64)
    bins = torch.where((bins >= 0) & (bins < 64), bins, 64)
    return torch.zeros(65, dtype=torch.int64, device=x.device).scatter_add_(0, bins, torch.ones_like(bins))[:64]


def image_filter(torch: Any, x: Any) -> Any:
    rows, columns = x.shape
    padded = torch.nn.functional.pad(x, (2, 2, 2, 2))
    total, weights = torch.zeros_like(x), torch.zeros_like(x)
    for r in range(5):
        for s in range(5):
            near = padded[r : r + rows, s : s + columns]
            w = torch.exp(-((r - 2) ** 2 + (s - 2) ** 2) / 8 - 50 * (near - x) ** 2)
            total, weights = total + w * near, weights + w
    return total / weights


def k_means(torch: Any, points: Any, centres: Any) -> Any:
    labels = torch.argmin((centres * centres).sum(dim=1) - 2 * (points @ centres.T), dim=1)
    counts = torch.zeros(centres.shape[0], device=points.device).index_add_(
        0, labels, torch.ones_like(labels, dtype=torch.float32)
    )
    sums = torch.zeros_like(centres).index_add_(0, labels, points)
    return labels, sums / counts.clamp(min=1)[:, None]


def mandelbrot(torch: Any, columns: Any, rows: Any, steps: int) -> Any:
    a, b = torch.broadcast_tensors(columns[None, :], rows[:, None])
    x, y = torch.zeros_like(a), torch.zeros_like(a)
    counts = torch.zeros(a.shape, dtype=torch.int32, device=a.device)
    for _ in range(steps):
        inside = x * x + y * y <= 4
        counts = counts + inside
        x, y = torch.where(inside, x * x - y * y + a, x), torch.where(inside, 2 * x * y + b, y)
    return counts


def quantise_rows(torch: Any, x: Any) -> Any:
    scales = x.abs().amax(dim=1) / 127
    return torch.round(x / scales[:, None]).to(torch.int8), scales


def rotary(torch: Any, x: Any, cos: Any, sin: Any) -> Any:
    low, high = x.chunk(2, dim=2)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], dim=2)


def selective_scan(torch: Any, x: Any, dt: Any, a: Any, b: Any, g: Any) -> Any:
    h, made = torch.zeros_like(a), list[Any]()
    for t in range(x.shape[0]):
        h = torch.exp(dt[t][:, None] * a) * h + (dt[t] * x[t])[:, None] * b[t]
        made.append(h @ g[t])
    return torch.stack(made)


def sink_softmax(torch: Any, x: Any, sink: Any, cap: float) -> Any:
    s = cap * torch.tanh(x / cap)
    with_sink = torch.cat([s, sink[:, None, None].expand(-1, s.shape[1], 1)], dim=2)
    return torch.softmax(with_sink, dim=2)[:, :, :-1]


def stencil(torch: Any, x: Any, rate: float) -> Any:
    inner = x[1:-1, 1:-1]
    change = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * inner
    y = x.clone()
    y[1:-1, 1:-1] += rate * change
    return y


FORMULAS: dict[str, Peer] = {
    formula.__name__: formula
    for formula in (
        dequantising_gemm, gpt_step, grouped_experts, histogram, image_filter, k_means, mandelbrot, quantise_rows,
        rotary, selective_scan, sink_softmax, stencil,
    )
}  # fmt: skip

"""Formulas of whole tensors that are measured, each beside what it is held against, and PyTorch's way of the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.gpu import kernels
from tiledsl import ops, tile

Tensors = tuple[Any, ...]


@dataclass(frozen=True)
class GraphCase:
    """`formula` of tensors that `make(torch)` gives. `expected`: PyTorch's, also called on f64 for the reference.

    `beside`, called with torch and the tensors, gives what does the work that the formula cannot do without: a bare
    product, or the same in tile form. `bar`: what our time may be of that.
    """

    name: str
    formula: Callable[..., Any]
    make: Callable[[Any], Tensors]
    expected: Callable[[Any, Tensors], Any]
    beside: Callable[[Any, Tensors], Callable[[], object]] | None = None
    bar: float | None = None


def attention(q: Any, k: Any, v: Any) -> Any:
    return tile.softmax(q @ k.mT * q.shape[-1] ** -0.5, axis=-1) @ v


def causal_attention(q: Any, k: Any, v: Any) -> Any:
    s = q @ k.mT * q.shape[-1] ** -0.5
    rows, columns = tile.arange(s.shape[-2])[:, None], tile.arange(s.shape[-1])[None, :]
    return tile.softmax(tile.where(rows >= columns, s, -math.inf), axis=-1) @ v


def linear_gelu(x: Any, w: Any, b: Any) -> Any:
    return tile.gelu(x @ w + b)


def linear_norm(x: Any, w: Any, b: Any, r: Any, g: Any, s: Any) -> Any:
    h = x @ w + b + r
    return ops.layer_norm(h, h.shape[-1:], g, s)


def gated(x: Any, w: Any, u: Any) -> Any:
    return tile.silu(x @ w) * (x @ u)


def row_norm(x: Any) -> Any:
    return ops.layer_norm(x, x.shape[-1:])


def log_softmax(x: Any) -> Any:
    return ops.log_softmax(x)


def projected_attention(x: Any, w: Any, b: Any) -> Any:
    """Twelve heads of 32: q, k and v are slices of one projection."""
    batch, length, width = x.shape
    y = (x @ w + b).reshape(batch, length, 3, 12, 32)
    q, k, v = (y[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    return attention(q, k, v).transpose(0, 2, 1, 3).reshape(batch, length, width)


def cases() -> Iterator[GraphCase]:
    """All of them."""
    for length, heads in ((128, 192), (512, 64), (1024, 64), (4096, 16), (16384, 4)):
        for depth in (64, 128):
            yield _attention(length, heads, depth, causal=False)
            yield _attention(length, heads, depth, causal=True)
    for batch in (1, 64):
        yield GraphCase(
            f"QKV projection, attention {batch}x128x384", projected_attention,
            _normals((batch, 128, 384), (384, 1152), (1152,)), _projected,
        )  # fmt: skip
    for m, n, k in ((128, 1536, 384), (8192, 1536, 384), (8192, 4096, 1024), (4096, 4096, 4096)):
        yield GraphCase(
            f"linear, gelu {m}x{n}x{k}", linear_gelu, _normals((m, k), (k, n), (n,)),
            lambda t, a: t.nn.functional.gelu(a[0] @ a[1] + a[2]), _bare, 1.05,
        )  # fmt: skip
    for m, n, k in ((128, 384, 1536), (8192, 384, 384), (8192, 384, 1536), (8192, 768, 3072), (8192, 1024, 4096)):
        yield GraphCase(
            f"linear, residual, layer norm {m}x{n}x{k}", linear_norm,
            _normals((m, k), (k, n), (n,), (m, n), (n,), (n,)),
            lambda t, a: t.nn.functional.layer_norm(a[0] @ a[1] + a[2] + a[3], a[2].shape, a[4], a[5]), _bare, 1.05,
        )  # fmt: skip
    for m, n, k in ((128, 1536, 384), (8192, 4096, 1024), (4096, 11008, 4096)):
        yield GraphCase(
            f"gated {m}x{n}x{k}", gated, _normals((m, k), (k, n), (k, n)),
            lambda t, a: t.nn.functional.silu(a[0] @ a[1]) * (a[0] @ a[2]), _both, 1.05,
        )  # fmt: skip
    rows = _normals((2048, 131072))
    yield GraphCase("layer norm 2048x131072", row_norm, rows,
                    lambda t, a: t.nn.functional.layer_norm(a[0], a[0].shape[1:]))  # fmt: skip
    yield GraphCase("log softmax 2048x131072", log_softmax, rows,
                    lambda t, a: t.nn.functional.log_softmax(a[0], -1))  # fmt: skip


def _normals(*shapes: tuple[int, ...]) -> Callable[[Any], Tensors]:
    """f16 tensors; those of two axes but the first are small enough for sums of products to stay about 1."""

    def make(torch: Any) -> Tensors:
        torch.manual_seed(0)
        made = [torch.randn(*shape, device="cuda") for shape in shapes]
        for number, shape in enumerate(shapes[1:3], 1):
            if len(shape) == 2 and shape != shapes[0]:
                made[number] *= shape[0] ** -0.5
        return tuple(tensor.half() for tensor in made)

    return make


def _attention(length: int, heads: int, depth: int, *, causal: bool) -> GraphCase:
    def expected(torch: Any, tensors: Tensors) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=causal)

    def beside(torch: Any, tensors: Tensors) -> Callable[[], object]:
        plain = [tensor[0] for tensor in tensors]
        return lambda: kernels.attention(*plain, causal=causal)

    name = f"{'causal ' if causal else ''}attention {heads} heads x {length} x {depth}"
    formula = causal_attention if causal else attention
    return GraphCase(name, formula, _normals(*[(1, heads, length, depth)] * 3), expected, beside, 1 / 0.97)


def _projected(torch: Any, tensors: Tensors) -> Any:
    x, w, b = tensors
    y = (x @ w + b).reshape(x.shape[0], x.shape[1], 3, 12, 32).permute(2, 0, 3, 1, 4)
    return torch.nn.functional.scaled_dot_product_attention(*y).transpose(1, 2).reshape(x.shape)


def _bare(torch: Any, tensors: Tensors) -> Callable[[], object]:
    return lambda: kernels.gemm(tensors[0], tensors[1])


def _both(torch: Any, tensors: Tensors) -> Callable[[], object]:
    beside = torch.cat(tensors[1:], 1)
    return lambda: kernels.gemm(tensors[0], beside)

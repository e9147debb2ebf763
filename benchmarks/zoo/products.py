"""What multiplies: products of every shape, with work before and behind them; attention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.zoo.case import Expected, Formula, Shape, ZooCase
from tiledsl import tile
from tiledsl.ir.dtypes import DType, bf16, f16, f32

SMALL = 0.05


def products() -> Iterator[ZooCase]:
    """Bare ones: square, few waves, skinny, deep, batched; and f32."""
    for name, m, n, k in (
        ("4096", 4096, 4096, 4096), ("few waves", 777, 4096, 4096), ("uneven", 2000, 1000, 3000),
        ("192 rows", 192, 8192, 8192), ("16 rows", 16, 8192, 8192), ("1 row", 1, 8192, 8192),
        ("deep", 64, 64, 262144), ("deep and wide", 256, 256, 65536),
    ):  # fmt: skip
        yield _product(f"product, {name}", lambda x, w: x @ w, lambda t, x, w: x @ w, ((m, k), (k, n)), bf16)
    yield _product(
        "product, batched", lambda x, w: x @ w, lambda t, x, w: x @ w, ((64, 512, 512), (64, 512, 512)), bf16
    )
    yield _product("product, f32", lambda x, w: x @ w, lambda t, x, w: x @ w, ((2048, 2048),) * 2, f32)


def with_work() -> Iterator[ZooCase]:
    """Products with something before or behind them."""
    square, row = ((4096, 4096), (4096, 4096)), (4096,)
    gelu = tile.gelu
    yield _with("gelu(x @ w)", lambda x, w: gelu(x @ w), lambda t, x, w: t.nn.functional.gelu(x @ w), square)
    yield _with(
        "gelu(x @ w + r)", lambda x, w, r: gelu(x @ w + r), lambda t, x, w, r: t.nn.functional.gelu(x @ w + r),
        (*square, (4096, 4096)),
    )  # fmt: skip
    yield _with("x @ w + b", lambda x, w, b: x @ w + b, lambda t, x, w, b: t.addmm(b, x, w), (*square, row))
    yield _with("rms norm of x @ w", lambda x, w: _normed(x @ w), lambda t, x, w: _torch_normed(t, x @ w), square)
    yield _with("softmax of x @ w", lambda x, w: tile.softmax(x @ w), lambda t, x, w: t.softmax(x @ w, -1), square)
    yield _with("(rms norm of x) @ w", lambda x, w: _normed(x) @ w, lambda t, x, w: _torch_normed(t, x) @ w, square)
    yield _with(
        "gated", lambda x, w, v: tile.silu(x @ w) * (x @ v), lambda t, x, w, v: t.nn.functional.silu(x @ w) * (x @ v),
        ((4096, 4096), (4096, 11008), (4096, 11008)),
    )  # fmt: skip
    yield _with(
        "product and row sums", lambda x, w: (x @ w, tile.sum(x.to(tile.f32), axis=1)),
        lambda t, x, w: (x @ w, t.sum(x.float(), 1)), square,
    )  # fmt: skip


def attention() -> Iterator[ZooCase]:
    """softmax(q k) v in its variants, heads of 128."""
    heads = ((32, 4096, 128),) * 3
    scale = 128**-0.5

    def plain(q: Any, k: Any, v: Any) -> Any:
        return tile.softmax((q @ k.mT) * scale, axis=-1) @ v

    def sdpa(t: Any, q: Any, k: Any, v: Any, **more: Any) -> Any:
        return t.nn.functional.scaled_dot_product_attention(q, k, v, **more)

    def causal(q: Any, k: Any, v: Any) -> Any:
        i, j = tile.arange(q.shape[1])[:, None], tile.arange(k.shape[1])[None, :]
        return tile.softmax(tile.where(j <= i, (q @ k.mT) * scale, float("-inf")), axis=-1) @ v

    def window(q: Any, k: Any, v: Any) -> Any:
        i, j = tile.arange(q.shape[1])[:, None], tile.arange(k.shape[1])[None, :]
        near = (j <= i) & (i - j < 1024)
        return tile.softmax(tile.where(near, (q @ k.mT) * scale, float("-inf")), axis=-1) @ v

    def torch_window(t: Any, q: Any, k: Any, v: Any) -> Any:
        i = t.arange(q.shape[1], device=q.device)
        near = (i[None, :] <= i[:, None]) & (i[:, None] - i[None, :] < 1024)
        return sdpa(t, q, k, v, attn_mask=near)

    def capped(q: Any, k: Any, v: Any) -> Any:
        return tile.softmax(30 * tile.tanh((q @ k.mT) * (scale / 30)), axis=-1) @ v

    def torch_capped(t: Any, q: Any, k: Any, v: Any) -> Any:
        return t.softmax(30 * t.tanh((q @ k.mT) * (scale / 30)), -1) @ v

    yield _attention("attention", plain, sdpa, heads)
    yield _attention("attention, causal", causal, lambda t, q, k, v: sdpa(t, q, k, v, is_causal=True), heads)
    yield _attention("attention, window of 1024", window, torch_window, heads)
    yield _attention("attention, capped", capped, torch_capped, heads)
    yield _attention(
        "attention, two products of scores",
        lambda q, k, a, b, v: tile.softmax((q @ k.mT + a @ b.mT) * scale, axis=-1) @ v,
        lambda t, q, k, a, b, v: t.softmax((q @ k.mT + a @ b.mT) * scale, -1) @ v,
        (*((16, 4096, 128),) * 2, *((16, 4096, 64),) * 2, (16, 4096, 128)),
    )
    yield _attention(
        "linear attention", lambda q, k, v: q @ (k.mT @ v), lambda t, q, k, v: q @ (k.mT @ v), heads, scale=0.1
    )


def _product(name: str, formula: Formula, expected: Expected, shapes: tuple[Shape, ...], dtype: DType) -> ZooCase:
    return ZooCase("products", name, formula, expected, shapes, dtype, (1.0, SMALL))


def _with(name: str, formula: Formula, expected: Expected, shapes: tuple[Shape, ...]) -> ZooCase:
    return ZooCase("epilogues", name, formula, expected, shapes, f16, (1.0, *(SMALL,) * (len(shapes) - 1)))


def _attention(
    name: str, formula: Formula, expected: Expected, shapes: tuple[Shape, ...], scale: float = 1.0
) -> ZooCase:
    return ZooCase("attention", name, formula, expected, shapes, f16, scale)


def _normed(x: Any) -> Any:
    wide = x.to(tile.f32)
    return (wide * tile.rsqrt(tile.mean(wide * wide, axis=-1, keepdims=True) + 1e-5)).to(x.dtype)


def _torch_normed(torch: Any, x: Any) -> Any:
    return torch.nn.functional.rms_norm(x, x.shape[-1:], None, 1e-5)

"""One pass over the tensors, in any layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.zoo import numpy_functions as plain
from benchmarks.zoo.case import Family
from tiledsl import ops, tile

row = Family("elementwise")
FLAT, SQUARE = "n=67108864", "m=8192 n=8192"

ELEMENTWISE = (
    row("add", "f16[n], f16[n]", FLAT, lambda x, y: x + y),
    row("add, f32", "f32[n], f32[n]", FLAT, lambda x, y: x + y),
    row("odd length", "f16[n], f16[n]", "n=33556431", lambda x, y: x * y, small="n=1021"),
    row("odd sizes", "f16[m,n], f16[m,n]", "m=4097 n=8191", lambda x, y: x * y, small="m=17 n=31"),
    row("gelu", "f16[n]", FLAT, tile.gelu, plain.gelu, lambda t, x: t.nn.functional.gelu(x)),
    row(
        "swiglu", "f16[m,n], f16[m,n]", SQUARE, lambda x, y: tile.silu(x) * y, lambda x, y: plain.silu(x) * y,
        lambda t, x, y: t.nn.functional.silu(x) * y,
    ),
    row(
        "softplus and tanh", "f16[n]", FLAT, lambda x: x * tile.tanh(ops.softplus(x)),
        lambda x: x * np.tanh(plain.softplus(x)), lambda t, x: t.nn.functional.mish(x),
    ),
    row(
        "hard swish", "bf16[n]", FLAT, lambda x: x * tile.clip(x / 6 + 0.5, 0, 1),
        lambda x: x * plain.clip(x / 6 + 0.5, 0, 1), lambda t, x: t.nn.functional.hardswish(x),
    ),
    row("bias of rows", "f16[m,n], f16[n]", SQUARE, lambda x, b: x + b),
    row("bias of columns", "f16[m,n], f16[m,1]", SQUARE, lambda x, b: x + b),
    row("bias of channels", "f16[n,c,h,w], f16[c]", "n=64 c=256 h=56 w=56", lambda x, b: x + b[:, None, None]),
    row("outer sum", "f16[m,1], f16[1,n]", SQUARE, lambda a, b: a + b),
    row("x + y.T", "f16[m,m], f16[m,m]", "m=8192", lambda x, y: x + y.T),
    row("three layouts", "f16[a,b,c], f16[b,c], f16[a,1,c]", "a=64 b=1024 c=1024", lambda x, y, z: x * y + z),
    row(
        "masked fill", "f16[m,n], i8[m,n]", SQUARE, lambda x, mask: tile.where(mask > 0, x, -1.0),
        lambda x, mask: np.where(mask > 0, x, -1.0), lambda t, x, mask: x.masked_fill(mask <= 0, -1.0),
    ),
    row(
        "narrowed to bf16", "f32[m,n]", SQUARE, lambda x: (x * 0.5).to(tile.bf16), lambda x: x * 0.5,
        lambda t, x: (x * 0.5).bfloat16(),
    ),
    row(
        "quantised to i8", "f16[m,n], f32[m,1]", SQUARE,
        lambda x, s: tile.clip(tile.round(x.to(tile.f32) / (tile.abs(s) + 1)), -128, 127).to(tile.i8),
        lambda x, s: plain.clip(np.round((x / (np.abs(s) + 1)).astype(np.float32)), -128, 127),
        lambda t, x, s: t.clamp(t.round(x.float() / (s.abs() + 1)), -128, 127).to(t.int8),
    ),
    row(
        "widened from i8", "i8[m,n], f16[m,1]", SQUARE, lambda x, s: x.to(tile.f16) * s, lambda x, s: x * s,
        lambda t, x, s: x.half() * s,
    ),
    row(
        "Adam's step", "f32[n], f32[n], f32[n], f32[n]", "n=33554432",
        lambda p, g, m, v: _adam(p, g, m, v, tile.sqrt),
        lambda p, g, m, v: _adam(p, g, m, v, np.sqrt),
        lambda t, p, g, m, v: _adam(p, g, m, v, t.sqrt),
    ),
    row(
        "residual, bias, gelu", "f16[m,n], f16[m,n], f16[n]", SQUARE, lambda x, r, b: r + tile.gelu(x + b),
        lambda x, r, b: r + plain.gelu(x + b), lambda t, x, r, b: r + t.nn.functional.gelu(x + b),
    ),
)  # fmt: skip


def _adam(p: Any, g: Any, m: Any, v: Any, root: Callable[[Any], Any]) -> Any:
    """Parameters, and the first and second moments of their gradients (v is squared here: no test may have v < 0)."""
    m = 0.9 * m + 0.1 * g
    v = 0.999 * (v * v) + 0.001 * (g * g)
    return p - 1e-3 * m / (root(v) + 1e-8), m, v

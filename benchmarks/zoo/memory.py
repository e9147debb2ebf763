"""What moves memory: elementwise formulas, folds over every axis, norms, joins and slices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.zoo.case import Expected, Formula, Shape, ZooCase
from tiledsl import tile


def elementwise() -> Iterator[ZooCase]:
    """One pass over the tensors, in any layout."""
    flat = (1 << 26,)
    yield _elementwise("add", lambda x, y: x + y, lambda t, x, y: x + y, (flat, flat))
    yield _elementwise("gelu", tile.gelu, lambda t, x: t.nn.functional.gelu(x), (flat,))
    yield _elementwise(
        "swiglu", lambda x, y: tile.silu(x) * y, lambda t, x, y: t.nn.functional.silu(x) * y, ((8192, 8192),) * 2
    )
    yield _elementwise("bias of rows", lambda x, b: x + b, lambda t, x, b: x + b, ((8192, 8192), (8192,)))
    yield _elementwise("bias of columns", lambda x, b: x + b, lambda t, x, b: x + b, ((8192, 8192), (8192, 1)))
    yield _elementwise("outer sum", lambda a, b: a + b, lambda t, a, b: a + b, ((8192, 1), (1, 8192)))
    yield _elementwise("x + y.T", lambda x, y: x + y.T, lambda t, x, y: x + y.T, ((8192, 8192),) * 2)
    yield _elementwise("odd sizes", lambda x, y: x * y, lambda t, x, y: x * y, ((4097, 8191),) * 2)


def folds() -> Iterator[ZooCase]:
    """Sums, extrema and norms over the first, the last, several and middle axes."""

    def sum_of(axis: Any) -> Callable[[Any], Any]:
        return lambda x: tile.sum(x.to(tile.f32), axis=axis)

    def torch_sum(axis: Any) -> Callable[[Any, Any], Any]:
        return lambda t, x: t.sum(x.float(), dim=axis)

    for name, shape, axis in (
        ("sum of rows", (8192, 8192), 1), ("sum of columns", (8192, 8192), 0), ("sum of all", (8192, 8192), (0, 1)),
        ("sum of the middle axis", (64, 4096, 256), 1), ("sum of long rows", (64, 1 << 20), 1),
        ("sum of short rows", (1 << 20, 64), 1), ("statistics over N, H, W", (64, 256, 56, 56), (0, 2, 3)),
    ):  # fmt: skip
        yield _fold(name, sum_of(axis), torch_sum(axis), (shape,))
    yield _fold("softmax of rows", lambda x: tile.softmax(x, axis=-1), lambda t, x: t.softmax(x, -1), ((8192, 4096),))
    yield _fold("softmax of columns", lambda x: tile.softmax(x, axis=0), lambda t, x: t.softmax(x, 0), ((4096, 8192),))
    yield _fold(
        "log-sum-exp of columns",
        lambda x: _log_sum_exp(x.to(tile.f32), 0), lambda t, x: t.logsumexp(x.float(), 0), ((4096, 8192),),
    )  # fmt: skip
    yield _fold("maximum of columns", lambda x: tile.max(x, axis=0), lambda t, x: t.amax(x, 0), ((4096, 8192),))
    yield _fold(
        "layer norm", _layer_norm, lambda t, x, w, b: t.nn.functional.layer_norm(x, x.shape[-1:], w, b),
        ((8192, 4096), (4096,), (4096,)),
    )  # fmt: skip
    yield _fold("rms norm", _rms_norm, _torch_rms_norm, ((8192, 4096), (4096,)))
    yield _fold("argmax of rows", lambda x: tile.argmax(x, axis=1), lambda t, x: t.argmax(x, 1), ((4096, 50304),))
    yield _fold(
        "running sum of rows", lambda x: tile.cumsum(x.to(tile.f32), axis=1), lambda t, x: t.cumsum(x.float(), 1),
        ((4096, 8192),),
    )  # fmt: skip


def movement() -> Iterator[ZooCase]:
    """Slices, joins, turns and pads of values."""
    yield _moved("transpose", lambda x: x.T + 0, lambda t, x: (x.T + 0).contiguous(), ((8192, 8192),))
    yield _moved("rotary embedding", _rotary, _torch_rotary, ((8, 32, 4096, 128), (4096, 64), (4096, 64)))
    yield _moved(
        "join of two", lambda x, y: tile.concat([x * 2, y + 1], axis=-1), lambda t, x, y: t.cat([x * 2, y + 1], -1),
        ((8192, 4096),) * 2,
    )  # fmt: skip
    yield _moved(
        "halves", lambda x: tile.silu(x[:, :4096]) * x[:, 4096:],
        lambda t, x: t.nn.functional.silu(x[:, :4096]) * x[:, 4096:], ((8192, 8192),),
    )  # fmt: skip


def _elementwise(name: str, formula: Formula, expected: Expected, shapes: tuple[Shape, ...]) -> ZooCase:
    return ZooCase("elementwise", name, formula, expected, shapes)


def _fold(name: str, formula: Formula, expected: Expected, shapes: tuple[Shape, ...]) -> ZooCase:
    return ZooCase("folds", name, formula, expected, shapes)


def _moved(name: str, formula: Formula, expected: Expected, shapes: tuple[Shape, ...]) -> ZooCase:
    return ZooCase("movement", name, formula, expected, shapes)


def _log_sum_exp(x: Any, axis: int) -> Any:
    largest = tile.max(x, axis=axis, keepdims=True)
    return tile.log(tile.sum(tile.exp(x - largest), axis=axis)) + tile.sum(largest, axis=axis)


def _layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    wide = x.to(tile.f32)
    centred = wide - tile.mean(wide, axis=-1, keepdims=True)
    variance = tile.mean(centred * centred, axis=-1, keepdims=True)
    return (centred * tile.rsqrt(variance + 1e-5) * weight + bias).to(x.dtype)


def _rms_norm(x: Any, weight: Any) -> Any:
    wide = x.to(tile.f32)
    return (wide * tile.rsqrt(tile.mean(wide * wide, axis=-1, keepdims=True) + 1e-5) * weight).to(x.dtype)


def _torch_rms_norm(torch: Any, x: Any, weight: Any) -> Any:
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, 1e-5)


def _rotary(x: Any, cosine: Any, sine: Any) -> Any:
    half = x.shape[-1] // 2
    left, right = x[..., :half], x[..., half:]
    return tile.concat([left * cosine - right * sine, right * cosine + left * sine], axis=-1)


def _torch_rotary(torch: Any, x: Any, cosine: Any, sine: Any) -> Any:
    left, right = x.chunk(2, -1)
    return torch.cat([left * cosine - right * sine, right * cosine + left * sine], -1)

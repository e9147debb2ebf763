"""Products, attention, positions, dropout and shapes against NumPy in f64."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportCallIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.op_checks import F16, F32, FLOATS, Array, agree, kernels_of, normal, results_of, wide
from tiledsl import TileError, ops, tile


@pytest.mark.parametrize("dtype", FLOATS)
def test_products(dtype: Any) -> None:
    for first, second in (
        ((3, 5), (5, 4)),
        ((2, 3, 5), (5, 4)),
        ((2, 1, 3, 5), (4, 5, 2)),
        ((5,), (5, 3)),
        ((5,), (5,)),
    ):
        a, b = normal(*first, dtype=dtype), normal(*second, dtype=dtype)
        agree(ops.matmul, [a, b], np.matmul(*wide(a, b)), terms=5)
    x, w, b = normal(2, 3, 5, dtype=dtype), normal(7, 5, dtype=dtype), normal(7, dtype=dtype)
    agree(ops.linear, [x, w, b], wide(x)[0] @ wide(w)[0].T + wide(b)[0], terms=5)
    agree(ops.linear, [x[0, 0], w], wide(x)[0][0, 0] @ wide(w)[0].T, terms=5)


def attention(q: Array, k: Array, v: Array, bias: Any, seen: Array, scale: float) -> Any:
    group = q.shape[-3] // k.shape[-3]
    k, v = np.repeat(k, group, axis=-3), np.repeat(v, group, axis=-3)
    s = q @ np.swapaxes(k, -1, -2) * scale + (0 if bias is None else bias)
    s = np.where(seen, s, -np.inf)
    with np.errstate(invalid="ignore"):
        e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ v


def seen_by(rows: int, columns: int, causal: bool = False, window: Any = None, **_: Any) -> Array:
    p, j = np.arange(rows)[:, None] + columns - rows, np.arange(columns)[None, :]
    seen = np.ones((rows, columns), bool)
    seen &= (j <= p) | (not causal)
    return seen if window is None else seen & (abs(p - j) < window)


ATTENTIONS: dict[str, tuple[tuple[int, ...], tuple[int, int], dict[str, Any]]] = {
    "plain": ((2, 3, 5, 8), (3, 7), {}),
    "causal": ((2, 2, 6, 8), (2, 6), {"causal": True}),
    "decoding": ((2, 2, 1, 8), (2, 9), {"causal": True}),
    "grouped": ((2, 6, 5, 4), (2, 7), {"causal": True}),
    "one head for all": ((1, 4, 5, 4), (1, 5), {"scale": 0.3}),
    "window": ((1, 2, 9, 4), (2, 9), {"causal": True, "window": 3}),
    "window on both sides": ((1, 2, 9, 4), (2, 9), {"window": 2}),
    "rows that see nothing": ((1, 1, 6, 4), (1, 4), {"causal": True}),
}


@pytest.mark.parametrize("bias", [None, (4, 1, 1), (1, 1), (1, 1, 1, 1), "all"])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention(name: str, bias: Any) -> None:
    shape, (heads, columns), options = ATTENTIONS[name]
    if bias is not None and name not in ("plain", "grouped"):
        return
    for dtype in FLOATS if bias is None else (F32,):
        q = normal(*shape, dtype=dtype)
        k = normal(shape[0], heads, columns, shape[-1], dtype=dtype, seed=1)
        v = normal(shape[0], heads, columns, 6, dtype=dtype, seed=2)
        arrays = [q, k, v]
        if bias is not None:
            full = (*shape[:-1], columns)
            sizes = full if bias == "all" else tuple(w if n == 4 else n for n, w in zip(bias[::-1], full[::-1]))[::-1]
            sizes = sizes if bias == "all" else (*sizes[:-1], columns)
            arrays.append(normal(*sizes, seed=3))
        expected = attention(
            *wide(q, k, v), wide(arrays[3])[0] if bias is not None else None,
            seen_by(shape[-2], columns, **options), options.get("scale", shape[-1] ** -0.5),
        )  # fmt: skip
        agree(lambda q, k, v, bias=None: ops.attention(q, k, v, bias=bias, **options), arrays, expected, terms=4)


def test_attention_is_one_kernel() -> None:
    q, k = tile.spec((2, 8, 512, 64), tile.f16), tile.spec((2, 2, 512, 64), tile.f16)
    assert kernels_of(lambda q, k, v: ops.attention(q, k, v, causal=True), q, k, k) == 1
    assert kernels_of(lambda q, k, v: ops.attention(q, k, v, causal=True, window=64), q, q, q) == 1


def test_queries_of_one_head_need_no_axis_for_it() -> None:
    q, k = normal(5, 4), normal(6, 4)
    expected = attention(*(x[None] for x in wide(q, k, k)), None, seen_by(5, 6), 0.5)[0]
    agree(ops.attention, [q, k, k], expected, terms=4)


def turned(x: Array, cos: Array, sin: Array, interleaved: bool) -> Array:
    half = x.shape[-1] // 2
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    first, second = a * cos - b * sin, b * cos + a * sin
    if interleaved:
        return np.stack([first, second], axis=-1).reshape(x.shape)
    return np.concatenate([first, second], axis=-1)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_rotary_embedding(dtype: Any, interleaved: bool) -> None:
    angles = normal(5, 3, scale=3.0)
    cos, sin = np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)
    for shape in ((2, 3, 5, 6), (5, 6)):
        x = normal(*shape, dtype=dtype)
        expected = turned(*wide(x, cos, sin), interleaved)
        agree(lambda x, c, s: ops.rotary_embedding(x, c, s, interleaved=interleaved), [x, cos, sin], expected)


def test_rotating_slices_of_one_projection_copies_nothing() -> None:
    def formula(x: Any, w: Any, cos: Any, sin: Any) -> Any:
        qkv = ops.linear(x, w).reshape(2, 128, 3, 8, 64)
        q, k, v = (qkv[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
        q, k = ops.rotary_embedding(q, cos, sin), ops.rotary_embedding(k, cos, sin)
        return ops.attention(q, k, v, causal=True)

    shapes = ((2, 128, 512), (1536, 512), (128, 32), (128, 32))
    # the projection, both rotations (their pairs are in memory), the attention
    assert kernels_of(formula, *(tile.spec(shape, tile.f16) for shape in shapes)) == 3


def test_embedding() -> None:
    table = normal(6, 4, dtype=F16)
    index = np.array([[0, 5, 3], [-1, 6, 2]])
    expected = np.where(((index >= 0) & (index < 6))[..., None], table[np.clip(index, 0, 5)], 0)
    agree(ops.embedding, [index, table], expected, dtype=F16)


def test_dropout_is_repeatable_and_keeps_the_mean() -> None:
    x = np.ones((40, 50), F32)
    ways = list(results_of(lambda x: ops.dropout(x, 0.25, seed=7, offset=5), [x]).values())
    numbers = results_of(lambda x: tile.rand(7, tile.arange(2000) + 5).reshape(40, 50) + x * 0, [x])["graph"]
    for way in ways:
        assert np.allclose(way, np.where(numbers >= 0.25, 1 / 0.75, 0))
    assert abs(ways[0].mean() - 1) < 0.05
    assert not np.array_equal(ways[0], ops.dropout(x, 0.25, seed=8, offset=5))
    assert np.array_equal(ops.dropout(x, 0.25, training=False), x)
    assert not ops.dropout(x, 1.0).any()


def test_shapes() -> None:
    x, y = normal(3, 4), normal(2, 4, seed=1)
    agree(lambda x, y: ops.concat([x, y]), [x, y], np.concatenate([x, y]))
    agree(lambda x, y: ops.concat((x.mT, y.mT), axis=-1), [x, y], np.concatenate([x.T, y.T], axis=-1))
    agree(lambda x: ops.split(x, (1, 3), axis=-1)[1], [x], x[:, 1:])
    agree(lambda x: ops.pad(x, ((1, 0), (0, 2)), 5), [x], np.pad(x, ((1, 0), (0, 2)), constant_values=5))
    agree(
        lambda x: ops.transpose(ops.reshape(x, (2, -1, 3)), (2, 0, 1)) * 2,
        [x],
        x.reshape(2, 2, 3).transpose(2, 0, 1) * 2,
    )
    assert [part.shape for part in ops.split(x, 2, axis=1)] == [(3, 2), (3, 2)]


def test_arrays_from_outside_go_by_the_names_that_the_user_gives_them() -> None:
    projection = normal(5, 4)
    graph = tiledsl.trace(lambda x: ops.linear(x, projection), normal(3, 4))
    assert list(graph.constants) == ["projection"]


Q, K = normal(2, 4, 5, 8), normal(2, 3, 6, 8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.linear(Q, normal(8, 3)), r"ops.linear: `x` of shape \[2, 4, 5, 8\] does not fit .* \[8, 3\]"),
        (lambda: ops.linear(Q, Q), r"not \[out, in\]"),
        (lambda: ops.linear(Q, normal(3, 8), normal(4)), r"there is one bias for each row of the weight"),
        (lambda: ops.attention(Q, K, K), r"`q` of shape \[2, 4, 5, 8\] does not fit `k` of shape .*: a head"),
        (lambda: ops.attention(Q, Q[..., :4], Q), r"the width of a head"),
        (lambda: ops.attention(Q, Q, K), r"each key has a value"),
        (lambda: ops.attention(Q, Q[:1], Q[:1]), r"their leading axes are batches"),
        (lambda: ops.attention(Q, Q, Q, window=0), r"`window` is 0, not an int from 1 on"),
        (lambda: ops.attention(Q, Q, Q, bias=normal(3, 5)), r"a bias broadcasts to the scores, \[2, 4, 5, 5\]"),
        (lambda: ops.attention(Q[0, 0, 0], Q, Q), r"not \[..., heads, length, width\]"),
        (lambda: ops.embedding(Q, Q[0, 0]), r"holds tile.f32, not integers"),
        (lambda: ops.embedding(np.zeros(2, int), Q), r"not \[V, D\]"),
        (lambda: ops.rotary_embedding(Q[..., :3], Q, Q), r"not \[..., S, D\] with an even D"),
        (lambda: ops.rotary_embedding(Q, normal(5, 3), normal(5, 3)), r"tables have a column for each pair"),
        (lambda: ops.dropout(Q, 2.0), r"`p` is 2.0, not a number from 0 to 1"),
    ],
)  # fmt: skip
def test_bad_arguments(call: Any, message: str) -> None:
    with pytest.raises(TileError, match=message):
        call()

"""Attention as servers ask for it: lengths of sequences, pages, soft caps, the log of sums; against NumPy in f64."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportCallIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.compare import assert_close
from tests.support.op_checks import kernels_of, normal, results_of, wide
from tiledsl import TileError, TileRuntimeError, ops, tile

F16, F32 = np.float16, np.float32


def expected(q: Any, k: Any, v: Any, lengths: Any = None, **options: Any) -> tuple[Any, Any]:
    """The result, zeros where nothing is seen, and the log of sums, in f64."""
    group, rows, columns = q.shape[1] // k.shape[1], q.shape[2], k.shape[2]
    q, k, v = wide(q, np.repeat(k, group, axis=1), np.repeat(v, group, axis=1))
    s = q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5
    cap, window, causal = options.get("softcap"), options.get("window"), options.get("causal", False)
    s = s if cap is None else np.tanh(s / cap) * cap
    end = np.full(len(q), columns) if lengths is None else lengths
    end = end[:, None, None, None]
    away = np.arange(rows)[:, None] + end - rows - np.arange(columns)
    seen = np.broadcast_to(np.arange(columns) < end, s.shape) & ((away >= 0) | (not causal))
    seen = seen if window is None else seen & (abs(away) < window)
    top = np.max(s, axis=-1, keepdims=True, where=seen, initial=-1e30)
    e = np.exp(np.where(seen, s - top, -np.inf))
    total = e.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return e @ v / np.maximum(total, 1), (np.log(total) + top)[..., 0]


def in_pages(k: Any, page: int, pages: int) -> tuple[Any, Any]:
    """The keys of each sequence in pages that lie in any order, and their numbers; rows beyond them are anything."""
    batch, heads, columns, width = k.shape
    table = np.reshape(np.random.default_rng(3).permutation(batch * pages + 2)[: batch * pages], (batch, pages))
    cache = normal(batch * pages + 2, page, heads, width, dtype=k.dtype, seed=9)
    for b in range(batch):
        for j in range(columns):
            cache[table[b, j // page], j % page] = k[b, :, j]
    return cache, table.astype(np.int32)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"causal": True},
    {"causal": True, "window": 3},
    {"window": 2},
    {"causal": True, "softcap": 2.0},
]
SHAPES = [(4, 4, 5), (8, 2, 1), (8, 2, 5), (4, 1, 20)]
"""Heads, heads of the keys, queries."""


CASES = [
    (shape, options, (F32, F16)[(i + j) % 2]) for i, shape in enumerate(SHAPES) for j, options in enumerate(OPTIONS)
]
"""Each dtype with each of the shapes, and with each of the options."""


@pytest.mark.parametrize("in_cache", [False, True])
@pytest.mark.parametrize(("shape", "options", "dtype"), CASES)
def test_lengths_and_pages(shape: tuple[int, int, int], options: dict[str, Any], dtype: Any, in_cache: bool) -> None:
    heads, served, queries = shape
    lengths = np.array([0, 4, 21], np.int32)
    q = normal(3, heads, queries, 16, dtype=dtype)
    k, v = (normal(3, served, 21, width, dtype=dtype, seed=width) for width in (16, 12))
    out, lse = expected(q, k, v, lengths, **options)

    def dense(q: Any, k: Any, v: Any, lengths: Any) -> Any:
        return ops.attention(q, k, v, seq_lens=lengths, return_lse=True, **options)

    def paged(q: Any, k: Any, v: Any, tables: Any, lengths: Any) -> Any:
        both = {"seq_lens": lengths, "block_tables": tables}
        return ops.attention(q, k, v, **both, return_lse=True, **options)

    (keys, table), (values, _) = in_pages(k, 4, 7), in_pages(v, 4, 7)
    call, arrays = (paged, [q, keys, values, table, lengths]) if in_cache else (dense, [q, k, v, lengths])
    for found, got in results_of(call, arrays).values():
        assert_close(np.asarray(found), out.astype(dtype), terms=4)
        assert got.dtype == np.float32
        assert np.array_equal(np.isfinite(got), np.isfinite(lse))
        assert np.allclose(got[np.isfinite(lse)], lse[np.isfinite(lse)], atol=1e-2 if dtype == F16 else 1e-5)


@pytest.mark.parametrize("options", OPTIONS)
def test_sums_of_all_keys(options: dict[str, Any]) -> None:
    q, k, v = normal(2, 4, 6, 8), normal(2, 2, 9, 8, seed=1), normal(2, 2, 9, 8, seed=2)
    out, lse = expected(q, k, v, **options)
    got: Any = ops.attention(q, k, v, return_lse=True, **options)
    assert np.allclose(got[0], out, atol=1e-5)
    assert np.allclose(got[1], lse, atol=1e-5)


def test_what_nobody_asks_for_may_be_anything() -> None:
    q, cache, lengths = normal(2, 4, 1, 8), normal(5, 4, 2, 8), np.array([5, 0], np.int32)
    cache[4] = np.nan
    cache[1, 1:] = np.inf
    table = np.array([[0, 1, -7, 99], [4, 4, 4, 4]], np.int32)
    got: Any = ops.attention(q, cache, cache, seq_lens=lengths, block_tables=table)
    keys = np.concatenate([cache[0], cache[1, :1]]).swapaxes(0, 1)[None]
    assert np.allclose(got[:1], expected(q[:1], keys, keys)[0], atol=1e-5)
    assert not got[1].any()


def test_each_is_one_kernel() -> None:
    f16, i32 = tile.f16, tile.i32
    q, k, lengths = tile.spec((2, 8, 4, 64), f16), tile.spec((2, 2, 512, 64), f16), tile.spec((2,), i32)
    cache, table = tile.spec((16, 64, 2, 64), f16), tile.spec((2, 8), i32)
    assert kernels_of(lambda q, k, v: ops.attention(q, k, v, causal=True), q, k, k) == 1
    assert kernels_of(lambda q, k, v, n: ops.attention(q, k, v, causal=True, seq_lens=n), q, k, k, lengths) == 1

    def paged(q: Any, k: Any, v: Any, table: Any, lengths: Any) -> Any:
        return ops.attention(q, k, v, seq_lens=lengths, block_tables=table, causal=True)

    assert kernels_of(paged, q, cache, cache, table, lengths) == 1


Q, CACHE = normal(2, 4, 1, 8), normal(5, 4, 2, 8)
TABLE, LENGTHS = np.array([[0, 1], [2, 3]], np.int32), np.array([5, 8], np.int32)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seq_lens": None}, r"`seq_lens` is None, not a tensor with `block_tables`"),
        ({"seq_lens": LENGTHS.astype(F32)}, r"holds tile.f32, not integers|holds f32, not integers"),
        ({"seq_lens": LENGTHS[:1]}, r"each sequence has a length and a row of pages"),
        ({"block_tables": TABLE[0]}, r"each sequence has a length and a row of pages"),
        ({"softcap": -1.0}, r"`softcap` is -1.0, not a number above 0"),
        ({"bias": Q}, r"not None with `block_tables`"),
        ({"q": Q[:, :3]}, r"a head of the keys serves as many heads"),
        ({"q": Q[..., :4]}, r"the width of a head"),
        ({"q": Q[0]}, r"not \[batch, heads, length, width\]"),
        ({"v": CACHE[:4]}, r"each key has a value"),
        ({"block_tables": None, "k": Q, "v": Q, "seq_lens": LENGTHS[:, None]}, r"each batch has a length"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    given = {"q": Q, "k": CACHE, "v": CACHE, "seq_lens": LENGTHS, "block_tables": TABLE, **options}
    with pytest.raises(TileError, match=message):
        ops.attention(given.pop("q"), given.pop("k"), given.pop("v"), **given)


def test_pages_that_are_not_there_are_found() -> None:
    def check(lengths: Any, table: Any) -> Any:
        return ops.attention.check(Q, CACHE, CACHE, seq_lens=lengths, block_tables=table)

    assert check(LENGTHS, TABLE).ok
    report = check(LENGTHS, np.array([[0, 9], [2, 3]], np.int32))
    assert not report.ok
    assert "reads `k` at 9 along axis 0, whose size is 5" in str(report)
    for wrong in ([5, 9], [-1, 8]):
        with pytest.raises(TileRuntimeError, match="a length is below 0, or more than its pages have"):
            check(np.array(wrong, np.int32), TABLE)


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint32, np.uint64, np.int64])
@pytest.mark.parametrize("options", [{"causal": True}, {"window": 2}, {}])
def test_lengths_of_any_integers(dtype: Any, options: dict[str, Any]) -> None:
    """A sequence may have fewer keys than there are queries: what is behind 0 is no large number."""
    q, k, v = normal(3, 4, 4, 16), normal(3, 2, 40, 16, seed=1), normal(3, 2, 40, 16, seed=2)
    lengths = np.array([3, 40, 1], dtype)
    out, _ = expected(q, k, v, lengths.astype(np.int64), **options)
    close(ops.attention(q, k, v, seq_lens=lengths, **options), out)
    (keys, tables), (values, _) = in_pages(k, 8, 5), in_pages(v, 8, 5)
    close(ops.attention(q, keys, values, seq_lens=lengths, block_tables=tables, **options), out)


def test_options_that_are_numbers_of_numpy() -> None:
    q, k = normal(1, 1, 4, 8), normal(1, 1, 6, 8, seed=1)
    close(ops.attention(q, k, k, window=np.int64(2)), expected(q, k, k, window=2)[0])
    with pytest.raises(TileError, match="`window` is True, not an int from 1 on"):
        ops.attention(q, k, k, window=True)
    assert np.asarray(ops.attention(q[..., :0], k[..., :0], k)).shape == (1, 1, 4, 8)


@pytest.mark.parametrize("scale", [0, -1.0, float("nan")])
def test_scales_of_keys_in_pages_are_above_0(scale: float) -> None:
    q, (cache, table) = normal(1, 1, 1, 8), in_pages(normal(1, 1, 6, 8), 8, 1)
    with pytest.raises(TileError, match="not a number above 0 with `block_tables`"):
        ops.attention(q, cache, cache, seq_lens=np.array([6]), block_tables=table, scale=scale)

"""Layouts start at accesses and products, and spread over what is computed of them."""

from __future__ import annotations

from typing import Any

from tests.support.gpu_code.gpu_lowering import lowered
from tests.support.kernels.lowered_kernels import kernel_from_text, lower, tensor
from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import bf16, f32, i32
from tiledsl.ir.gpu.gpu_ops import Convert, Mma
from tiledsl.ir.layouts.layout import RegisterLayout, local, spatial
from tiledsl.passes.gpu.plan import parse_plan
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_front_pipeline


def made(text: str, plan: str, **arguments: Any) -> Module:
    placed = PassManager(gpu_front_pipeline()).run(lower(kernel_from_text(text), **arguments), PassContext())
    return lowered(placed, parse_plan(plan), "sm_80")


def layout_of(module: Module, name: str) -> RegisterLayout:
    """That of the first value of a name."""
    found = next(r.tile.layout for op in module.walk() for r in op.results if r.name == name)
    assert isinstance(found, RegisterLayout)
    return found


def test_rows_are_read_by_16_bytes_and_computed_as_they_were_read() -> None:
    text = """
    def rows(x):
        M, N = x.shape
        out = tile.empty(M, tile.f32)
        for m in tile.grid(M):
            read = x[m, :] + 0
            computed = tile.exp(read)
            out[m] = tile.sum(computed, axis=1)
        return out
    """
    module = made(text, "m=4, 64 threads, 16 per row, aligned to 16/16", x=tensor(2, f32, (None, 256)))
    wanted = local(1, 4) * spatial(4, 16) * local(1, 4)
    assert layout_of(module, "read") == wanted
    assert layout_of(module, "computed") == wanted
    assert not any(isinstance(op, Convert) for op in module.walk())


COLUMNS = """
    def columns(x):
        D, N = x.shape
        out = tile.empty(N, tile.f32)
        for n in tile.grid(N):
            read = x[:, n]
            out[n] = tile.max(read.to(tile.f32), axis=0)
        return out
"""


def test_blocks_of_rows_that_begin_anywhere_are_read_side_by_side() -> None:
    """Runs of threads are for rows by 16 bytes: an element of each of 16 rows would be of 16 lines of the cache."""
    given = tensor(2, bf16, (None, None))
    by_elements = made(COLUMNS, "n=16, 128 threads, D:=256, aligned to 2/4", x=given)
    assert layout_of(by_elements, "read") == local(32, 1) * spatial(8, 16)
    by_vectors = made(COLUMNS, "n=16, 128 threads, D:=256, N%16=0, aligned to 16/16", x=given)
    assert layout_of(by_vectors, "read") == local(4, 1) * spatial(64, 2) * local(1, 8)


def test_what_folds_give_has_no_say_in_how_they_read() -> None:
    text = """
    def flags(x):
        D, N = x.shape
        out = tile.empty(N, tile.bool)
        for n in tile.grid(N):
            read = x[:, n]
            out[n] = tile.max(read.to(tile.f32), axis=0) > 0
        return out
    """
    module = made(text, "n=32, 128 threads, D:=256, N%32=0, aligned to 16/16", x=tensor(2, bf16, (None, None)))
    assert layout_of(module, "read").vector(1) == 8


def test_a_mask_is_made_in_the_layout_of_the_sums() -> None:
    text = """
    def masked(a, b):
        M, K = a.shape
        K, N = b.shape
        out = tile.empty((M, N), tile.f32)
        for m, n in tile.grid(M, N):
            acc = tile.zeros((m, n))
            for k in tile.range(K):
                acc = tile.dot(a[m, k], b[k, n], acc)
            seen = n.index[None, :] <= m.index[:, None]
            lower = tile.where(seen, acc, 0.0)
            out[m, n] = lower
        return out
    """
    operand = tensor(2, bf16, (None, 64))
    module = made(text, "m=16, n=16, k=16, 32 threads, aligned to 16/16/16", a=operand, b=operand)
    sums = {op.result.tile.layout for op in module.walk() if isinstance(op, Mma)}
    assert len(sums) == 1
    assert layout_of(module, "seen") == layout_of(module, "lower") == sums.pop()


def test_what_is_computed_with_sums_comes_as_they_lie() -> None:
    text = """
    def weighed(a, b, c):
        M, K = a.shape
        K, N = b.shape
        out = tile.empty((N, M), tile.f32)
        for m, n in tile.grid(M, N):
            acc = tile.zeros((m, n))
            for k in tile.range(K):
                acc = tile.dot(a[m, k], b[k, n], acc)
            beside = c[n, m]
            twice = tile.exp(beside.to(tile.f32) * 2)
            out[n, m] = acc.T + twice
        return out
    """
    operand = tensor(2, bf16, (None, 64))
    module = made(text, "m=16, n=16, k=16, 32 threads, aligned to 16/16/16/16", a=operand, b=operand, c=operand)
    (sums,) = {op.result.tile.layout for op in module.walk() if isinstance(op, Mma)}
    assert isinstance(sums, RegisterLayout)
    assert layout_of(module, "beside") == layout_of(module, "twice") == sums.permuted([1, 0])


def test_coordinates_of_a_gather_come_as_its_threads_need_them() -> None:
    """Each thread loads the coordinate of its row, once computed or not: nothing goes through shared memory."""
    text = """
    def gathered(i, w):
        T = i.shape[0]
        V, D = w.shape
        out = tile.empty((T, D), w.dtype)
        for t, d in tile.grid(T, D):
            at = i[t]
            out[t, d] = w[tile.where(at < 0, at + 7, at), d]
        return out
    """
    plan = "t=8, d=256, 256 threads, aligned to 16/16/16"
    module = made(text, plan, i=tensor(1, i32, (None,)), w=tensor(2, bf16, (None, None)))
    assert layout_of(module, "at") == (spatial(8, 32) * local(1, 8)).reduced([1])
    assert not any(isinstance(op, Convert) for op in module.walk())

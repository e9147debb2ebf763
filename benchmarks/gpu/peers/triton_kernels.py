"""Short Triton kernels to be measured beside: add, softmax, layer norm, a matrix product. Needs Triton."""

# Triton and its language have no types that a checker could use (see typings/):
# pyright: basic, reportMissingModuleSource=false, reportIndexIssue=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

WIDEST_ROW = 32768
"""Elements of a row that one program holds."""


@triton.jit
def _add(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(z + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def _softmax(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    start = tl.program_id(0).to(tl.int64) * n
    row = tl.load(x + start + at, mask=at < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(row - tl.max(row, axis=0))
    tl.store(y + start + at, e / tl.sum(e, axis=0), mask=at < n)


@triton.jit
def _layer_norm(x, weight, bias, y, n, eps, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < n
    start = tl.program_id(0).to(tl.int64) * n
    row = tl.load(x + start + at, mask=inside, other=0).to(tl.float32)
    centred = tl.where(inside, row - tl.sum(row, axis=0) / n, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / n + eps)
    w, b = tl.load(weight + at, mask=inside).to(tl.float32), tl.load(bias + at, mask=inside).to(tl.float32)
    tl.store(y + start + at, centred * scale * w + b, mask=inside)


@triton.jit
def _matmul(
    a, b, c, M, N, K, bk, bn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr
):  # bk, bn: the strides of b
    program, across = tl.program_id(0), tl.cdiv(N, BN)
    group = program // (GROUP * across)
    first = group * GROUP
    tall = min(tl.cdiv(M, BM) - first, GROUP)
    row = first + program % (GROUP * across) % tall
    column = program % (GROUP * across) // tall
    rm, rn, rk = row * BM + tl.arange(0, BM), column * BN + tl.arange(0, BN), tl.arange(0, BK)
    am, at_n = rm % M, rn % N
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        at = tl.load(a + am[:, None] * K + (k + rk)[None, :], mask=(k + rk)[None, :] < K, other=0)
        bt = tl.load(b + (k + rk)[:, None] * bk + at_n[None, :] * bn, mask=(k + rk)[:, None] < K, other=0)
        acc = tl.dot(at, bt, acc)
    inside = (rm[:, None] < M) & (rn[None, :] < N)
    tl.store(c + rm.to(tl.int64)[:, None] * N + rn[None, :], acc, mask=inside)


def add(x: Any, y: Any) -> Callable[[], Any]:
    z, n = torch.empty_like(x), x.numel()

    def call() -> Any:
        _add[(triton.cdiv(n, 4096),)](x, y, z, n, BLOCK=4096, num_warps=8)
        return z

    return call


def softmax(x: Any) -> Callable[[], Any]:
    y, (m, n) = torch.empty_like(x), x.shape
    block = row_block(n)

    def call() -> Any:
        _softmax[(m,)](x, y, n, BLOCK=block, num_warps=warps(block))
        return y

    return call


def layer_norm(x: Any, weight: Any, bias: Any) -> Callable[[], Any]:
    y, (m, n) = torch.empty_like(x), x.shape
    block = row_block(n)

    def call() -> Any:
        _layer_norm[(m,)](x, weight, bias, y, n, 1e-5, BLOCK=block, num_warps=warps(block))
        return y

    return call


def row_block(n: int) -> int:
    """The block that holds a whole row. Raises ValueError for a row that is too long."""
    if n > WIDEST_ROW:
        raise ValueError(f"this short kernel holds rows of at most {WIDEST_ROW} elements")
    return triton.next_power_of_2(n)


def warps(block: int) -> int:
    """Threads for a row: 16 elements each, within what a program may have."""
    return min(max(block // 512, 1), 32)


def matmul(a: Any, b: Any) -> Callable[[], Any]:
    """The best of a few configurations, for c = a @ b in the dtype of a. b may be turned."""
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    configurations = [(128, 256, 64, 8, 3), (128, 128, 64, 4, 4), (64, 128, 64, 4, 4), (64, 64, 64, 4, 4)]

    def call(bm: int, bn: int, bk: int, warps: int, stages: int) -> Any:
        grid = (triton.cdiv(m, bm) * triton.cdiv(n, bn),)
        _matmul[grid](a, b, c, m, n, k, *b.stride(), BM=bm, BN=bn, BK=bk, GROUP=8, num_warps=warps, num_stages=stages)
        return c

    times: dict[tuple[int, int, int, int, int], float] = {}
    for chosen in configurations:
        call(*chosen)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(5):
            call(*chosen)
        end.record()
        torch.cuda.synchronize()
        times[chosen] = start.elapsed_time(end)
    best = min(times, key=lambda chosen: times[chosen])
    return lambda: call(*best)

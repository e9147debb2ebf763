"""A short fused attention in Triton, to be measured beside. Needs Triton, and a device with TMA."""

# Triton and its language have no types that a checker could use (see typings/):
# pyright: basic, reportMissingModuleSource=false, reportIndexIssue=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

CONFIGURATIONS = {
    64: [(128, 128, 8, 2), (128, 64, 4, 3)],
    128: [(128, 128, 8, 2), (128, 64, 8, 3)],
    256: [(128, 64, 8, 2), (64, 64, 4, 2)],
}
"""By head dimension: queries and keys of a block, warps, stages."""
LOG2_E = 1.4426950408889634


@triton.jit
def _attention(
    q, k, v, out, scale, S,
    D: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    block = tl.num_programs(0) - 1 - tl.program_id(0) if CAUSAL else tl.program_id(0)  # the longest first
    first = block * BQ
    queries = q.load([head * S + first, 0])
    rows = first + tl.arange(0, BQ)
    top = tl.full((BQ,), -float("inf"), tl.float32)
    total = tl.zeros((BQ,), tl.float32)
    acc = tl.zeros((BQ, D), tl.float32)
    clean = first // BK * BK if CAUSAL else S
    for start in tl.range(0, clean, BK):  # keys that all of the block sees
        scores = tl.dot(queries, k.load([head * S + start, 0]).T)
        higher = tl.maximum(top, tl.max(scores, 1) * scale)
        p = tl.exp2(scores * scale - higher[:, None])
        rescale = tl.exp2(top - higher)
        total = total * rescale + tl.sum(p, 1)
        acc = tl.dot(p.to(queries.dtype), v.load([head * S + start, 0]), acc * rescale[:, None])
        top = higher
    if CAUSAL:
        for start in tl.range(clean, first + BQ, BK):
            scores = tl.dot(queries, k.load([head * S + start, 0]).T)
            columns = start + tl.arange(0, BK)
            scores = tl.where(rows[:, None] >= columns[None, :], scores * scale, -float("inf"))
            higher = tl.maximum(top, tl.max(scores, 1))
            p = tl.exp2(scores - higher[:, None])
            rescale = tl.exp2(top - higher)
            total = total * rescale + tl.sum(p, 1)
            acc = tl.dot(p.to(queries.dtype), v.load([head * S + start, 0]), acc * rescale[:, None])
            top = higher
    out.store([head * S + first, 0], (acc / total[:, None]).to(queries.dtype))


def attention(q: Any, k: Any, v: Any, causal: bool) -> Callable[[], Any]:
    """The best of a few configurations, for q, k, v[H, S, D]. ValueError where S is no multiple of its blocks."""
    heads, length, dim = q.shape
    if length % 128 or k.shape != q.shape:
        raise ValueError("this short kernel takes lengths in multiples of 128, and as many heads of keys")
    result = torch.empty_like(q)

    def prepared(bq: int, bk: int, warps: int, stages: int) -> Callable[[], Any]:
        tall, wide = [bq, dim], [bk, dim]
        sides = [(q, tall), (k, wide), (v, wide), (result, tall)]
        maps = [TensorDescriptor.from_tensor(x.view(heads * length, dim), block) for x, block in sides]
        grid = (length // bq, heads)

        def call() -> Any:
            _attention[grid](
                *maps, dim**-0.5 * LOG2_E, length, D=dim, BQ=bq, BK=bk, CAUSAL=causal, num_warps=warps,
                num_stages=stages,
            )  # fmt: skip
            return result

        return call

    times: dict[float, Callable[[], Any]] = {}
    for chosen in CONFIGURATIONS[dim]:
        call = prepared(*chosen)
        call()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(3):
            call()
        end.record()
        torch.cuda.synchronize()
        times[start.elapsed_time(end)] = call
    return times[min(times)]

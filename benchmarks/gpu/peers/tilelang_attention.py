"""A short fused attention in TileLang, to be measured beside. Needs TileLang, and the CUDA compiler that it calls."""

# TileLang's language has no types that a checker could use, and reads annotations as values:
# pyright: basic, reportMissingModuleSource=false, reportInvalidTypeForm=false

from collections.abc import Callable
from typing import Any

import tilelang
import tilelang.language as T  # noqa: N812
import torch

CONFIGURATIONS = {64: (128, 128, 2, 256), 128: (128, 128, 2, 256), 256: (128, 64, 2, 256)}
"""By head dimension: queries and keys of a block, stages, threads."""
LOG2_E = 1.4426950408889634


def program(heads: int, length: int, dim: int, causal: bool, dtype: str) -> Any:
    """The program for q, k, v, out[heads, length, dim]."""
    bq, bk, stages, threads = CONFIGURATIONS[dim]
    scale = dim**-0.5 * LOG2_E
    tensor = T.Tensor((heads, length, dim), dtype)
    blocks = length // bq
    rows_of_warps = T.GemmWarpPolicy.FullRow

    @T.prim_func
    def attention(q: tensor, k: tensor, v: tensor, out: tensor):
        with T.Kernel(blocks, heads, threads=threads) as (turn, head):
            qs = T.alloc_shared((bq, dim), dtype)
            ks = T.alloc_shared((bk, dim), dtype)
            vs = T.alloc_shared((bk, dim), dtype)
            result = T.alloc_shared((bq, dim), dtype)
            scores = T.alloc_fragment((bq, bk), "float32")
            p = T.alloc_fragment((bq, bk), dtype)
            acc = T.alloc_fragment((bq, dim), "float32")
            top = T.alloc_fragment((bq,), "float32")
            before = T.alloc_fragment((bq,), "float32")
            rescale = T.alloc_fragment((bq,), "float32")
            part = T.alloc_fragment((bq,), "float32")
            total = T.alloc_fragment((bq,), "float32")

            block = blocks - 1 - turn if causal else turn
            T.copy(q[head, block * bq : (block + 1) * bq, :], qs)
            T.fill(acc, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity("float32"))
            steps = (block + 1) * bq // bk if causal else length // bk
            for step in T.Pipelined(steps, num_stages=stages):
                T.copy(k[head, step * bk : (step + 1) * bk, :], ks)
                if causal:
                    for i, j in T.Parallel(bq, bk):
                        seen = block * bq + i >= step * bk + j
                        scores[i, j] = T.if_then_else(seen, 0, -T.infinity("float32"))
                else:
                    T.clear(scores)
                T.gemm(qs, ks, scores, transpose_B=True, policy=rows_of_warps)
                T.copy(top, before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(bq):
                    rescale[i] = T.exp2(before[i] * scale - top[i] * scale)
                for i, j in T.Parallel(bq, bk):
                    scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(bq):
                    total[i] = total[i] * rescale[i] + part[i]
                T.copy(scores, p)
                for i, j in T.Parallel(bq, dim):
                    acc[i, j] *= rescale[i]
                T.copy(v[head, step * bk : (step + 1) * bk, :], vs)
                T.gemm(p, vs, acc, policy=rows_of_warps)
            for i, j in T.Parallel(bq, dim):
                acc[i, j] /= total[i]
            T.copy(acc, result)
            T.copy(result, out[head, block * bq : (block + 1) * bq, :])

    return attention


def attention(q: Any, k: Any, v: Any, causal: bool) -> Callable[[], Any]:
    """For q, k, v[H, S, D]. ValueError where S is no multiple of its blocks."""
    heads, length, dim = q.shape
    if length % 128 or k.shape != q.shape:
        raise ValueError("this short kernel takes lengths in multiples of 128, and as many heads of keys")
    tilelang.disable_cache()  # what is kept on disk would be of another run
    made = program(heads, length, dim, causal, str(q.dtype).removeprefix("torch."))
    kernel = tilelang.compile(made, pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
    result = torch.empty_like(q)

    def call() -> Any:
        kernel(q, k, v, result)
        return result

    return call

"""A kernel with two products whose scores are masked by a condition that is given as text."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tests.support.gpu_code.gpu_lowering import Array
from tests.support.kernels.lowered_kernels import kernel_from_text, lower, tensor
from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import bf16, i64
from tiledsl.passes.gpu.plan import Plan, parse_plan
from tiledsl.passes.gpu.transforms.peel_masks import PeelMasks
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_front_pipeline, gpu_pipeline

ROWS, KEYS = 128, 64
PLAN = parse_plan("i=128, j=64, 256 threads, 8x1 warps, cooperative, 2 stages, aligned to 16/16/16/16/16/16")
"""Of specialised warps, for sm_90."""
ALIKE = parse_plan("i=16, j=16, D<=64, 32 threads, aligned to 16/16/16/16/16/16")
"""Of one warp, for any architecture."""
QUERY, KEY = "i.index[:, None]", "j.index[None, :]"


def module_of(condition: str) -> Module:
    """Products of scores of which some are masked, form `tile-placed`."""
    text = f"""
    def masked(q, k, v, bias, s):
        Q, D = q.shape
        K, D = k.shape
        K, D = v.shape
        Q, K = bias.shape
        out = tile.empty((Q, D), tile.f32)
        for i in tile.grid(Q):
            acc = tile.zeros((i, D))
            for j in tile.range(K):
                scores = tile.dot(q[i, :], k[j, :].mT)
                scores = tile.where({condition}, scores, -1.0)
                acc = tile.dot(scores.to(v.dtype), v[j, :], acc)
            out[i, :] = acc
        return out
    """
    operand = tensor(2, bf16, (None, 64))
    arguments = dict.fromkeys("qkv", operand)
    module = lower(kernel_from_text(text), bias=tensor(2, bf16), s=tensor(1, i64), **arguments)
    return PassManager(gpu_front_pipeline()).run(module, PassContext())


def operands_of(queries: int, keys: int, limit: int) -> list[Array]:
    """Small whole numbers, so that sums are exact. `limit`: what `s` has."""
    random = np.random.default_rng(0)
    shapes = [(queries, 64), (keys, 64), (keys, 64), (queries, keys)]
    arrays: list[Any] = [random.integers(-1, 2, shape).astype(ml_dtypes.bfloat16) for shape in shapes]
    return [*arrays, np.array([limit])]


def lowered_for_all(module: Module, plan: Plan, arch: str = "sm_90", *, peeled: bool = True) -> Module:
    """GPU form, with masks peeled off all loops that multiply, those by `mma.sync` too; or off none."""
    passes = [
        PeelMasks(warps=True) if isinstance(step, PeelMasks) else step
        for step in gpu_pipeline(plan, arch)
        if peeled or not isinstance(step, PeelMasks)
    ]
    return PassManager(passes).run(module.clone(), PassContext())

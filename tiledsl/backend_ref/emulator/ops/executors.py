"""How each op of GPU form runs: one table of those that run through, one of those at which others may go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tiledsl.backend_ref import philox
from tiledsl.backend_ref.emulator.agents import mbarriers
from tiledsl.backend_ref.emulator.agents.agent import Agent, Concurrent
from tiledsl.backend_ref.emulator.agents.waiting import Steps
from tiledsl.backend_ref.emulator.ops import (
    block_copies,
    control,
    folds,
    global_memory,
    products,
    registers,
    shared_buffers,
    tma,
    warpgroups,
)
from tiledsl.backend_ref.execute_tile import EXECUTORS as TILE_EXECUTORS
from tiledsl.backend_ref.execute_tile import fail_assertion
from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.ir import tile_ops
from tiledsl.ir.core import Op
from tiledsl.ir.gpu import async_ops, gpu_ops


def _random(agent: Agent, op: tile_ops.Random) -> tuple[Array, ...]:
    registers.check_same_layout(op, [op.offsets], op.result)
    draw = {"uniform": philox.uniform, "normal": philox.normal, "bits": philox.bits}[op.fn]
    return (draw(agent.array(op.seed), agent.array(op.offsets)),)


def _print(agent: Agent, op: tile_ops.Print) -> Steps:
    parts: list[str] = []
    for value in op.values:
        parts.append(str((yield from registers.gather(agent, op, value))))
    if agent.start == 0:
        agent.output(" ".join([op.text, *parts] if op.text else parts))
    return ()


def _assert(agent: Agent, op: tile_ops.Assert) -> Steps:
    condition = yield from registers.gather(agent, op, op.condition)
    if not condition.all():
        fail_assertion(agent, op, condition)
    return ()


EXECUTORS: dict[type[Op], Callable[[Any, Any], tuple[Any, ...]]] = {
    tile_ops.Constant: TILE_EXECUTORS[tile_ops.Constant],
    tile_ops.Size: TILE_EXECUTORS[tile_ops.Size],
    tile_ops.Yield: lambda agent, op: (),
    gpu_ops.Load: global_memory.load,
    gpu_ops.Store: global_memory.store,
    gpu_ops.Atomic: global_memory.atomic,
    gpu_ops.Buffer: shared_buffers.buffer,
    gpu_ops.View: shared_buffers.view,
    gpu_ops.Reuse: shared_buffers.reuse,
    gpu_ops.Copy: shared_buffers.copy,
    gpu_ops.Commit: shared_buffers.commit,
    gpu_ops.Wait: shared_buffers.wait,
    gpu_ops.Read: shared_buffers.read,
    gpu_ops.Write: shared_buffers.write,
    gpu_ops.Combine: shared_buffers.combine,
    gpu_ops.Arange: registers.arange,
    gpu_ops.Pad: registers.pad,
    gpu_ops.Convert: registers.convert,
    gpu_ops.Slice: registers.slice_,
    gpu_ops.Interleave: registers.interleave,
    gpu_ops.Mma: products.mma,
    tile_ops.Map: registers.map_,
    tile_ops.Cast: registers.cast_,
    tile_ops.Broadcast: registers.broadcast,
    tile_ops.Reshape: registers.reshape,
    tile_ops.Transpose: registers.transpose,
    tile_ops.Random: _random,
    async_ops.Mbarriers: mbarriers.mbarriers,
    async_ops.MbarrierExpect: mbarriers.expect,
    async_ops.MbarrierArrive: mbarriers.arrive,
    async_ops.ProxyFence: shared_buffers.proxy_fence,
    async_ops.TmaLoad: tma.load,
    async_ops.TmaWindows: tma.load,
    async_ops.TmaStore: tma.store,
    async_ops.Exchange: block_copies.exchange,
    async_ops.BulkCommit: tma.commit,
    async_ops.BulkWait: tma.wait,
    async_ops.Wgmma: warpgroups.wgmma,
    async_ops.WgmmaFence: warpgroups.fence,
    async_ops.WgmmaCommit: warpgroups.commit,
}
"""Terminators are not here, nor roles: see `Agent.steps` and `launches`."""
CONCURRENT: dict[type[Op], Concurrent] = {
    tile_ops.For: control.for_,
    tile_ops.While: control.while_,
    tile_ops.If: control.if_,
    tile_ops.Print: _print,
    tile_ops.Assert: _assert,
    gpu_ops.Barrier: shared_buffers.barrier,
    gpu_ops.Reduce: folds.reduce,
    gpu_ops.Scan: folds.scan,
    gpu_ops.Sort: folds.sort,
    async_ops.NamedBarrier: shared_buffers.named_barrier,
    async_ops.Turn: shared_buffers.turn,
    async_ops.MbarrierWait: mbarriers.wait,
    async_ops.WgmmaWait: warpgroups.wait,
}
PAUSES_BEFORE: frozenset[type[Op]] = frozenset(
    {
        gpu_ops.Load, gpu_ops.Store, gpu_ops.Atomic, gpu_ops.Copy, gpu_ops.Read, gpu_ops.Write,
        gpu_ops.Combine,
        async_ops.MbarrierExpect, async_ops.MbarrierArrive, async_ops.TmaLoad, async_ops.TmaWindows, async_ops.TmaStore,
        async_ops.Exchange, async_ops.Wgmma,
    }
)  # fmt: skip
"""Where another agent may go first: whatever others can see, or what depends on them."""

"""The emitter of each op of the GPU form."""

from __future__ import annotations

from tiledsl.backend_cuda.emit import (
    emit_access,
    emit_control,
    emit_convert,
    emit_effects,
    emit_fold,
    emit_mma,
    emit_roles,
    emit_scan,
    emit_shared,
    emit_sort,
    emit_tma,
    emit_wgmma,
)
from tiledsl.backend_cuda.emit.emit_block import BlockEmitter, Emitter
from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.ir import tile_ops as tile
from tiledsl.ir.core import Block, Op
from tiledsl.ir.gpu import async_ops
from tiledsl.ir.gpu import gpu_ops as gpu


def emit_op(frame: KernelFrame, op: Op) -> None:
    """One op, whatever it is."""
    _BLOCKS.op(frame, op)


def emit_block(frame: KernelFrame, block: Block) -> None:
    """The ops of a block; the values of its yield are then in the frame."""
    _BLOCKS.block(frame, block)


EMITTERS: dict[type[Op], Emitter] = {
    gpu.Load: emit_access.emit_load,
    gpu.Store: emit_access.emit_store,
    gpu.Atomic: emit_access.emit_atomic,
    gpu.Buffer: emit_shared.emit_buffer,
    gpu.View: emit_shared.emit_view,
    gpu.Reuse: emit_shared.emit_reuse,
    gpu.Copy: emit_shared.emit_copy,
    gpu.Commit: emit_shared.emit_commit,
    gpu.Wait: emit_shared.emit_wait,
    gpu.Barrier: emit_shared.emit_barrier,
    gpu.Read: emit_shared.emit_read,
    gpu.Write: emit_shared.emit_write,
    gpu.Combine: emit_shared.emit_combine,
    gpu.Mma: emit_mma.emit_mma,
    async_ops.Role: lambda frame, op: emit_roles.emit_role(frame, op, emit_block),
    async_ops.NamedBarrier: emit_roles.emit_named_barrier,
    async_ops.Turn: emit_roles.emit_turn,
    async_ops.Mbarriers: emit_roles.emit_mbarriers,
    async_ops.MbarrierExpect: emit_roles.emit_mbarrier_expect,
    async_ops.MbarrierArrive: emit_roles.emit_mbarrier_arrive,
    async_ops.MbarrierWait: emit_roles.emit_mbarrier_wait,
    async_ops.ProxyFence: emit_roles.emit_proxy_fence,
    async_ops.TmaLoad: emit_tma.emit_tma_load,
    async_ops.TmaWindows: emit_tma.emit_tma_load,
    async_ops.TmaStore: emit_tma.emit_tma_store,
    async_ops.Exchange: emit_tma.emit_exchange,
    async_ops.BulkCommit: emit_tma.emit_bulk_commit,
    async_ops.BulkWait: emit_tma.emit_bulk_wait,
    async_ops.Wgmma: emit_wgmma.emit_wgmma,
    async_ops.WgmmaFence: emit_wgmma.emit_fence,
    async_ops.WgmmaCommit: emit_wgmma.emit_commit,
    async_ops.WgmmaWait: emit_wgmma.emit_wait,
    tile.Print: emit_effects.emit_print,
    tile.Assert: emit_effects.emit_assert,
    gpu.Reduce: lambda frame, op: emit_fold.emit_reduce(frame, op, emit_block),
    gpu.Scan: lambda frame, op: emit_scan.emit_scan(frame, op, emit_block),
    gpu.Sort: emit_sort.emit_sort,
    gpu.Convert: emit_convert.emit_convert,
    gpu.Interleave: emit_convert.emit_interleave,
    tile.For: lambda frame, op: emit_control.emit_for(frame, op, emit_block),
    tile.While: lambda frame, op: emit_control.emit_while(frame, op, emit_block, emit_block),
    tile.If: lambda frame, op: emit_control.emit_if(frame, op, emit_block),
}
"""Elementwise ops are in `element_texts.ELEMENTWISE`."""

_BLOCKS = BlockEmitter(EMITTERS)

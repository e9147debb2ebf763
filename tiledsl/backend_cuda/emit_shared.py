"""Shared memory: buffers, copies into them, barriers."""

from __future__ import annotations

from tiledsl.backend_cuda.kernel_frame import KernelFrame
from tiledsl.backend_cuda.storage import SharedMemory
from tiledsl.ir import gpu_ops as gpu
from tiledsl.ir.layouts import SharedLayout


def emit_buffer(frame: KernelFrame, op: gpu.Buffer) -> None:
    assert op.offset >= 0, "shared memory is not allocated"
    assert isinstance(op.layout, SharedLayout)
    frame.values[op.result] = SharedMemory(frame.shared_memory, op.offset, op.shape, op.dtype, op.layout)


def emit_view(frame: KernelFrame, op: gpu.View) -> None:
    whole = frame.shared(op.buffer)
    assert isinstance(op.layout, SharedLayout)
    frame.values[op.result] = SharedMemory(whole.memory, whole.offset, op.shape, whole.dtype, op.layout)


def emit_barrier(frame: KernelFrame, op: gpu.Barrier) -> None:
    if op.scope == "cluster":
        frame.line(f"{frame.use('cluster_barrier')}();")
    else:
        frame.line("__syncthreads();")

"""Emission of the ops of a block, one after the other, by the table of emitters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tiledsl.backend_cuda.emit.emit_elementwise import Groups, is_elementwise, scalar_storage
from tiledsl.backend_cuda.emit.emit_fold import is_exchanged
from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.ir.core import Block, Op
from tiledsl.ir.gpu.gpu_ops import Buffer, Reduce, Reuse, View
from tiledsl.ir.tile_ops import Constant, Size

Emitter = Callable[[KernelFrame, Any], None]


class BlockEmitter:
    """Emits blocks of one kernel; `table` has the emitter of each op that is no elementwise one."""

    def __init__(self, table: dict[type[Op], Emitter]) -> None:
        self.table = table

    def block(self, frame: KernelFrame, block: Block) -> None:
        """The ops of a block, without its yield, whose values are then in the frame's storage."""
        groups = Groups(frame)
        for op in block.ops:
            self._op(frame, op, groups)
        groups.flush()

    def op(self, frame: KernelFrame, op: Op) -> None:
        """One op by itself."""
        groups = Groups(frame)
        self._op(frame, op, groups)
        groups.flush()

    def _op(self, frame: KernelFrame, op: Op, groups: Groups) -> None:
        if isinstance(op, (Constant, Size)) or op.effect == "terminator":
            return  # written where they are used
        if is_elementwise(op):
            if op.result.shape:
                groups.add(op)
            elif op.result.users:
                frame.comment(op.location)
                frame.values[op.result] = scalar_storage(frame, op)
            return
        groups.recall_within(op)
        if op.effect in ("write", "control"):
            groups.flush()
        groups.need(op.operands)
        frame.wait_before(op)
        if not isinstance(op, (Buffer, View, Reuse)):  # nothing is written for them
            frame.comment(op.location)
        self.table[type(op)](frame, op)
        if isinstance(op, Reduce) and is_exchanged(frame, op):
            groups.release(op)

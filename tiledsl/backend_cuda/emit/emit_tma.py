"""Copies by TMA: `gpu.tma_load`, `gpu.tma_store` and their groups. One thread of the role in each block begins them."""

from __future__ import annotations

from tiledsl.backend_cuda.emit.emit_roles import mbarrier_address
from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.backend_cuda.frame.shared_address import linear_text
from tiledsl.backend_cuda.functions import tma_functions
from tiledsl.backend_cuda.functions.index_text import operand_text, sum_text
from tiledsl.backend_cuda.functions.tma_functions import bulk_wait
from tiledsl.ir.gpu.async_ops import BulkCommit, BulkWait, Exchange, TmaLoad, TmaStore, TmaWindows
from tiledsl.ir.gpu.async_rules import part_bytes
from tiledsl.ir.gpu.tensor_maps import Box, TensorMap, boxes_of, part_of, tensor_map_of
from tiledsl.passes.analysis.sizes import constant_of

assert tma_functions  # it defines device functions


class _Copy:
    """Where the boxes of one op are, in the tensor and in the buffer."""

    def __init__(self, frame: KernelFrame, op: TmaLoad | TmaStore) -> None:
        self.op = op
        self.map: TensorMap = tensor_map_of(op, frame.cluster)
        self.name = f"&{frame.tensor_map(op.tensor, self.map)}"
        self.part = part_of(op, frame.cluster)
        self.boxes = boxes_of(op, frame.cluster)
        self.rank = frame.rank if self.part is not None else "0"
        shared = frame.shared(op.buffer)
        of_block = _times(self.rank, self.part.offset) if self.part is not None else "0"
        linear = linear_text(frame, shared, op.offsets)
        place = sum_text(frame.shared_base, linear, of_block, str(shared.offset))
        self.place = frame.once_here("unsigned", "box", place)
        self.starts = [self._start(frame, axis) for axis in self.map.axes]

    def _start(self, frame: KernelFrame, axis: int) -> tuple[str, int]:
        """Where the tile begins along an axis of the tensor: what is computed, and what is known."""
        known = constant_of(self.op.indices[axis])
        terms = [] if known is not None else [f"(int){operand_text(frame.scalar(self.op.indices[axis]))}"]
        if self.part is not None and self.op.axes[axis] == self.part.axis:
            terms.append(f"(int){_times(self.rank, self.part.size)}")
        text = sum_text(*terms)
        return text if text == "0" or not terms else frame.once_here("int", "start", text), known or 0

    def coordinates(self, box: Box) -> list[str]:
        found: list[str] = []
        for axis, (text, known) in zip(self.map.axes, self.starts):
            tile_axis = self.op.axes[axis]
            found.append(sum_text(text, str(known + (box.start[tile_axis] if tile_axis >= 0 else 0))))
        return found


def _times(text: str, factor: int) -> str:
    return "0" if text == "0" or not factor else text if factor == 1 else f"({text} * {factor})"


def emit_tma_load(frame: KernelFrame, op: TmaLoad) -> None:
    barrier = mbarrier_address(frame, op.barriers, op.index)
    to_all = op.multicast and frame.cluster > 1
    with frame.block(f"if ({frame.issues})"):
        copy = _Copy(frame, op)
        kind = "windows" if isinstance(op, TmaWindows) else "load"
        name = frame.use(f"tma_{kind}_{len(copy.map.axes)}{'_to_all' if to_all else ''}")
        blocks = [f"{(1 << frame.cluster) - 1:#x}"] if to_all else []
        within = (
            [f"(unsigned short){operand_text(frame.scalar(place))}" for place in reversed(op.within)]
            if isinstance(op, TmaWindows)
            else []
        )
        for box in copy.boxes:
            to = sum_text(copy.place, str(box.offset))
            frame.line(f"{name}({', '.join([to, copy.name, barrier, *blocks, *copy.coordinates(box), *within])});")


def emit_tma_store(frame: KernelFrame, op: TmaStore) -> None:
    alike = frame.cluster > 1 and part_of(op, frame.cluster) is None
    with frame.block(f"if ({frame.issues}{f' && {frame.rank} == 0' if alike else ''})"):
        copy = _Copy(frame, op)
        name = frame.use(f"tma_store_{len(copy.map.axes)}")
        for box in copy.boxes:
            source = sum_text(copy.place, str(box.offset))
            frame.line(f"{name}({', '.join([copy.name, source, *copy.coordinates(box)])});")


def emit_exchange(frame: KernelFrame, op: Exchange) -> None:
    """First to the next block, then to the one after it: not all to the same one at the same time."""
    barrier = mbarrier_address(frame, op.barriers, op.index)
    sent, room = part_bytes(op.target), part_bytes(op.source)
    source, target = (frame.shared(buffer).offset for buffer in (op.source, op.target))
    send = frame.use("send_to_block")
    with frame.block(f"if ({frame.issues})"):
        to = frame.once_here("unsigned", "to", sum_text(frame.shared_base, f"{frame.rank} * {sent}u", str(target)))
        with frame.unrolled("b", frame.cluster) as step:
            block = frame.define("unsigned", "block", f"({frame.rank} + {step} + 1) % {frame.cluster}")
            place = sum_text(frame.shared_base, f"{block} * {room}u", str(source))
            frame.line(f"{send}({to}, {place}, {sent}u, {barrier}, {block});")


def emit_bulk_commit(frame: KernelFrame, op: BulkCommit) -> None:
    frame.line(f"if ({frame.issues}) {frame.use('bulk_commit')}();")


def emit_bulk_wait(frame: KernelFrame, op: BulkWait) -> None:
    frame.line(f"if ({frame.issues}) {frame.preamble.use(bulk_wait(op.groups, read=op.read))}();")

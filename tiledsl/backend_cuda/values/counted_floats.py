"""Coordinates that are converted to f32, as sums of floats.

    (float)(column + 8 * (s / 2) + s % 2)   =>   (float)column + (float)(8 * (s / 2) + s % 2)

What is the thread's is converted once, what is the slot's is a constant. Coordinates within a block are so small that
floats have them exactly.
"""

from __future__ import annotations

from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.backend_cuda.functions.scalars import enclosed
from tiledsl.ir.core import Op
from tiledsl.ir.dtypes import f32, i32
from tiledsl.ir.gpu.gpu_ops import Arange
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.tile_ops import Cast

EXACT = 1 << 24
"""Up to this number floats have all integers."""


def counted_layout(op: Op) -> RegisterLayout | None:
    """The layout of coordinates that an op converts to f32, by way of i32; None for others."""
    narrow = op.source.op if isinstance(op, Cast) and op.dtype == f32 else None
    if not isinstance(narrow, Cast) or narrow.dtype != i32 or not isinstance(narrow.source.op, Arange):
        return None
    layout = narrow.source.layout
    return layout if layout.shape[0] <= EXACT else None


def counted_in_floats(frame: KernelFrame, layout: RegisterLayout, of_slot: str) -> str:
    """The coordinate of a slot. `of_slot`: the part of it that is the slot's."""
    thread = frame.thread_coordinate(layout, 0)
    constant = f"(float){enclosed(of_slot)}"
    if thread == "0":
        return constant
    return f"({frame.once_here('float', 'counted', f'(float){enclosed(thread)}')} + {constant})"

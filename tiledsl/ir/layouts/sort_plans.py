"""How the threads of a block sort an axis together: a network of comparisons, each with the element at a distance.

    spatial(4, 64) * local(1, 16)       64 threads have a row of 1024, each 16 neighbours of it

Elements at distances within the run of a thread are compared in its registers, those of other lanes by shuffles, those
of other warps through a scratch buffer. Runs are long where there are other rows for the threads that are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tiledsl.ir.dtypes import DType
from tiledsl.ir.layouts.fold_plans import partial_bytes
from tiledsl.ir.layouts.layout import WARP, RegisterLayout
from tiledsl.ir.layouts.scan_plans import plan_scan, runs_layout
from tiledsl.support.powers_of_two import power_of_two_in

RUN_BYTES = 128
"""Of a row that a thread has, where there are enough rows: longer runs are compared in registers more often."""


@dataclass(frozen=True)
class SortPlan:
    """`rows`: the slots of the first element of each row that a thread has; `run`: the distances in slots of the others
    from there; `along`: how many threads in a row of threads share a row."""

    rows: tuple[int, ...]
    run: tuple[int, ...]
    along: int

    def scratch_bytes(self, dtype: DType, threads: int) -> int:
        """What a block of so many threads needs to exchange a row between warps; 0 where warps have whole rows."""
        return len(self.run) * threads * partial_bytes(dtype) if self.along > WARP else 0


def plan_sort(layout: RegisterLayout, axis: int, threads: int) -> SortPlan | None:
    """The plan for a tile in that layout; None where threads have no runs of powers of two, or do not stand side by
    side."""
    found = plan_scan(layout, axis, threads)
    if found is None or len(found.chunks) > 1:
        return None
    pieces = [piece for piece in (found.lanes, found.warps) if piece is not None]
    step = 1
    for piece in pieces:
        if piece.step != step or piece.stride != len(found.run) * step:
            return None
        step *= piece.size
    whole = power_of_two_in(layout.shape[axis]) == layout.shape[axis]
    return SortPlan(found.rows, found.run, step) if whole else None


def sort_layout(shape: Sequence[int], axis: int, threads: int, blocks: int, element_bytes: int) -> RegisterLayout:
    """Threads of a block, of `blocks` copies, along the axis with a run each, the others along the other axes; what is
    left along the axis too."""
    along = row_threads(shape, axis, threads, element_bytes)
    return runs_layout(shape, axis, along, threads // along, blocks)


def row_threads(shape: Sequence[int], axis: int, threads: int, element_bytes: int) -> int:
    """How many threads share a row."""
    long = max(1, shape[axis] * element_bytes // RUN_BYTES)
    rows = 1
    for other, size in enumerate(shape):
        rows *= power_of_two_in(size) if other != axis else 1
    return min(threads, shape[axis], max(power_of_two_in(long), threads // rows if rows < threads else 1))

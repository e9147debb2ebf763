"""How the threads of a block scan an axis together, in any layout in which they stand along it in order.

    local(1, 4) * spatial(1, 256) * local(1, 8)      a thread has 4 runs of 8 neighbours, one in each chunk of 2048

Each thread scans its runs; lanes pass on what their runs come to by shuffles, warps through a scratch buffer. What
stands before a run are the chunks before its own, the warps before its own in the chunk, and the lanes before its own.
The emitter and the passes that make room for the buffer read the same plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tiledsl.ir.dtypes import DType
from tiledsl.ir.layouts.fold_plans import FoldPlan, Piece, partial_bytes, plan_fold
from tiledsl.ir.layouts.layout import WARP, Digit, RegisterLayout
from tiledsl.support.powers_of_two import power_of_two_in

MOST_POSITIONS = 64
"""Partial results of a row that each thread goes through, before it would rather have moved the tile."""
MOST_SHARED = 512
"""The same where the lanes of a warp go through them together."""
FEW_POSITIONS = 8
"""So many a thread goes through as fast by itself."""
_ALIGNMENT = 16


@dataclass(frozen=True)
class ScanPlan:
    """`fold`: where the pieces of a thread number go. `rows`: the slots of the first element of each row that a thread
    has. `chunks`, `run`: the distances in slots from there of the first elements of its runs, and from these of its
    neighbours; along the axis."""

    fold: FoldPlan
    rows: tuple[int, ...]
    chunks: tuple[int, ...]
    run: tuple[int, ...]

    @property
    def lanes(self) -> Piece | None:
        """The lanes of a warp that stand along the axis."""
        return self.fold.lanes[0] if self.fold.lanes else None

    @property
    def warps(self) -> Piece | None:
        """The warps of a block that stand along the axis."""
        return self.fold.warps[0] if self.fold.warps else None

    @property
    def positions(self) -> int:
        """How many partial results of warps there are for each row."""
        return len(self.chunks) * self.fold.positions

    @property
    def is_shared_by_lanes(self) -> bool:
        """Whether the lanes of a warp go through the partial results together: they are all of one row."""
        of_one_row = self.warps is not None and all(piece.step >= WARP for piece in self.fold.kept)
        return of_one_row and self.positions > FEW_POSITIONS and WARP % self.fold.positions == 0

    def block_bytes(self, size: int) -> int:
        """The scratch for partial results of `size` bytes each."""
        if self.warps is None:
            return 0
        return -(-len(self.rows) * self.fold.owners * self.positions * size // _ALIGNMENT) * _ALIGNMENT

    def scratch_bytes(self, dtypes: Sequence[DType]) -> int:
        """All scratch of a block; 0: it needs no buffer."""
        return sum(self.block_bytes(partial_bytes(dtype)) for dtype in dtypes)


def plan_scan(layout: RegisterLayout, axis: int, threads_per_block: int) -> ScanPlan | None:
    """The plan for a tile in that layout; None where threads or slots do not stand along the axis in order."""
    fold = plan_fold(layout, (axis,), threads_per_block)
    if len(fold.lanes) > 1 or len(fold.warps) > 1 or fold.blocks:
        return None
    threads = [*fold.lanes, *fold.warps]
    if len(threads) == 2 and threads[0].stride > threads[1].stride:
        return None
    least = min((piece.stride for piece in threads), default=layout.shape[axis])
    most = max((piece.stride * piece.size for piece in threads), default=layout.shape[axis])
    rows: list[tuple[int, Digit]] = []
    chunks: list[tuple[int, Digit]] = []
    run: list[tuple[int, Digit]] = []
    factor = 1
    for digit in reversed(layout.slot_digits):
        if digit.axis != axis:
            rows.append((factor, digit))
        elif digit.stride * digit.size <= least:
            run.append((factor, digit))
        elif digit.stride >= most:
            chunks.append((factor, digit))
        else:
            return None
        factor *= digit.size
    return ScanPlan(fold, _distances(rows), _distances(_in_order(chunks)), _distances(_in_order(run)))


def runs_layout(shape: Sequence[int], axis: int, along: int, left: int, blocks: int = 1) -> RegisterLayout:
    """`along` threads with a run of the axis each, `left` others along the other axes, all of it in so many copies."""
    threads: list[Digit] = [Digit(along, axis, shape[axis] // along)]
    slots: list[Digit] = [Digit(shape[axis] // along, axis, 1)]
    for other in range(len(shape)):
        if other != axis:
            part = min(power_of_two_in(shape[other]), power_of_two_in(left))
            left //= part
            threads.insert(0, Digit(part, other, 1))
            slots.insert(0, Digit(shape[other] // part, other, part))
    return RegisterLayout(shape, [Digit(left * blocks, None, 0), *threads], slots)


def suits_scan(layout: RegisterLayout, axis: int, threads_per_block: int) -> bool:
    """Whether to scan a tile in the layout that it has, rather than to move it into one with a run for each thread."""
    plan = plan_scan(layout, axis, threads_per_block)
    return plan is not None and plan.positions <= (MOST_SHARED if plan.is_shared_by_lanes else MOST_POSITIONS)


def _in_order(digits: list[tuple[int, Digit]]) -> list[tuple[int, Digit]]:
    return sorted(digits, key=lambda pair: pair[1].stride)


def _distances(digits: Sequence[tuple[int, Digit]]) -> tuple[int, ...]:
    """All sums of digits, given innermost first with the slots that each is worth."""
    found = [0]
    for factor, digit in digits:
        found = [factor * value + low for value in range(digit.size) for low in found]
    return tuple(found)

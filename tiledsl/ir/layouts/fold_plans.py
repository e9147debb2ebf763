"""How the threads of a program fold an axis together: by shuffles, through shared memory, across a cluster.

The digits of the thread number that run along folded axes are split in three. Digits within a warp are folded by
shuffles, those of other warps through a scratch buffer of the block, those of other blocks through one of the cluster.
The emitter and the passes that make room for the buffer read the same plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tiledsl.ir.dtypes import DType, bool_, i32
from tiledsl.ir.layouts.layout import WARP, Digit, RegisterLayout

BARRIER = 8
"""Bytes of a barrier in shared memory."""
LEAST_SENT = 4
"""The least bytes that a block sends to another as one value."""
_ALIGNMENT = 16


@dataclass(frozen=True)
class Piece:
    """A digit of the thread number, or a part of one: it takes `size` values, each `step` threads apart, and counts in
    `stride`s along `axis` (None: copies)."""

    step: int
    size: int
    axis: int | None
    stride: int


@dataclass(frozen=True)
class FoldPlan:
    """Where the pieces of a thread number go. Pieces are in order of their strides along the axis, smallest first."""

    lanes: tuple[Piece, ...]
    """Folded by shuffles: sizes and steps are powers of two."""
    warps: tuple[Piece, ...]
    """Folded through the block's scratch buffer."""
    blocks: tuple[Piece, ...]
    """Folded through the cluster's. `step` counts threads, as everywhere."""
    kept: tuple[Piece, ...]
    """Of one block, that tell results apart."""
    copies: tuple[Piece, ...]
    """Of one block, that tell nothing."""
    results: int
    """Slots of the result."""

    @property
    def owners(self) -> int:
        """How many groups of threads of a block there are, each with results of its own."""
        return _count(self.kept)

    @property
    def positions(self) -> int:
        """How many partial results of a block go into each result."""
        return _count(self.warps)

    @property
    def alike(self) -> int:
        """How many threads of a block have the same results, once the block has folded them."""
        return _count((*self.lanes, *self.warps, *self.copies))

    @property
    def peers(self) -> int:
        """How many blocks have a part in each result."""
        return _count(self.blocks)

    @property
    def buffers(self) -> int:
        """How many times over there is scratch. Folds of a cluster alternate between two, so that nobody waits until
        all have read what the fold before left: see `backend_cuda/emit/exchange_partials.py`."""
        return 2 if self.blocks else 1

    @property
    def barrier_bytes(self) -> int:
        """The first bytes of the scratch: barriers that count what comes from other blocks, one for each buffer."""
        return BARRIER * self.buffers if self.blocks else 0

    def block_bytes(self, size: int) -> int:
        """The block's scratch in each buffer, for partial results of `size` bytes each."""
        return _aligned(self.results * self.owners * self.positions * size) if self.warps else 0

    def cluster_bytes(self, size: int) -> int:
        """The cluster's scratch in each buffer and block, for partial results of `size` bytes each."""
        return _aligned(self.arriving_bytes(size)) if self.blocks else 0

    def arriving_bytes(self, size: int) -> int:
        """How much all blocks, this one too, write into a block's scratch in each buffer."""
        return self.results * self.owners * self.peers * max(size, LEAST_SENT)

    def scratch_bytes(self, sizes: Sequence[int]) -> int:
        """All scratch of a block, for partial results of these sizes."""
        each = sum(self.block_bytes(size) + self.cluster_bytes(size) for size in sizes)
        return self.barrier_bytes + self.buffers * each


def _count(pieces: Sequence[Piece]) -> int:
    total = 1
    for piece in pieces:
        total *= piece.size
    return total


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def plan_fold(layout: RegisterLayout, axes: Sequence[int], threads_per_block: int) -> FoldPlan:
    """The plan for a tile in that layout, for blocks of `threads_per_block` threads."""
    lanes: list[Piece] = []
    warps: list[Piece] = []
    blocks: list[Piece] = []
    kept: list[Piece] = []
    copies: list[Piece] = []
    for piece in pieces_of(layout.thread_digits, threads_per_block):
        if piece.step >= threads_per_block:
            if piece.axis is not None and piece.axis in axes:
                blocks.append(piece)
        elif piece.axis is None:
            copies.append(piece)
        elif piece.axis not in axes:
            kept.append(piece)
        elif _in_a_warp(piece, threads_per_block):
            lanes.append(piece)
        else:
            warps.append(piece)
    in_order = [tuple(sorted(found, key=lambda p: p.stride)) for found in (lanes, warps, blocks)]
    results = layout.reduced(axes).slots
    return FoldPlan(in_order[0], in_order[1], in_order[2], tuple(kept), tuple(copies), results)


def pieces_of(digits: Sequence[Digit], threads_per_block: int) -> list[Piece]:
    """The digits of a thread number, innermost first, cut where a warp and where a block ends."""
    found: list[Piece] = []
    step = 1
    for digit in reversed(digits):
        pieces = [Piece(step, digit.size, digit.axis, digit.stride)]
        for boundary in sorted({WARP, threads_per_block}):
            last = pieces.pop()
            pieces += _cut(last, boundary)
        found += pieces
        step *= digit.size
    return found


def _cut(piece: Piece, boundary: int) -> list[Piece]:
    """In two where the boundary is inside and at a whole value."""
    inner, rest = divmod(boundary, piece.step)
    if rest or inner <= 1 or inner >= piece.size or piece.size % inner:
        return [piece]
    return [
        Piece(piece.step, inner, piece.axis, piece.stride),
        Piece(boundary, piece.size // inner, piece.axis, piece.stride * inner),
    ]


def _in_a_warp(piece: Piece, threads_per_block: int) -> bool:
    powers = piece.step & (piece.step - 1) == 0 and piece.size & (piece.size - 1) == 0
    return powers and piece.step * piece.size <= WARP and threads_per_block % WARP == 0


def partial_bytes(dtype: DType) -> int:
    """Bytes of a partial result in scratch memory: narrow numbers are folded in 32 bits."""
    return 1 if dtype == bool_ else max(dtype.bits, 32) // 8


def fold_scratch_bytes(
    layout: RegisterLayout, axes: Sequence[int], dtypes: Sequence[DType], threads_per_block: int, fn: str = "argmax"
) -> int:
    """Bytes of shared memory that a `gpu.reduce` needs in each block; 0: it needs no buffer.

    `argmax` and `argmin` fold an index beside each value. A function that is not told may be one of them.
    """
    return plan_fold(layout, axes, threads_per_block).scratch_bytes(partial_sizes(dtypes, fn))


def partial_sizes(dtypes: Sequence[DType], fn: str) -> list[int]:
    """Bytes of each value that is folded."""
    folded = [*dtypes, i32] if fn in ("argmax", "argmin") else dtypes
    return [partial_bytes(dtype) for dtype in folded]

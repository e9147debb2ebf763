"""Programs that hold weights in registers and go through many rows, the next ones on their way.

    y[m, :] = (x[m, :] - mean) * rsqrt(..) * weight[:] + bias[:]        8192 rows of 1024, bf16

With a row for each program, weights and bias cross from L2 as often as rows do: as many bytes again as are read and
written. And a program waits for its row, folds, waits for its weights, and stores, one after the other. Here weights
come once, rows are copied ahead into a ring, and what is left between one row and the next are folds among few threads.
"""

from __future__ import annotations

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.passes.analysis.sizes import blocks_of
from tiledsl.passes.gpu.layouts.gathered_layouts import gather_rank
from tiledsl.passes.gpu.layouts.infer_layouts import tensor_of
from tiledsl.passes.gpu.plan import GridPlan, Plan
from tiledsl.passes.gpu.plans.costs.run_ahead import ENOUGH_BYTES
from tiledsl.passes.gpu.plans.facts.grid_shape import GridShape, KnownSizes, accessed
from tiledsl.passes.gpu.plans.facts.whole_axes import with_whole_axes
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.support.powers_of_two import power_of_two_from

PIECE = 16
"""Bytes that a thread has side by side."""
MOST_PIECES = 5
"""Of a row that a thread holds, beside those of weights."""
MOST_WORDS = 64
"""Registers of a thread for weights."""
FEWEST_THREADS = 64
"""Of a program: with fewer, a multiprocessor has no room for as many programs as keep it busy."""
MOST_THREADS = 512
ROWS_BYTES = 32 << 10
"""Of rows that a multiprocessor works on at a time: the sixteenth of its registers that they are as they come."""
TURNS = 3
"""Rows of a program that are worth holding weights for."""
SHORT_PIECES = 256
"""Rows up to which programs of a row or a few each are as fast, if there are many: they hide each other, and threads
that have two rows read weights once for both. Measured, 65536 rows of 1024: 87.6 us, and 91.0 by these."""
MOST_SHORT = 8
"""Such rows of a program up to which the end of the grid, when most multiprocessors are done, counts for more."""
MANY_WEIGHTS = 2
"""Tensors of weights that are worth a multiprocessor for one program: nothing hides its folds then."""


def weighted_row_plans(grid: GridShape, machine: GpuMachine, sizes: KnownSizes, row: int, vector: int) -> list[Plan]:
    """The plan of a grid along one axis whose rows, one for each block, meet weights; none where rows are too long, too
    few, or cannot be copied ahead."""
    loads = [op for op in grid.accesses if isinstance(op, ops.Load)]
    rows, weights = [op for op in loads if moves(op, grid)], [op for op in loads if not moves(op, grid)]
    blocks = list(blocks_of(grid.op))
    widest = max((tensor_of(op).dtype.bytes for op in rows), default=1)
    pieces = row * widest // PIECE
    threads = max(FEWEST_THREADS, power_of_two_from(-(-pieces // MOST_PIECES)))
    if pieces < 2 * FEWEST_THREADS or not all(_is_fixed(op, grid) for op in weights):
        return []
    if not machine.has_async_copy or not rows or len(blocks) != 1 or len(grid.blocks) > 1:
        return []
    if threads > MOST_THREADS or blocks[0].block.kind == "fixed" or not all(_is_copied(op, sizes, row) for op in rows):
        return []
    words = sum(-(-pieces // threads) * PIECE // widest * tensor_of(op).dtype.bytes // 4 for op in weights)
    taken = sum(row * tensor_of(op).dtype.bytes for op in rows)
    at_once = max(1, ROWS_BYTES // taken)
    programs = at_once * machine.multiprocessors
    turns = sizes.of(blocks[0].total) / programs
    if words > MOST_WORDS or turns < TURNS or (pieces <= SHORT_PIECES and turns > MOST_SHORT):
        return []
    if at_once == 1 and len(weights) < MANY_WEIGHTS:
        return []
    stages = 1 + -(-ENOUGH_BYTES // (at_once * taken))
    if at_once * stages * taken > machine.shared_bytes_of_block(1) * 7 // 8:
        return []
    own = GridPlan(threads, stages=max(2, stages), programs=programs)
    plan = Plan((own,), blocks=tuple((name, 1) for name in grid.open))
    return [with_whole_axes(grid, plan, sizes, vector, threads)]


def moves(op: ops.Load, grid: GridShape) -> bool:
    """Whether what is loaded depends on the block."""
    return any(index in grid.op.body.arguments for index in op.indices)


def _is_fixed(op: ops.Load, grid: GridShape) -> bool:
    """Whether what is loaded is the same for all blocks: no subscript is computed in them."""
    indices = [index for index in op.indices if isinstance(index, Value)]
    inside = set(grid.op.body.walk()) if indices else set[Op]()
    return all(index.op not in inside for index in indices)


def _is_copied(op: ops.Load, sizes: KnownSizes, row: int) -> bool:
    """Whether whole rows are copied ahead of their turn: their places are known, and they begin where whole pieces
    do."""
    whole = sizes.of(accessed(op)[-1]) == row and len(accessed(op)) <= 2
    aligned = sizes.alignment.get(op.tensor, PIECE) >= PIECE and row * tensor_of(op).dtype.bytes % PIECE == 0
    return whole and aligned and not gather_rank(op)

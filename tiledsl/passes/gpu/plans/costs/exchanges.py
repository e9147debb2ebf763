"""What threads tell each other for folds and scans: instructions of each of them, by counting machine code.

rows: one number of each thread goes through five shuffles, then through shared memory, then to other blocks
columns, f16: eight numbers of each thread, one for each column of its 16 bytes
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.layouts.sort_plans import row_threads
from tiledsl.ir.symbolic import Dim
from tiledsl.passes.gpu.plan import GridPlan
from tiledsl.passes.gpu.plans.facts.operation_units import combiner_units
from tiledsl.passes.gpu.plans.product_plans.warpgroup_cost import CLUSTER_FOLD_CLOCKS, FOLD_CLOCKS
from tiledsl.passes.nest.count_work import WorkCounts
from tiledsl.passes.nest.loop_nest import Access, LoopNest
from tiledsl.support.powers_of_two import power_of_two_from

LANES = 32
WIDEST = 16
"""Bytes that a thread accesses at most."""
STEP = 2
"""A shuffle and the operation."""
PLACED_STEP = 12
"""The same where a place goes with the number: three words, and comparisons."""
SCANNED_STEP = 3
"""A shuffle, the operation, and whether it counts, for each word of 32 bits."""
WORD = 4
"""Bytes of a register."""
COMPARED = (2.0, 5.0)
"""Instructions for each element and step of a sort within registers, on pipes of half the width: of numbers of one
register, and of two."""
EXCHANGED = (6.0, 13.0)
"""The same where the other element is that of another thread: a shuffle takes four times as long."""
MEETING = 20
"""A barrier, a number that is written for other warps, and where these lie."""
AMONG_BLOCKS = 40
"""Of a cluster, each of whose blocks writes to the memory of all others."""


def clocks_of_turns(nest: LoopNest, grid: GridPlan, counts: WorkCounts, room: Callable[[Dim], int]) -> float:
    """Clocks that a program waits for its own threads: a fold within a loop is told to all of them turn after turn,
    and no load that is on its way makes that shorter. Nothing is counted beside products."""
    clocks = 0.0
    if nest.dots or grid.roles:
        return clocks
    for work in nest.elementwise:
        if work.loops and isinstance(work.op, (ops.Reduce, ops.Scan)):
            shapes = [w.shape for w in nest.elementwise if w.loops == work.loops]
            spans = _threads_along(max(shapes, key=lambda shape: math.prod(map(room, shape))), work.op, grid, room)
            far = work.op.axes if isinstance(work.op, ops.Reduce) else (work.op.axis,)
            reach = max((spans.get(work.op.sources[0].shape[axis], 1) for axis in far), default=1)
            each = FOLD_CLOCKS * (reach > LANES) + CLUSTER_FOLD_CLOCKS * (reach > grid.threads_of_tile)
            clocks += each * counts.turns(work.loops[-1]).number / max(1, counts.programs)
    return clocks


STACKED = 1.2
"""Instructions for each element that is written to what is stacked, or read of it: addresses are a thread's own number
and a constant, with a swizzle."""


def _threads_along(
    shape: Sequence[Dim], op: ops.Reduce | ops.Scan, grid: GridPlan, room: Callable[[Dim], int]
) -> dict[Dim, int]:
    """How many threads further the last one is that has a part of the same row along each axis of a loop's largest
    tile: the last axis is shared out first, by pieces of 16 bytes."""
    left, spans, apart = grid.threads_of_tile * grid.cluster, dict[Dim, int](), 1
    for number, dim in enumerate(reversed(shape)):
        pieces = room(dim) * (1 if number else op.sources[0].dtype.bytes / WIDEST)
        count = max(1, min(left, math.ceil(pieces)))
        apart, left = apart * count, left // count
        spans.setdefault(dim, apart if count > 1 else 1)
    return spans


def exchange_instructions(
    nest: LoopNest,
    grid: GridPlan,
    counts: WorkCounts,
    room: Callable[[Dim], int],
    width: Callable[[Access], float] = lambda access: WIDEST,
) -> float:
    """Of all threads of a grid, for its folds and scans; nothing is counted beside loops and products, which have
    prices that were measured with what they fold. `room`: the elements of a tile's axis, with what pads them; `width`:
    bytes of a row that a thread has side by side, 2 of f16 where rows begin anywhere."""
    if nest.loops or nest.dots:
        return 0.0
    threads = grid.threads_of_tile * grid.cluster
    accesses = [(math.prod(map(room, access.shape)), access) for access in nest.accesses if access.shape]
    most = max((size for size, _ in accesses), default=0)
    large = [access for size, access in accesses if size == most]
    widths = [access.tensor.dtype.bytes for access in large] or [4]
    loaded = [(width(access), access.tensor.dtype.bytes) for access in large if access.is_read]
    narrow = bool(loaded) and max(wide for wide, _ in loaded) < WIDEST
    vector = int(max(wide / element for wide, element in loaded)) if narrow else WIDEST // min(widths)
    total = 0.0
    for work in nest.elementwise:
        if not isinstance(work.op, (ops.Reduce, ops.Scan)):
            continue
        source, result = (math.prod(map(room, v.shape)) for v in (work.op.sources[0], work.op.results[0]))
        times = counts.computed(work).number / max(1, math.prod(map(counts.number, work.shape)))
        if isinstance(work.op, ops.Scan):
            each = _of_scan(work.op, source / threads, max(1, vector if narrow else WIDEST // max(widths)))
        else:
            each = _of_fold(work.op, source, max(1, result), threads, max(1, vector))
        total += threads * times * (each + AMONG_BLOCKS * (grid.cluster > 1))
    return total


def sort_instructions(nest: LoopNest, grid: GridPlan, counts: WorkCounts, room: Callable[[Dim], int]) -> float:
    """Of all threads of a grid, for its sorts."""
    total = 0.0
    for work in nest.elementwise:
        if isinstance(work.op, ops.Sort):
            shape, wide = [room(dim) for dim in work.shape], work.op.source.dtype.bytes > WORD
            length = power_of_two_from(shape[work.op.axis])
            shape[work.op.axis] = length
            along = row_threads(shape, work.op.axis, grid.threads_of_tile, work.op.source.dtype.bytes)
            lanes, run = math.log2(along), math.log2(max(1, length // along))
            compared = run * (run + 1) / 2 + lanes * run
            each = compared * COMPARED[wide] + lanes * (lanes + 1) / 2 * EXCHANGED[wide]
            times = counts.computed(work).number / max(1, math.prod(map(counts.number, work.shape)))
            total += times * each * math.prod(shape) * max(1.0, grid.threads_of_tile / math.prod(shape))
    return total


def stacked_bytes(nest: LoopNest, room: Callable[[Dim], int]) -> int:
    """Of shared memory, for tiles that are stacked; those that are stacked one after the other share a place."""
    most = ready = 0
    for op in nest.grid.body.ops:
        if isinstance(op, ops.Stack):
            ready += math.prod(map(room, op.result.shape)) * op.result.dtype.bytes
            most = max(most, ready)
        elif isinstance(op, ops.Map):
            ready = 0
    return most


def stack_instructions(nest: LoopNest, grid: GridPlan, counts: WorkCounts, room: Callable[[Dim], int]) -> float:
    """Of all threads of a grid, for tiles that are stacked and parts of these: an access of each element."""
    threads = grid.threads_of_tile * grid.cluster
    total = 0.0
    for op in nest.stacked:
        parts = [user.result for user in op.result.users if isinstance(user, ops.Extract)]
        moved = sum(max(threads, math.prod(map(room, value.shape))) for value in [*op.sources, *parts])
        total += STACKED * moved + 2 * MEETING * threads
    return total * counts.programs


def _of_scan(scan: ops.Scan, elements: float, vector: int) -> float:
    """Of one thread that has so many elements, in runs of `vector`: what each run comes to goes through all lanes."""
    if scan.axis != len(scan.sources[0].shape) - 1:
        return 0.0
    step = SCANNED_STEP * sum(max(1.0, source.dtype.bytes / 4) for source in scan.sources)
    if scan.has_body("combiner"):
        units = combiner_units(scan)
        step += units.arithmetic + units.doubles
    return math.ceil(elements / vector) * math.log2(LANES) * step + 2 * MEETING


def _of_fold(fold: ops.Reduce, source: int, result: int, threads: int, vector: int) -> float:
    """Of one thread, for a tile of `source` elements that is folded to `result`. Threads have runs of `vector`."""
    rows = len(fold.sources[0].shape) - 1 in fold.axes
    if rows:
        along = min(threads, max(1.0, source / result / vector))
        numbers, lanes = max(1.0, result * along / threads), min(LANES, along)
    else:
        vector = min(vector, result)
        along, numbers = max(1.0, min(source / result, threads * vector / result)), float(vector)
        lanes = min(along, max(1.0, LANES * vector / result))
    warps = along / lanes
    steps = math.log2(lanes) + (math.log2(warps) if rows else warps if warps > 1 else 0)
    each = numbers * steps * (PLACED_STEP if fold.fn in ("argmax", "argmin") else STEP)
    return len(fold.sources) * each + MEETING * (warps > 1)

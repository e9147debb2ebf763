"""Operands that threads compute where the product takes them: in registers, of runs along K as memory has them.

    w[n, k // 2] in nibbles -> f16 -> dot(x, w.mT)      lane 4n + t computes 32 neighbours of row n, which are 16 bytes
                                                        of memory, and multiplies them: nothing is written to shared
                                                        memory, no thread waits for another one

Matrix instructions want two neighbours along K of each lane, and two others farther on. Where both operands are read in
the same other order, the sum is the same: see `in_runs`. An operand that several warps take would be computed by each
of them: these go through shared memory.
"""

from __future__ import annotations

import math

from tiledsl.ir import tile_ops as ops
from tiledsl.passes.analysis.quotients import repeats
from tiledsl.passes.gpu.layouts.infer_layouts import access_order
from tiledsl.passes.gpu.products.streamed_loads import computed_sources, load_axis, source_load

VECTOR_BYTES = 16
"""That a thread loads at once."""
MOST_RUN = 32
"""Neighbours along K that a lane has of each row."""


MOST_BYTES_OF_RUNS = 96
"""Of what a thread computes these of, that it asks for a turn before and keeps in registers: without, products would
wait for each turn's loads."""


def computed_alone(dot: ops.Dot, warps: tuple[int, int]) -> bool | None:
    """Whether it is the left operand that threads compute of what they load, each warp its own part, or the right one;
    None where it is neither, or both, or the other one does not lie along K in memory, as lanes would read it."""
    is_left = computed_side(dot)
    return is_left if is_left is not None and warps[1 if is_left else 0] == 1 else None


def computed_side(dot: ops.Dot) -> bool | None:
    """The same without regard to warps."""
    if dot.precision in ("split", "planes") or len(dot.result.shape) != 2:
        return None
    left, right = source_load(dot.a), source_load(dot.b)
    if (left is None) == (right is None):
        return None
    if left is None:
        assert right is not None
        return True if access_order(right)[-1] == load_axis(dot.b, -2) else None
    return False if access_order(left)[-1] == load_axis(dot.a, -1) else None


def run_of(dot: ops.Dot, *, is_left: bool) -> int:
    """How many neighbours along K a thread has of a computed operand where it loads 16 bytes at once of the narrowest
    of what it computes it of; 0 where any of that lies otherwise in memory."""
    along, run = -1 if is_left else -2, 0
    for source in computed_sources(dot, is_left=is_left):
        if min(source.axes) < 0:
            continue  # what all rows share, or all of K
        if access_order(source.load)[-1] != source.axes[along]:
            return 0
        each = VECTOR_BYTES // source.load.result.dtype.bytes * repeats(source.load)
        run = max(run, each if repeats(source.load) < VECTOR_BYTES else 0)
    return math.gcd(run, MOST_RUN)

"""What a program moves between threads that blocks of a cluster could not: they have shared memory of their own.

    total = tile.sum(x[n, m], axis=1)       the blocks share m: each would know a part of every sum

Folds of what each block has a part of go from block to block where a plan is made for that (whole rows, held rows); all
else is found by its axis, and refused before anything is lowered.
"""

from __future__ import annotations

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op
from tiledsl.ir.symbolic import Dim
from tiledsl.passes.gpu.layouts.infer_layouts import reshapes_units


def moved_between_blocks(grid: ops.Grid, shared: Dim | None, *, folds: bool) -> str:
    """Why blocks of a cluster cannot share an axis of a grid's tiles (None: any axis), in words that follow "because";
    empty if they can. `folds`: whether blocks tell each other what they fold."""
    return next(filter(None, (_moved(op, shared, folds) for op in grid.body.walk())), "")


def _moved(op: Op, shared: Dim | None, folds: bool) -> str:
    where = "in another block of the cluster"
    match op:
        case ops.Reduce() if not folds and any(op.sources[0].shape[axis] == shared for axis in op.axes):
            return "a fold goes along what blocks of a cluster share: each has a part, and all need the result"
        case ops.Scan() if shared is None or op.sources[0].shape[op.axis] == shared:
            return f"a scan goes on {where}"
        case ops.Sort() if shared is None or op.source.shape[op.axis] == shared:
            return f"a sort moves elements to places {where}"
        case ops.Reshape() if op.source.shape and op.result.shape and not reshapes_units(op):
            if shared is None or shared in op.source.shape:
                return f"a reshape moves elements to places {where}"
        case ops.Extract() if op.source.shape and (shared is None or shared in op.source.shape):
            return f"a part of a tile is {where}"
        case ops.Atomic() if op.result.users and not (shared is not None and shared in op.value.shape):
            return f"what an atomic finds is told to threads {where}"
        case _:
            pass
    return ""

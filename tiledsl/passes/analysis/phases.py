"""What of a TILE function runs one after the other: each grid on its own, and what stands between grids."""

from __future__ import annotations

from tiledsl.ir.core import Function, Op
from tiledsl.ir.tile_ops import Empty, Grid


def phases_of(function: Function, *, with_fills: bool) -> list[list[Op]]:
    """The effects of the function body in order: each grid on its own, other ops with effects in runs.

    `with_fills`: new tensors that are filled are among them. (In GPU form the new tensor itself says that it is.)
    """
    phases: list[list[Op]] = []
    run: list[Op] = []
    for op in function.body.ops:
        if isinstance(op, Grid):
            phases += [run] if run else []
            phases.append([op])
            run = []
        elif (with_fills and op.fill is not None) if isinstance(op, Empty) else op.effect in ("write", "control"):
            run.append(op)
    return phases + ([run] if run else [])

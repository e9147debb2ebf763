"""What several turns of a loop load together: read off the program, before there are layouts (`join-turns`)."""

from __future__ import annotations

from collections.abc import Set

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.passes.analysis.early_loads import depends_on, early_loads
from tiledsl.passes.tile.loops.carried_values import carried_arguments

FOLDS = (ops.Reduce, ops.Scan)


def joined_loads(loop: Op, written: Set[Value]) -> list[Op]:
    """Those of a loop of single coordinates that stores what it computes, or folds it; else none. `written`: tensors
    that the grid writes."""
    if not isinstance(loop, (ops.For, ops.Range)) or (isinstance(loop, ops.Range) and not _is_by_one(loop)):
        return []
    body = loop.body.ops
    if any(op.bodies for op in body if not isinstance(op, FOLDS)):
        return []
    if any(op.effect not in ("pure", "terminator") and not isinstance(op, (ops.Load, ops.Store)) for op in body):
        return []
    if not any(isinstance(op, (ops.Store, *FOLDS)) for op in body):
        return []
    early = early_loads(loop.body, carried_arguments(loop, loop.body), written, (ops.Load,), FOLDS)
    return [op for op in early if isinstance(op, ops.Load) and depends_on(op, loop.body.arguments[0])]


def _is_by_one(loop: ops.Range) -> bool:
    (block,) = loop.blocks
    return block.kind == "fixed" and block.size == 1

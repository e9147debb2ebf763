"""What a grid does to the results of a product: what it reads beside them, computes and folds, for the ranking."""

from __future__ import annotations

from typing import NamedTuple

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op

INSTRUCTIONS = {"exp": 3, "exp2": 2, "tanh": 8, "erf": 12, "sigmoid": 5, "div": 6, "sqrt": 4, "rsqrt": 2, "log": 6}
"""Of functions, per element; those of others are one each. Of the slow unit one counts as two."""


class Epilogue(NamedTuple):
    """`beside_bytes`: read for each element of the result. `row_bytes`: of the widest load that is the same for all
    rows, for each column; `row_loaded`: of all such loads. `instructions` for each element; `folds` along its rows."""

    beside_bytes: int
    row_bytes: int
    row_loaded: int
    instructions: int
    folds: int


def epilogue_of(grid: ops.Grid, dot: ops.Dot) -> Epilogue:
    """Of the product of a grid: all that stands in the body of the grid itself."""
    shape = dot.result.shape[-2:]
    beside = [op for op in grid.body.ops if isinstance(op, ops.Load) and op.result.shape[-2:] == shape]
    of_rows = [op for op in grid.body.ops if isinstance(op, ops.Load) and op.result.shape == shape[-1:]]
    maps = [op for op in grid.body.ops if isinstance(op, ops.Map) and op.result.shape[-2:] == shape]
    folds = [op for op in grid.body.ops if _folds_rows(op, dot)]
    return Epilogue(
        sum(op.result.dtype.bytes for op in beside),
        max((op.result.dtype.bytes for op in of_rows), default=0),
        sum(op.result.dtype.bytes for op in of_rows),
        sum(INSTRUCTIONS.get(op.fn, 1) for op in maps) + len(folds),
        len(folds),
    )


def _folds_rows(op: Op, dot: ops.Dot) -> bool:
    return isinstance(op, ops.Reduce) and op.sources[0].shape[-2:] == dot.result.shape[-2:]

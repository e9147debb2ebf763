"""Rows that a grid with products loads whole, before its loops: threads hold them in registers.

row = x[m, :]                             held from here
scale = tile.rsqrt(tile.mean(row * row))  to here: the loop's sums come after it
for k in tile.range(K): ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value


def whole_rows_held(grid: ops.Grid, dots: Sequence[ops.Dot]) -> Iterator[tuple[ops.Load, bool]]:
    """Loads of tiles of at least two axes in the body of a grid, before its products, and whether what is loaded, or a
    tile computed of it, is still needed when there are sums. What is loaded behind the loops is read bit by bit, as
    results need it."""
    body = list(grid.body.ops)
    inside = {op for dot in dots for op in (_statement(dot, grid), dot) if op is not None}
    first = next((number for number, op in enumerate(body) if op in inside), len(body))
    for op in body[:first]:
        if isinstance(op, ops.Load) and len(op.result.shape) > 1:
            yield op, any(number >= first for number in _uses(op.result, grid, body))


def _statement(op: Op, grid: ops.Grid) -> Op | None:
    """The op of a grid's body that an op stands in."""
    here: Op | None = op
    while here is not None and (here.parent is None or here.parent is not grid.body):
        here = None if here.parent is None else here.parent.parent
    return here


def _uses(value: Value, grid: ops.Grid, body: Sequence[Op]) -> Iterator[int]:
    """Where a tile is used, and what is computed of it element by element; but not where products take it, which count
    their operands themselves."""
    seen, work = {value}, [value]
    while work:
        for user in work.pop().users:
            statement = _statement(user, grid)
            if statement is not None and not isinstance(user, ops.Dot):
                yield body.index(statement)
            if isinstance(user, (ops.Map, ops.Cast, ops.Transpose)) and user.result not in seen:
                seen.add(user.result)
                work.append(user.result)

"""What a grid has in common with those of other functions: all that a search for its blocks and threads looks at.

sums of 4 parts of [250, 32] with relu behind them       alike in functions whose sums are of 576 and of 800 elements
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value, op_structure
from tiledsl.ir.symbolic import symbols_of
from tiledsl.ir.types import TensorType
from tiledsl.passes.analysis.sizes import symbols_in


class GridLikeness(NamedTuple):
    """Equal for grids that do the same with tensors of the same types, of the same sizes and alignments."""

    structure: object
    made_of: tuple[object, ...]
    sizes: tuple[tuple[str, int | None], ...]
    alignment: tuple[int | None, ...]


def grid_likeness(grid: ops.Grid, sizes: Mapping[str, int], alignment: Mapping[Value, int]) -> GridLikeness | None:
    """The likeness of a grid with these sizes and alignments of rows; None where a scalar of the call decides."""
    outside = list(dict.fromkeys(_from_outside(grid)))
    given = [value for value in outside if value.op is None]
    if not all(isinstance(value.type, TensorType) for value in given):
        return None
    numbers = {value: number for number, value in enumerate(outside)}
    made_of = tuple(value.type if value.op is None else op_structure(value.op, {**numbers}) for value in outside)
    names = set[str]().union(*(symbols_in(op) for op in (grid, *grid.body.walk(), *(v.op for v in outside if v.op))))
    for value in given:
        assert isinstance(value.type, TensorType)
        names |= set[str]().union(*(symbols_of(dim) for dim in value.type.shape))
    return GridLikeness(
        op_structure(grid, numbers),
        made_of,
        tuple((name, sizes.get(name)) for name in sorted(names)),
        tuple(alignment.get(value) for value in outside),
    )


def _from_outside(grid: ops.Grid) -> Iterator[Value]:
    """The values that a grid reads and what they are computed of, those first that others are made of."""
    inside = {value for op in grid.body.walk() for value in op.results}
    inside |= {value for op in (grid, *grid.body.walk()) for body in op.bodies.values() for value in body.arguments}
    for op in (grid, *grid.body.walk()):
        for value in op.operands:
            if value not in inside:
                yield from _with_sources(value)


def _with_sources(value: Value) -> Iterator[Value]:
    for source in value.op.operands if isinstance(value.op, Op) else ():
        yield from _with_sources(source)
    yield value

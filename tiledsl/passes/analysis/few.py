"""Which sizes make a dot one of few rows or columns, so that its wide operand is better read in place than packed."""

from __future__ import annotations

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.facts import Facts
from tiledsl.ir.symbolic import Dim, symbol_name
from tiledsl.ir.types import AxisType
from tiledsl.passes.analysis.sizes import size_of

SHORT_ROW = 8
"""Elements of a row that vectors of a CPU had better go across: 16 lanes are picked from 8 vectors by 7 shuffles,
where a gather takes 20 cycles."""
FEW = 16
"""Rows (or columns) of a product up to which its other operand is read where it lies, and not packed."""


def is_few(facts: Facts, dim: Dim) -> bool:
    """Whether a size is surely at most `FEW`."""
    limit = facts.bounds(dim)[1]
    return limit is not None and limit <= FEW


def sizes_that_may_be_few(grid: ops.Grid, facts: Facts) -> list[Dim]:
    """Sizes of dots in a grid that may turn out to be `FEW` or less, numbers of rows first.

    They are sizes of tensors and of the grid's own blocks. What divides by 16 is not few.
    """
    inner = {
        symbol_name(op.body.arguments[0].type.extent)
        for op in grid.walk()
        if isinstance(op, ops.Range) and isinstance(op.body.arguments[0].type, AxisType)
    }
    lengths = {
        symbol_name(argument.type.extent): size_of(stop)
        for argument, stop in zip(grid.body.arguments, grid.stops)
        if isinstance(argument.type, AxisType)
    }
    dots = [op for op in grid.walk() if isinstance(op, ops.Dot)]
    dots = [dot for dot in dots if not is_few(facts, dot.a.shape[-2]) and not is_few(facts, dot.b.shape[-1])]
    found: list[Dim] = []
    for dim in (*(dot.a.shape[-2] for dot in dots), *(dot.b.shape[-1] for dot in dots)):
        name = symbol_name(dim)
        length = lengths.get(name, dim)
        whole = length is not None and facts.divisible(length, FEW)
        if name is not None and name not in inner and dim not in found and not whole:
            found.append(dim)
    return found


def rows_that_may_be_few(loop: ops.Range, facts: Facts) -> str | None:
    """The symbol of a loop's block, if that is the rows of a dot in it, and data says how many they are.

    Loops that carry values are none of these.
    """
    axis = loop.body.arguments[0].type
    name = symbol_name(axis.extent) if isinstance(axis, AxisType) else None
    if name is None or loop.initial or (size_of(loop.start) is not None and size_of(loop.stop) is not None):
        return None
    dots = [op for op in loop.walk() if isinstance(op, ops.Dot) and symbol_name(op.a.shape[-2]) == name]
    return (
        name if any(not is_few(facts, dot.a.shape[-2]) and not is_few(facts, dot.b.shape[-1]) for dot in dots) else None
    )

"""Loops that do nothing but multiply: one product, or several of the same depth side by side.

for k in tile.range(K):
    first = tile.dot(a[m, k], b[k, n], first)
    second = tile.dot(a[m, k], c[k, n], second)
"""

from __future__ import annotations

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.types import AxisType, TileType
from tiledsl.passes.gpu.products.row_runs import row_runs
from tiledsl.passes.gpu.products.window_rows import window_rows
from tiledsl.passes.tile.loops.carried_values import yielded

_KINDS = (ops.Dot, ops.Load, ops.Transpose, ops.Yield)


def products_of(op: ops.Range) -> tuple[ops.Dot, ...]:
    """The products that a loop consists of, besides the loads of their operands, in the order in which it carries
    their sums; none if it does anything else."""
    given, carried = yielded(op.body), op.body.arguments[1:]
    dots = tuple(value.op for value in given if isinstance(value.op, ops.Dot) and value.op.parent is op.body)
    if not dots or len(dots) != len(op.initial) or len(set(dots)) != len(dots):
        return ()
    if any(isinstance(inner, ops.Dot) and inner not in dots for inner in op.body.ops):
        return ()
    plain = all(isinstance(inner, _KINDS) or (inner.effect == "pure" and _says_where(inner)) for inner in op.body.ops)
    only = all(
        dot.acc is argument and len(argument.users) == 1 and len(dot.result.users) == 1
        for dot, argument in zip(dots, carried)
    )
    return dots if plain and only else ()


def adds_up_alone(dot: ops.Dot) -> bool:
    """Whether nothing sees the sums of a product before its loop has ended: groups of warps may have some each."""
    loop = None if dot.parent is None else dot.parent.parent
    if not isinstance(loop, ops.Range) or dot.acc is None or len(dot.result.shape) != 2:
        return False
    given, carried = yielded(loop.body), loop.body.arguments[1:]
    if dot.acc not in carried or sum(dot.acc.users.values()) != 1 or sum(dot.result.users.values()) != 1:
        return False
    return given[carried.index(dot.acc)] is dot.result


def are_alike(dots: tuple[ops.Dot, ...]) -> bool:
    """Whether products have one left operand, and right ones of the same shape and dtype: their loop may bring all of
    them in one stage."""
    first = dots[0]
    return all(
        _source(dot.a) is _source(first.a)
        and dot.a.shape == first.a.shape
        and dot.b.shape == first.b.shape
        and (dot.a.dtype, dot.b.dtype, dot.dtype, dot.precision)
        == (first.a.dtype, first.b.dtype, first.dtype, first.precision)
        for dot in dots
    )


def _source(value: Value) -> Value:
    while isinstance(value.op, ops.Transpose):
        value = value.op.source
    return value


def _says_where(op: Op) -> bool:
    """Whether an op gives scalars, blocks, or coordinates at which loads of windows or of runs read: those who bring
    these count them."""
    return all(
        isinstance(value.type, AxisType) or (isinstance(value.type, TileType) and (not value.shape or _is_place(value)))
        for value in op.results
    )


def _is_place(value: Value) -> bool:
    return all(
        (isinstance(user, ops.Load) and (window_rows(user) is not None or row_runs(user) is not None))
        or (user.effect == "pure" and not user.bodies and all(map(_is_place, user.results)))
        for user in value.users
    )


def product_of(op: ops.Range) -> ops.Dot | None:
    """The product that a loop consists of, besides the loads of its operands; None if it does anything else."""
    dots = products_of(op)
    return dots[0] if len(dots) == 1 else None

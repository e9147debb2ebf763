"""Swaps the sides of products: (a @ b) is made as (b.T @ a.T).T, so that rows of the result run along the columns of
matrix instructions.

    %sum = tile.range(%start, %K, [%none]) body(%k: axis<k>, %acc: tile<f32, [m, n]>) {
      %at = tile.load(%a, [%m, %k])
      %bt = tile.load(%b, [%k, %n])
      %next = tile.dot(%at, %bt, %acc)
      tile.yield([%next])
    }
 =>                                                            swap-sides{grids=0}
    %sum_turned = tile.range(%start, %K, [%none_turned]) body(%k: axis<k>, %acc_turned: tile<f32, [n, m]>) {
      ...
      %a_turned = tile.transpose(%bt) {permutation = [1, 0]}
      %b_turned = tile.transpose(%at) {permutation = [1, 0]}
      %next_turned = tile.dot(%a_turned, %b_turned, %acc_turned)
      tile.yield([%next_turned])
    }
    %sum = tile.transpose(%sum_turned) {permutation = [1, 0]}

Instructions of warpgroups have 64 rows, and columns by 8: of 777 rows, blocks of 128 waste a seventh, and there are
seven of them however wide they are; swapped, there are four blocks of 208 columns. The same elements are multiplied and
added in the same order, so no digit changes.

Before: any TILE form. After: the same form. Loops are left alone that do more than multiply what they load, and those
whose results are folded behind them, or combined with what is loaded: that comes ahead of products only the other way
round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Module, Op, Value
from tiledsl.ir.types import AxisType, TileType
from tiledsl.ir.verifier import Form
from tiledsl.passes.manager import PassContext

SWAPPED = (1, 0)
BITS = 16
"""Of the elements of results, which matrices of registers are turned of on their way to shared memory."""
BEHIND = (
    ops.Constant, ops.Size, ops.Start, ops.Map, ops.Cast, ops.Broadcast, ops.Reshape, ops.Transpose, ops.Store,
    ops.Yield,
)  # fmt: skip
"""What may stand in a grid beside the loop."""


@dataclass(frozen=True)
class SwapSides:
    """`grids`: which, by their numbers in the function."""

    name: ClassVar[str] = "swap-sides"
    requires: ClassVar[Form] = Form.TILE
    gives: ClassVar[Form] = Form.TILE
    grids: tuple[int, ...] = ()

    def run(self, module: Module, context: PassContext) -> Module:
        found = [op for op in module.entry.body.ops if isinstance(op, ops.Grid)]
        for number, grid in enumerate(found):
            if number not in self.grids:
                continue
            loop = loop_to_swap(grid)
            if loop is None:
                context.remark(self.name, grid.location, "sides stay: there is more than products of what is loaded")
                continue
            context.remark(self.name, loop.location, "rows of the result run along the columns of instructions")
            _swap(loop)
        return module


def loop_to_swap(grid: ops.Grid) -> ops.Range | None:
    """The loop of a grid whose products can be made with their sides swapped; None if it has none."""
    loops = [op for op in grid.body.ops if isinstance(op, ops.Range)]
    if len(loops) != 1 or any(not isinstance(op, BEHIND) for op in grid.body.ops if op is not loops[0]):
        return None
    (loop,) = loops
    stores = [op for op in grid.body.ops if isinstance(op, ops.Store)]
    if not all(_is_narrow_matrix(op) for op in stores):
        return None
    if any(not isinstance(op, (ops.Load, ops.Transpose, ops.Dot, ops.Yield)) for op in loop.body.ops):
        return None
    given = loop.body.terminator
    assert given is not None
    _, *carried = loop.body.arguments
    dots = [op for op in loop.body.ops if isinstance(op, ops.Dot)]
    plain = len(carried) == len(dots) and all(
        _is_plain(value.op, argument) for value, argument in zip(given.operands, carried)
    )
    return loop if plain and all(map(_is_filled, loop.initial)) else None


def _is_narrow_matrix(op: ops.Store) -> bool:
    return len(op.value.shape) == 2 and op.value.dtype.bits == BITS


def _is_plain(op: Op | None, carried: Value) -> bool:
    """Whether a product of two matrices is added to a carried value, and does nothing else."""
    if not isinstance(op, ops.Dot) or op.acc is not carried or len(op.a.shape) != 2 or op.precision == "planes":
        return False
    return len(carried.users) == len(op.result.users) == 1


def _is_filled(value: Value) -> bool:
    """Whether a tile is a scalar repeated."""
    return isinstance(value.op, ops.Broadcast) and not value.op.source.shape


def _swap(loop: ops.Range) -> None:
    assert loop.parent is not None
    before = Builder(Block(), loop.location)
    initial = [_turned_fill(before, value) for value in loop.initial]
    block, *carried = loop.body.arguments
    body = Block([(block.type, block.name), *((_turned_type(value), value.name) for value in carried)])
    values = dict(zip(loop.body.arguments, body.arguments))
    inside = Builder(body, loop.location)
    for op in loop.body.ops:
        if not isinstance(op, ops.Dot):
            body.append(op.clone(values))
            continue
        with inside.at(op.location):
            assert op.acc is not None
            values[op.result] = inside.emit(
                ops.Dot, types=[_turned_type(op.result)], result_names=[op.result.name],
                a=_turned(inside, values[op.b]), b=_turned(inside, values[op.a]), acc=values[op.acc], dtype=op.dtype,
                precision=op.precision,
            ).result  # fmt: skip
    swapped = before.emit(
        ops.Range, types=[_turned_type(value) for value in loop.results],
        result_names=[f"{value.name}_turned" if value.name else "" for value in loop.results], start=loop.start,
        stop=loop.stop, initial=initial, blocks=loop.blocks, num_stages=loop.num_stages, body=body,
    )  # fmt: skip
    results = [_turned(before, value) for value in swapped.results]
    for op in before.block.ops:
        loop.parent.insert_before(loop, op)
    _replace(loop, results)


def _replace(loop: ops.Range, results: Sequence[Value]) -> None:
    for old, new in zip(loop.results, results):
        new.name = old.name
        old.replace_with(new)
    loop.erase()


def _turned_fill(builder: Builder, value: Value) -> Value:
    fill = value.op
    assert isinstance(fill, ops.Broadcast)
    type_ = _turned_type(value)
    return builder.emit(
        ops.Broadcast, types=[type_], result_names=[value.name], source=fill.source, shape=type_.shape
    ).result  # fmt: skip


def _turned(builder: Builder, value: Value) -> Value:
    """A matrix with its axes the other way."""
    if isinstance(value.op, ops.Transpose):
        return value.op.source
    return builder.emit(
        ops.Transpose, types=[_turned_type(value)], result_names=[f"{value.name}_turned" if value.name else ""],
        source=value, permutation=SWAPPED,
    ).result  # fmt: skip


def _turned_type(value: Value) -> TileType:
    assert not isinstance(value.type, AxisType)
    type_ = value.tile
    return replace(type_, shape=type_.shape[::-1])

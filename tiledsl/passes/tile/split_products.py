"""Products of f32 with all their digits by matrix instructions for bf16: threads make three planes of each operand.

    %acc = tile.range(%start, %K, [%zeros]) body(%k: axis<k>, %a: tile<f32, [m, n]>) {
      %at = tile.load(%A, [%m, %k])
      %bt = tile.load(%B, [%k, %n])
      %next = tile.dot(%at, %bt, %a)
      tile.yield([%next])
    }
 =>                                                            split-products{grids=0}
    %planes = tile.range(%start, %K, [%zeros]) body(...) {
      ...
      %next = tile.dot(%at, %bt, %a) {precision = split}       six products of planes, times 2**32
      tile.yield([%next])
    }
    %scaled = %planes * 2**-32
    %acc = tile.if(any(%scaled is not finite)) {rare} then() {
      tile.range(%start, %K, [%zeros]) body(%k: axis<1>, ...) {
        ...
        %next = fma(%at, %bt, %a)                              in f32, one k after the other
        tile.yield([%next])
      }
    } otherwise() { %scaled }

Planes of infinities, NaN and of what is larger than 2**112 have no sum that is finite; nor has what overflows on the
way. Then a program makes its tile again, as f32 has it.

Before: any TILE form. After: the same form. Loops stay as they are that carry anything else than sums of such products,
that have others within them, or that change anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Module, Value
from tiledsl.ir.dtypes import f32
from tiledsl.ir.substitute import substitute_in_ops, substitute_in_type
from tiledsl.ir.symbolic import symbol_name
from tiledsl.ir.types import AxisType, BlockSize
from tiledsl.ir.verifier import Form
from tiledsl.passes.analysis.splats import number_of
from tiledsl.passes.manager import PassContext, form_of
from tiledsl.passes.tile.loops.carried_values import yielded
from tiledsl.passes.tile.loops.split_sums import place_new


@dataclass(frozen=True)
class SplitProducts:
    """`grids`: which, by their numbers in the function."""

    name: ClassVar[str] = "split-products"
    requires: ClassVar[Form] = Form.TILE
    gives: ClassVar[Form] = Form.TILE
    grids: tuple[int, ...] = ()

    def run(self, module: Module, context: PassContext) -> Module:
        placed = form_of(module) is not Form.TILE
        found = [op for op in module.entry.body.ops if isinstance(op, ops.Grid)]
        for number, grid in enumerate(found):
            for loop in loops_to_split(grid) if number in self.grids else []:
                context.remark(self.name, loop.location, f"f32 products by {ops.PLANES} planes of bf16 of each operand")
                _split(loop)
        if placed:
            place_new(module.entry)
        return module


def loops_to_split(grid: ops.Grid) -> list[ops.Range]:
    """The loops of a grid all of whose carried values are sums of f32 products with all digits."""
    return [op for op in grid.body.ops if isinstance(op, ops.Range) and _is_sum_of_products(op)]


def _is_sum_of_products(loop: ops.Range) -> bool:
    block, *carried = loop.body.arguments
    named = isinstance(block.type, AxisType) and symbol_name(block.type.extent) is not None
    if not named or not carried or any(op.bodies or op.effect == "write" for op in loop.body.ops):
        return False
    dots = [op for op in loop.body.ops if isinstance(op, ops.Dot)]
    sums = [value.op for value in yielded(loop.body)]
    return len(dots) == len(carried) and all(
        isinstance(dot, ops.Dot) and _can_be_split(dot, value) for dot, value in zip(sums, carried)
    )


def _can_be_split(dot: ops.Dot, carried: Value) -> bool:
    if dot.precision != "ieee" or dot.a.dtype != f32 or dot.dtype != f32 or len(dot.a.shape) != 2:
        return False
    plain = dot.acc is carried and len(carried.users) == len(dot.result.users) == 1
    return plain and 1 not in (*dot.a.shape, dot.b.shape[-1])


def _split(loop: ops.Range) -> None:
    assert loop.parent is not None
    build = Builder(Block(), loop.location)
    exact = _exact(loop)
    starts = loop.initial
    zeros = [_zeros(build, value) for value in starts]
    body = loop.body.clone({})
    for op in body.ops:
        if isinstance(op, ops.Dot):
            op.attributes["precision"] = "split"
    planes = build.emit(
        ops.Range, start=loop.start, stop=loop.stop, initial=zeros, blocks=loop.blocks, num_stages=loop.num_stages,
        body=body, types=[result.type for result in loop.results],
        result_names=[f"{result.name}_planes" if result.name else "" for result in loop.results],
    )  # fmt: skip
    scaled = [build.map("mul", value, build.constant(ops.PLANES_SCALE, f32)) for value in planes.results]
    wrong = [_any_not_finite(build, value) for value in scaled]
    condition = wrong[0]
    for another in wrong[1:]:
        condition = build.map("or", condition, another)
    then, otherwise = Block(), Block()
    with build.inside(then):
        then.append(exact)
        build.emit(ops.Yield, values=list(exact.results))
    with build.inside(otherwise):
        sums = [
            total if number_of(start) == 0 else build.map("add", start, total) for start, total in zip(starts, scaled)
        ]
        build.emit(ops.Yield, values=sums)
    names = [result.name for result in loop.results]
    branch = build.emit(
        ops.If, condition=condition, rare=True, then=then, otherwise=otherwise, result_names=names
    )  # fmt: skip
    for op in build.block.ops:
        loop.parent.insert_before(loop, op)
    for old, new in zip(loop.results, branch.results):
        old.replace_with(new)
    loop.erase()


def _zeros(build: Builder, value: Value) -> Value:
    """A tile of zeros like another one; itself if it is that."""
    if number_of(value) == 0:
        return value
    return build.broadcast(build.constant(0.0, f32), value.shape)


def _any_not_finite(build: Builder, value: Value) -> Value:
    finite = build.map("lt", build.map("abs", value), build.constant(math.inf, f32))
    axes = tuple(range(len(value.shape)))
    return build.emit(ops.Reduce, sources=[build.map("not", finite)], axes=axes, fn="or").result


def _exact(loop: ops.Range) -> ops.Range:
    """The same loop, one coordinate after the other, by multiply-adds of f32."""
    block = loop.body.arguments[0]
    assert isinstance(block.type, AxisType)
    name = symbol_name(block.type.extent)
    assert name is not None
    body = loop.body.clone({})
    for argument in body.arguments:
        argument.type = substitute_in_type(argument.type, {name: 1})
    substitute_in_ops(body.ops, {name: 1})
    for op in list(body.ops):
        if isinstance(op, ops.Dot):
            _multiply_add(body, op)
        elif isinstance(op, (ops.Load, ops.Transpose)) and op.result.tile.level == "shared":
            op.result.type = replace(op.result.tile, level="register")  # no product reads it there
    return ops.Range(
        loop.location, start=loop.start, stop=loop.stop, initial=loop.initial, blocks=(BlockSize.fixed(1),), body=body,
        types=[result.type for result in loop.results], result_names=[_exact_name(value) for value in loop.results],
    )  # fmt: skip


def _exact_name(value: Value) -> str:
    return f"{value.name}_exact" if value.name else ""


def _multiply_add(body: Block, dot: ops.Dot) -> None:
    """A product of a column and a row that is added, element by element."""
    assert dot.acc is not None
    build = Builder(Block(), dot.location)
    left, right = (build.broadcast(value, dot.result.shape) for value in (dot.a, dot.b))
    made: Sequence[Value] = build.emit(
        ops.Map, fn="fma", inputs=(left, right, dot.acc), result_names=[dot.result.name]
    ).results  # fmt: skip
    for op in build.block.ops:
        body.insert_before(dot, op)
    dot.result.replace_with(made[0])
    dot.erase()

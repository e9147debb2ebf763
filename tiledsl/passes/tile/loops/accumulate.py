"""Adds products to what a loop carries where they are made, instead of behind.

    %p = tile.dot(%a, %b)                          %sum = tile.dot(%a, %b, %acc)
    %sum = tile.map([%acc, %p]) {fn = add}   =>    tile.yield([%sum])
    tile.yield([%sum])

Matrix instructions add to the registers they are given: a product of its own needs as many registers again, and a
wait before it can be added. `acc` is what the loop carries, or what a few operations make of it (in attention it is
rescaled).

Before: any TILE form. After: the same form. A sum of floats is rounded once instead of twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir.core import Block, Module, Op, Value
from tiledsl.ir.tile_ops import Dot, For, Map, Range, While
from tiledsl.ir.verifier import Form
from tiledsl.passes.analysis.splats import number_of
from tiledsl.passes.manager import PassContext


@dataclass(frozen=True)
class AccumulateProducts:
    """Makes sums of carried tiles and products into products that accumulate."""

    name: ClassVar[str] = "accumulate"
    requires: ClassVar[Form] = Form.TILE
    gives: ClassVar[Form] = Form.TILE

    def run(self, module: Module, context: PassContext) -> Module:
        for function in module.functions:
            for loop in function.walk():
                if isinstance(loop, (Range, For, While)):
                    for op in list(loop.body.ops):
                        if isinstance(op, Map) and op.fn == "add" and len(op.inputs) == 2:
                            _accumulate(loop.body, op)
        return module


def _accumulate(body: Block, op: Map) -> None:
    for product, acc in (op.inputs, op.inputs[::-1]):
        dot = product.op
        if isinstance(dot, Dot) and _can_take(body, dot, op) and _is_carried(body, acc, dot.result):
            fields = {"a": dot.a, "b": dot.b, "acc": acc, "dtype": dot.dtype, "precision": dot.precision}
            made = Dot(dot.location, types=[op.result.type], result_names=[op.result.name], **fields)
            body.insert_before(op, made)
            op.result.replace_with(made.result)
            op.erase()
            dot.erase()
            return


def _can_take(body: Block, dot: Dot, op: Op) -> bool:
    """Whether nothing but the sum reads a product of the loop's body, which has no sum of its own yet."""
    alone = dot.acc is None or number_of(dot.acc) == 0
    return alone and dot.parent is body and dict(dot.result.users) == {op: 1}


def _is_carried(body: Block, value: Value, like: Value) -> bool:
    """Whether a value is what the loop carries, or is made of that, element by element."""
    seen: set[Value] = set()
    work = [value]
    while work:
        one = work.pop()
        if one in seen or one.type != like.type:
            continue
        seen.add(one)
        if one in body.arguments:
            return True
        if one.op is not None and one.op.parent is body:
            match one.op:
                case Map():
                    work += one.op.inputs
                case Dot() if one.op.acc is not None:
                    work.append(one.op.acc)
                case _:
                    pass
    return False

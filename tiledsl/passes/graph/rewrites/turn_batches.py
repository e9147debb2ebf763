"""Products whose batches lie side by side in memory are products of turned copies, with batches in front.

    %p = contract(%a, %b) "i k c, j k c -> i j c"            %s = call(transpose(%a)) {callee = turned}
                                                       =>    %t = call(transpose(%b)) {callee = turned}
                                                             %q = contract(%s, %t) "c i k, c j k -> c i j"
                                                             %p = transpose(%q)

A block of a batch would be single elements of memory, each with a sector of its own, as often as blocks of the other
operand ask for it. A copy reads them once. Where there is little to multiply, copies would take longer than that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Block, Function, Module, Value, free_names
from tiledsl.ir.rewrite import Rewriter
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.types import TensorType
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.shapes import sizes_of, volume
from tiledsl.passes.graph.analysis.views import nearest_axis
from tiledsl.passes.manager import PassContext
from tiledsl.support.location import Location

TIMES = 16
"""Multiply-adds for each element of operands and results, from which on copies are worth their time."""


@dataclass(frozen=True)
class TurnBatches:
    """Of the entry, on GPUs: on a CPU batches side by side are vectors."""

    name: ClassVar[str] = "turn-batches"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        if not self.arch.startswith("sm_"):
            return module
        copies: list[Function] = []
        taken = {function.name for function in module.functions}
        for op in [op for op in module.entry.body.ops if isinstance(op, ops.Contract)]:
            if _is_worth_it(op) and _turn(op, copies, taken):
                context.remark(self.name, op.location, "batches lie side by side: it multiplies turned copies")
        return Module([*module.functions, *copies])


def _batches(op: ops.Contract) -> list[str]:
    """The axes that both operands and the result have, in the order of the result."""
    a, b, out = op.axis_names()
    return [name for name in out if name in a and name in b]


def _is_worth_it(op: ops.Contract) -> bool:
    if op.precision == "planes" or op.exact_a is not None or op.exact_b is not None:
        return False
    sizes: dict[str, int] = {}
    for names, value in zip(op.axis_names(), (op.a, op.b, op.result)):
        sizes.update(zip(names, sizes_of(value)))
    return 0 < TIMES * sum(map(volume, (op.a, op.b, op.result))) <= math.prod(sizes.values())


def _turn(op: ops.Contract, copies: list[Function], taken: set[str]) -> bool:
    """Whether an operand had to be turned."""
    batches, rewriter = _batches(op), Rewriter(op)
    a, b, out = (list(names) for names in op.axis_names())
    operands, orders = list[Value](), list[list[str]]()
    for value, names in ((op.a, a), (op.b, b)):
        order = _batches_first(names, batches) if _lie_side_by_side(value, names, batches) else names
        orders.append(order)
        operands.append(value)
        if order != names:
            places = [names.index(name) for name in order]
            copies.append(_copy(value, places, op.location, free_names(taken, "turned")))
            taken.add(copies[-1].name)
            operands[-1] = _call(copies[-1], value, places, rewriter)
    if orders == [a, b]:
        return False
    inner = _batches_first(out, batches) if out[-1] in batches else out
    text = f"{' '.join(orders[0])}, {' '.join(orders[1])} -> {' '.join(inner)}"
    first, second = operands
    made = rewriter.emit(ops.Contract, a=first, b=second, axes=text, dtype=op.dtype, precision=op.precision).result
    if inner != out:
        made = rewriter.emit(ops.Transpose, source=made, permutation=tuple(inner.index(name) for name in out)).result
    rewriter.replace(op, made)
    return True


def _batches_first(names: Sequence[str], batches: Sequence[str]) -> list[str]:
    return [*batches, *(name for name in names if name not in batches)]


def _lie_side_by_side(value: Value, names: Sequence[str], batches: Sequence[str]) -> bool:
    """Whether the elements of an operand that lie next to each other are of different batches."""
    nearest = nearest_axis(value)
    if nearest is None:
        nearest = max((axis for axis, n in enumerate(sizes_of(value)) if n > 1), default=None)
    return nearest is not None and names[nearest] in batches


def _copy(value: Value, order: Sequence[int], location: Location, name: str) -> Function:
    """A group that does nothing: what it is given in another order is in memory then."""
    body, shape = Block(), sizes_of(value)
    turned = TensorType(tensor_type(value).dtype, tuple(shape[axis] for axis in order))
    same = ops.Cast(location, source=body.add_argument(turned, value.name), dtype=turned.dtype)
    body.append(same)
    body.append(ops.Return(location, values=[same.result]))
    return Function(name, body, (), location)


def _call(copy: Function, value: Value, order: Sequence[int], rewriter: Rewriter) -> Value:
    turned = rewriter.emit(ops.Transpose, source=value, permutation=tuple(order)).result
    return rewriter.emit(ops.Call, inputs=[turned], callee=copy.name, types=[turned.type]).result

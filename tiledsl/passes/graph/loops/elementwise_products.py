"""Products that are none of matrices as what they are, a fold of elementwise products.

%y = contract(%h, %c) {axes = "b d n, b n -> b d"}    =>    %y = reduce(map(mul, %h, broadcast(%c)), axis n) {fn = add}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Value
from tiledsl.ir.rewrite import Rewriter
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.groups.group import is_of_matrices
from tiledsl.passes.manager import PassContext


@dataclass(frozen=True)
class ElementwiseProducts:
    """Of the entry: those of which one operand has all axes of the other."""

    name: ClassVar[str] = "elementwise-products"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH

    def run(self, module: Module, context: PassContext) -> Module:
        for op in list(module.entry.body.ops):
            if isinstance(op, ops.Contract) and op.precision != "planes" and not is_of_matrices(op):
                _rewrite(op)
        return module


def _rewrite(op: ops.Contract) -> None:
    rewriter = Rewriter(op)
    a, b, result = op.axis_names()
    sizes = {name: size for names, value in ((a, op.a), (b, op.b)) for name, size in zip(names, sizes_of(value))}
    axes = [*result, *(name for name in sizes if name not in result)]
    spread = [_spread(rewriter, value, names, axes, sizes) for names, value in ((a, op.a), (b, op.b))]
    wide = [rewriter.emit(ops.Cast, source=value, dtype=op.dtype).result for value in spread]
    product = rewriter.emit(ops.Map, fn="mul", inputs=wide).result
    if len(axes) > len(result):
        summed = tuple(range(len(result), len(axes)))
        product = rewriter.emit(ops.Reduce, source=product, axes=summed, fn="add", keepdims=False).result
    rewriter.replace(op, product)


def _spread(rewriter: Rewriter, value: Value, names: list[str], axes: list[str], sizes: dict[str, int]) -> Value:
    """A tensor with all axes, repeated along those that it lacks."""
    order = sorted(range(len(names)), key=lambda i: axes.index(names[i]))
    turned = rewriter.emit(ops.Transpose, source=value, permutation=tuple(order)).result
    shape = tuple(sizes[name] if name in names else 1 for name in axes)
    placed = rewriter.emit(ops.Reshape, source=turned, shape=shape).result
    wanted = tuple(sizes[name] for name in axes)
    assert len(tensor_type(placed).shape) == len(wanted)
    return rewriter.emit(ops.Broadcast, source=placed, shape=wanted).result

"""Products of very small matrices are elementwise products that are summed: threads have a whole one each.

    %p = contract(%a: [b, 4, 4], %b: [b, 4, 4])            %s = broadcast(%a) [b, m, n, k], %t = broadcast(%b)
                                                     =>    %p = reduce(map([%s, %t]) {fn = mul}) {axes = [3]}

Blocks of products are of 16 rows and columns at least, and of one batch: of four by four there would be a program for
each, which multiplies zeros for the most part. What is computed before and after is of one kernel with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Value
from tiledsl.ir.rewrite import Rewriter
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.outline import computed_of
from tiledsl.passes.graph.analysis.shapes import axis_sizes, volume
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.manager import PassContext

SMALL = 8
"""Rows or columns, and elements of a sum, of a product that threads make alone: half of the smallest block."""
LARGE = 1 << 16
"""Elements of a result from which on more than a launch is gained."""


@dataclass(frozen=True)
class SmallProducts:
    """Of the entry, on GPUs."""

    name: ClassVar[str] = "small-products"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        products = [op for op in module.entry.body.ops if isinstance(op, ops.Contract)]
        small = [op for op in products if _is_small(op)] if self.arch.startswith("sm_") else []
        for op in small:
            context.remark(self.name, op.location, "matrices smaller than a block: multiplied by elements")
            _write(op)
        if small:
            tidy(module.entry)
        return module


def _is_small(op: ops.Contract) -> bool:
    """Whether rows or columns, and the sum, are few, and no windows are multiplied."""
    if op.precision == "planes" or op.exact_a is not None or op.exact_b is not None or volume(op.result) < LARGE:
        return False
    if any(isinstance(computed_of(value), ops.Window) for value in (op.a, op.b)):
        return False
    a, b, out = op.axis_names()
    sizes = axis_sizes(op)
    summed = math.prod(sizes[name] for name in a if name not in out)
    rows = math.prod(sizes[name] for name in a if name in out and name not in b)
    columns = math.prod(sizes[name] for name in b if name in out and name not in a)
    return 0 < summed <= SMALL and min(rows, columns) <= SMALL


def _write(op: ops.Contract) -> None:
    a, b, out = op.axis_names()
    sizes, rewriter = axis_sizes(op), Rewriter(op)
    wanted = [*out, *(name for name in a if name not in out)]
    shape = tuple(sizes[name] for name in wanted)
    spread = [_spread(value, names, wanted, shape, rewriter) for value, names in ((op.a, a), (op.b, b))]
    inputs = [rewriter.emit(ops.Cast, source=value, dtype=op.dtype).result for value in spread]
    product = rewriter.emit(ops.Map, fn="mul", inputs=inputs).result
    axes = tuple(range(len(out), len(wanted)))
    rewriter.replace(op, rewriter.emit(ops.Reduce, source=product, axes=axes, fn="add").result if axes else product)


def _spread(
    value: Value, names: Sequence[str], wanted: Sequence[str], shape: tuple[int, ...], rewriter: Rewriter
) -> Value:
    """An operand along all axes of a product, in their order."""
    order = [name for name in wanted if name in names]
    turned = rewriter.emit(ops.Transpose, source=value, permutation=tuple(names.index(name) for name in order)).result
    places = tuple(size if name in names else 1 for name, size in zip(wanted, shape))
    apart = rewriter.emit(ops.Reshape, source=turned, shape=places).result
    return rewriter.emit(ops.Broadcast, source=apart, shape=shape).result

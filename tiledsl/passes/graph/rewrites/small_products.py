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
from tiledsl.passes.graph.analysis.shapes import axis_sizes, sizes_of, volume
from tiledsl.passes.graph.analysis.views import view_of_value
from tiledsl.passes.graph.rewrites.canonicalise_graph import factors_of, tidy
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
            _write(_apart(op))
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


def _apart(op: ops.Contract) -> ops.Contract:
    """The product with rows along each axis that they were merged of, where they are computed, or strides cannot tell
    them as one: what is computed in another order is multiplied as it is.

    contract(reshape(%x: [b, n, h]) to [b n, h], %w: [h, g])   =>   reshape(contract(%x, %w) to [b, n, g])
    """
    a, b, out = op.axis_names()
    operands, names = [op.a, op.b], [list(a), list(b)]
    factors: dict[str, list[int]] = {}
    rewriter = Rewriter(op)
    for number, (mine, others) in enumerate(((a, b), (b, a))):
        value = operands[number]
        if not isinstance(value.op, ops.Reshape) or _is_in_memory(value):
            continue
        found = factors_of(sizes_of(value.op.source), sizes_of(value))
        if found is None:
            continue
        found = [sizes or [1] for sizes in found]
        shape = [size for sizes in found for size in sizes]
        if [size for size in shape if size != 1] != [size for size in sizes_of(value.op.source) if size != 1]:
            continue
        if any(len(sizes) > 1 and (name in others or name not in out) for name, sizes in zip(mine, found)):
            continue
        factors.update({name: sizes for name, sizes in zip(mine, found) if len(sizes) > 1})
        operands[number] = rewriter.emit(ops.Reshape, source=value.op.source, shape=tuple(shape)).result
        names[number] = [part for name, sizes in zip(mine, found) for part in _parts(name, len(sizes))]
    if not factors:
        return op
    made = [part for name in out for part in _parts(name, len(factors.get(name, [0])))]
    axes = f"{' '.join(names[0])}, {' '.join(names[1])} -> {' '.join(made)}"
    product = rewriter.emit(ops.Contract, a=operands[0], b=operands[1], axes=axes, dtype=op.dtype,
                            precision=op.precision)  # fmt: skip
    last, value = op.result, product.result
    (*_, user) = users if (users := list(op.result.users)) else [None]
    if isinstance(user, ops.Cast) and len(users) == 1:  # rounded before rows are merged again
        last, value = user.result, Rewriter(user).emit(ops.Cast, source=value, dtype=user.dtype).result
    assert last.op is not None
    behind = Rewriter(last.op)
    behind.replace(last.op, behind.emit(ops.Reshape, source=value, shape=sizes_of(last)).result)
    return product


def _is_in_memory(value: Value) -> bool:
    """Whether a value is a view of what is there before any group."""
    view = view_of_value(value)
    return view is not None and (view.buffer.op is None or isinstance(view.buffer.op, (ops.Call, ops.Loop)))


def _parts(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name}_{part}" for part in range(count)]


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

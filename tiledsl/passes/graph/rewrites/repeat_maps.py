"""Computes again, for folds of rows that are too long to be whole, what other ops read too.

    %e = map(exp, sub(%x, broadcast(%m)))              %e1 = map(exp, sub(%x, broadcast(%m)))
    %l = reduce(%e)                            =>      %l = reduce(%e1)
    %p = map(div, %e, broadcast(%l))                   %e2 = map(exp, sub(%x, broadcast(%m)))
                                                       %p = map(div, %e2, broadcast(%l))

So the folds stream through `x` in one kernel, and another one reads `x` again; nothing as long as it is stored between.
The same where what parts of a running fold come to is folded first (`split-scans`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Op, Value
from tiledsl.ir.scalar_functions import SCALAR_FUNCTIONS
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.limits import limits_of
from tiledsl.passes.graph.analysis.outline import is_repeated
from tiledsl.passes.graph.analysis.shapes import sizes_of, volume
from tiledsl.passes.graph.analysis.value_order import operands_first
from tiledsl.passes.graph.rewrites.canonicalise_graph import drop_unread
from tiledsl.passes.graph.rewrites.widen_floats import is_rounded_product
from tiledsl.passes.manager import PassContext

COST = 40
"""Simple operations for each element that are repeated at most: reading what was stored is cheaper than more."""


@dataclass(frozen=True)
class RepeatMaps:
    """Of the entry. `arch`: what is too long depends on it."""

    name: ClassVar[str] = "repeat-maps"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        limits = limits_of(self.arch)
        for op in list(module.entry.body.ops):
            if not isinstance(op, ops.Reduce) or op.fn in ("argmax", "argmin") or not volume(op.result):
                continue
            row = volume(op.source) // volume(op.result)
            chain = _chain(op.source)
            inside = {op, *chain}
            shared = any(user not in inside for made in chain for user in made.result.users)
            across = max(a for a, n in enumerate(sizes_of(op.source)) if n > 1 or a == 0) not in op.axes
            limit = limits.across if across else limits.row
            apart = row > limit or any(_is_scanned(value, op) for value in (op.source, *(o.result for o in chain)))
            if apart and shared and sum(map(cost_of, chain)) <= COST:
                op.set_field("source", _again(op, chain))
                context.remark(self.name, op.location, f"folds {row} elements, which it computes itself")
        drop_unread(module.entry.body)
        return module


def _is_scanned(value: Value, fold: ops.Reduce) -> bool:
    """Whether running folds go along an axis that is folded, too."""
    return any(isinstance(user, ops.Scan) and user.axis in fold.axes for user in value.users)


def _chain(value: Value) -> list[Op]:
    """The elementwise ops that compute a value, each after what it reads. A product that was rounded is stored so."""
    shape = sizes_of(value)

    def is_map(v: Value) -> bool:
        return isinstance(v.op, (ops.Map, ops.Cast)) and sizes_of(v) == shape and not is_rounded_product(v)

    found: dict[Value, Op] = {}
    for made in operands_first(value, is_map):
        op = made.op if is_map(made) else None
        if op is not None and (not is_repeated(op) or any(v in found for v in op.operands)):
            found[made] = op
    return list(found.values())


def cost_of(op: Op) -> int:
    return SCALAR_FUNCTIONS[op.fn].cost if isinstance(op, ops.Map) else 1


def _again(op: ops.Reduce, chain: list[Op]) -> Value:
    """A copy of what a fold reads, in front of it."""
    values: dict[Value, Value] = {}
    assert op.parent is not None
    for made in chain:
        op.parent.insert_before(op, made.clone(values))
    return values[op.source]

"""Windows that overlap slide over their tensor where they are folded: they are no view of it then.

    reduce(window(%x))  =>  reduce(window(pad(%x) by nothing))

In a view the places of a window are an axis like others, and nothing says that its neighbours are those of the next
window. Windows of what is padded slide within kernels: what they share is loaded once (`share-loads`). Products of
matrices keep the view, since their operands go through shared memory, and so does what is not folded. On a CPU windows
slide that meet weights of their channel alone, where channels are vectors then, and those that are folded as they are,
where neighbouring windows are: as a view these are vectors along the window, of few elements. What is folded stays in
registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Op, Value
from tiledsl.ir.rewrite import Rewriter
from tiledsl.ir.strided_views import numbers
from tiledsl.ir.tile_ops import tensor_type
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.analysis.views import view_of_value
from tiledsl.passes.manager import PassContext


@dataclass(frozen=True)
class SlideWindows:
    """Of the entry: all that are folded on GPUs, those that are weighed, or folded as they are, on a CPU."""

    name: ClassVar[str] = "slide-windows"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        windows = [op for op in module.entry.body.ops if isinstance(op, ops.Window)]
        if not self.arch.startswith("sm_"):
            windows = [
                op for op in windows if all(isinstance(user, (ops.Contract, ops.Reduce)) for user in op.result.users)
            ]
        for op in windows:
            if _overlap(op) and _may_slide(op) and _are_folded(op.result, _inner(op)):
                rewriter = Rewriter(op)
                none = (0,) * len(sizes_of(op.source))
                zero = False if tensor_type(op.source).dtype.name == "bool" else 0
                padded = rewriter.emit(ops.Pad, source=op.source, low=none, high=none, value=zero).result
                op.set_field("source", padded)
        return module


def _overlap(op: ops.Window) -> bool:
    """Whether elements are in several windows."""
    places = zip(numbers(op.sizes), op.strides, op.dilations)
    return any(size > 1 and stride <= (size - 1) * by for size, stride, by in places)


def _inner(op: ops.Window) -> frozenset[int]:
    """The axes within windows, which are the last ones."""
    rank = len(sizes_of(op.result))
    return frozenset(range(rank - len(op.axes), rank))


def _may_slide(op: ops.Window) -> bool:
    """Whether a group can take the windows: of memory that is not padded, along axes of several elements."""
    sizes = sizes_of(op.source)
    return (
        not isinstance(op.source.op, ops.Pad)
        and view_of_value(op.source) is not None
        and all(sizes[axis] > 1 for axis in op.axes)
    )


def _are_folded(value: Value, inner: frozenset[int]) -> bool:
    """Whether all that is computed of windows is folded along the axes within them, by no product of matrices."""
    return all(_folds(user, value, inner) for user in value.users)


def _folds(user: Op, value: Value, inner: frozenset[int]) -> bool:
    if isinstance(user, (ops.Map, ops.Cast)):
        return sizes_of(user.result) == sizes_of(value) and _are_folded(user.result, inner)
    if isinstance(user, ops.Reduce):
        return inner <= set(user.axes)
    if not isinstance(user, ops.Contract):
        return False
    a, b, result = user.axis_names()
    mine = a if value is user.a else b
    rows = any(size > 1 and name not in b for name, size in zip(a, sizes_of(user.a)))
    columns = any(size > 1 and name not in a for name, size in zip(b, sizes_of(user.b)))
    return not (rows and columns) and all(mine[axis] not in result for axis in inner)

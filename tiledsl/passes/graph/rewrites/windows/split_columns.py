"""Products of windows with few columns, which sum over the windows alone, become a fold of the windows for each column.

    %g = contract(%windows: [n, c = 1, p, q, 3, 3], %w: [2, 1, 3, 3])        an image filter
 =>
    %a = contract(%windows, %w[0]), %b = contract(%windows, %w[1])           no columns: weighted folds of windows
    %g = concat([%a, %b]) {axis = 1}

Nine numbers are summed for two columns: blocks of a product would multiply zeros for the most part, and be a kernel
apart from what is computed of it. Weighted folds of the same windows load these once, and elementwise ops follow in the
same kernel, part by part (`move-reindexing`). What reads one column alone reads a part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Value
from tiledsl.ir.rewrite import Rewriter
from tiledsl.ir.strided_views import numbers
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.outline import computed_of
from tiledsl.passes.graph.analysis.shapes import axis_sizes, sizes_of, volume
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.manager import PassContext

MOST_COLUMNS = 4
"""Each is a sum of its own in every thread."""
MOST_PLACES = 64
"""Of a window that is folded by threads."""
LARGE = 1 << 16
"""Elements of a result from which on more than a launch is gained."""


@dataclass(frozen=True)
class SplitColumns:
    """Of the entry, on GPUs."""

    name: ClassVar[str] = "split-columns"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        products = [op for op in module.entry.body.ops if isinstance(op, ops.Contract)]
        found = [(op, axis) for op in products if (axis := _columns(op)) is not None]
        for op, axis in found if self.arch.startswith("sm_") else []:
            context.remark(self.name, op.location, "few columns: a fold of windows for each")
            _write(op, axis)
            tidy(module.entry)
        return module


def _columns(op: ops.Contract) -> int | None:
    """The axis of the result that is a few columns of a product of windows, if all that is summed lies in these."""
    window = computed_of(op.a)
    if not isinstance(window, ops.Window) or window.result is not op.a or volume(op.result) < LARGE:
        return None
    if op.precision == "planes" or op.exact_a is not None or op.exact_b is not None:
        return None
    a, b, out = op.axis_names()
    sizes = axis_sizes(op)
    summed = [name for name in a if name not in out and sizes[name] > 1]
    columns = [name for name in b if name in out and name not in a]
    if len(columns) != 1 or not 1 < sizes[columns[0]] <= MOST_COLUMNS:
        return None
    within = a[len(a) - len(window.axes) :]
    alone = set(summed) <= set(within) and math.prod(sizes[name] for name in summed) <= MOST_PLACES
    return out.index(columns[0]) if alone and summed else None


def _write(op: ops.Contract, axis: int) -> None:
    a, b, out = op.axis_names()
    name, rewriter = out[axis], Rewriter(op)
    left = f"{' '.join(a)}, {' '.join(x for x in b if x != name)} -> {' '.join(x for x in out if x != name)}"
    sizes = sizes_of(op.result)
    one = tuple(1 if number == axis else size for number, size in enumerate(sizes))
    parts: list[Value] = []
    for number in range(sizes[axis]):
        weights = _one_of(rewriter, op.b, b.index(name), number)
        fold = rewriter.emit(ops.Contract, a=op.a, b=weights, axes=left, dtype=op.dtype, precision=op.precision).result
        parts.append(rewriter.emit(ops.Reshape, source=fold, shape=one).result)
    for user in list(op.result.users):
        if isinstance(user, ops.Slice) and user.result.users and sizes_of(user.result)[axis] == 1:
            starts, stops = numbers(user.starts), numbers(user.stops)
            part = parts[starts[axis]]
            own = [tuple(n if i != axis else m for i, n in enumerate(ends)) for ends, m in ((starts, 0), (stops, 1))]
            at = Rewriter(user)
            at.replace(user, at.emit(ops.Slice, source=part, starts=own[0], stops=own[1], steps=user.steps).result)
    rewriter.replace(op, rewriter.emit(ops.Concat, sources=parts, axis=axis).result)


def _one_of(rewriter: Rewriter, value: Value, axis: int, number: int) -> Value:
    """The elements at one coordinate of an axis, which they do not have."""
    sizes = sizes_of(value)
    starts = tuple(number if i == axis else 0 for i in range(len(sizes)))
    stops = tuple(number + 1 if i == axis else size for i, size in enumerate(sizes))
    part = rewriter.emit(ops.Slice, source=value, starts=starts, stops=stops, steps=(1,) * len(sizes)).result
    return rewriter.emit(ops.Reshape, source=part, shape=(*sizes[:axis], *sizes[axis + 1 :])).result

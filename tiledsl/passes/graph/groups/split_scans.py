"""Running folds in two steps, of axes that are more than a block of threads has at hand.

    %y = scan(%x: [4096, 8192]) {axis = 0, fn = add}
 =>
    %t = reduce(reshape(%x) [16, 256, 8192]) {axes = [1], fn = add}        what each part comes to
    %e = reduce(where(q < p, %t[q], 0)) over q                             what stands before a part
    %y = reshape(%e[p] + scan(reshape(%x) [16, 256, 8192]) {axis = 1})     each part, behind what stands before it

So programs wait for nobody, and results are the same in every run. What is scanned is read twice, and computed twice
up to there. Where an axis has very many parts, what stands before them is a scan of its own, split again.
An axis whose size has no suitable divisor is padded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Value
from tiledsl.ir.fold_identities import PAIRWISE, fold_identity
from tiledsl.ir.rewrite import Rewriter, Rules
from tiledsl.ir.tile_ops import tensor_type
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.shapes import bytes_of, sizes_of, volume
from tiledsl.passes.graph.groups.cut_axes import Cut
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.graph.rewrites.move_reindexing import map_of_a_reshape
from tiledsl.passes.manager import PassContext

RULES = Rules()
RULES.on(ops.Map, ops.Cast)(map_of_a_reshape)

LONGEST = 1 << 16
"""Bytes of a row, as it is scanned, that a block of threads has at hand."""
PART = 1 << 13
"""Elements of a part of a row: about as many."""
HELD = 1 << 16
"""Bytes of columns side by side that the threads of a block hold, as they are scanned."""
LINE = 64
"""Columns side by side that a program has."""
FEW = 1 << 7
"""Parts each of which folds those before it by itself."""
ALIGNED = 1 << 4
"""Where an axis is padded, parts have a multiple of so many elements."""
NEAR = 2.0
"""How far a divisor may be from what is wanted; else the axis is padded."""


@dataclass(frozen=True)
class SplitScans:
    """Of the entry; on GPUs."""

    name: ClassVar[str] = "split-scans"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "sm_90"

    def run(self, module: Module, context: PassContext) -> Module:
        if self.arch.startswith("sm_"):
            for op in list(module.entry.body.ops):
                if isinstance(op, ops.Scan):
                    self._split(op, context)
            RULES.apply(module.entry)
            tidy(module.entry)
        return module

    def _split(self, op: ops.Scan, context: PassContext) -> None:
        shape = sizes_of(op.source)
        length = shape[op.axis]
        each = _part_of(shape, op.axis, max(1, bytes_of(op.source) // max(1, volume(op.source))))
        if each is None:
            return
        parts = -(-length // each)
        what = f"{length} elements for each of {volume(op.source) // length} running folds"
        context.remark(self.name, op.location, f"{what}: in two steps, {each} at a time")
        again = _in_parts(op, parts, each)
        if again is not None:
            self._split(again, context)


def _part_of(shape: Sequence[int], axis: int, element: int) -> int | None:
    """How many elements a part has; None where an axis is not split."""
    length, inner = shape[axis], math.prod(shape[axis + 1 :])
    if math.prod(shape) == 0:
        return None
    if inner == 1:
        most = LONGEST // element
        if length <= most:
            return None
        wanted = min(max(PART, -(-length // FEW)), most)
    else:
        most = wanted = HELD // element // min(LINE, inner)
        if length <= 2 * wanted:
            return None
    divisors = [d for d in range(1, math.isqrt(length) + 1) if length % d == 0]
    near = [d for d in (*divisors, *(length // d for d in divisors)) if wanted / NEAR <= d <= most]
    if not near:  # parts of one size, the last of which ends in padding
        each = math.ceil(length / math.ceil(length / wanted))
        return min(most, math.ceil(each / ALIGNED) * ALIGNED)
    return min(near, key=lambda d: abs(math.log(d / wanted)))


def _in_parts(op: ops.Scan, parts: int, each: int) -> ops.Scan | None:
    """Replaces a scan by those of its parts. The scan of what parts come to is returned, if there is one."""
    rewriter, axis = Rewriter(op), op.axis
    emit = rewriter.emit
    shape, dtype = sizes_of(op.source), tensor_type(op.source).dtype
    neutral = fold_identity(op.fn, dtype)
    source = op.source
    whole = parts * each
    if whole != shape[axis]:
        high = tuple(whole - shape[axis] if a == axis else 0 for a in range(len(shape)))
        source = emit(ops.Pad, source=source, low=(0,) * len(shape), high=high, value=neutral).result
    source = Cut(rewriter, axis, parts).of(source)
    scanned = emit(ops.Scan, source=source, axis=axis + 1, fn=op.fn, reverse=op.reverse).result
    totals = emit(ops.Reduce, source=source, axes=(axis + 1,), fn=op.fn).result
    again = None
    if parts <= FEW:
        before = _folded_before(rewriter, op, totals)
    else:
        again = emit(ops.Scan, source=totals, axis=axis, fn=op.fn, reverse=op.reverse)
        before = _moved_on(rewriter, op, again.result)
    spread = emit(ops.Reshape, source=before, shape=_with(sizes_of(before), axis + 1, 1)).result
    spread = emit(ops.Broadcast, source=spread, shape=sizes_of(scanned)).result
    result = emit(ops.Map, fn=PAIRWISE[op.fn], inputs=[spread, scanned]).result
    result = emit(ops.Reshape, source=result, shape=(*shape[:axis], whole, *shape[axis + 1 :])).result
    if whole != shape[axis]:
        ones = (1,) * len(shape)
        result = emit(ops.Slice, source=result, starts=(0,) * len(shape), stops=shape, steps=ones).result
    rewriter.replace(op, result)
    return again


def _folded_before(rewriter: Rewriter, op: ops.Scan, totals: Value) -> Value:
    """For each part the fold of all parts before it."""
    emit, axis = rewriter.emit, op.axis
    shape, dtype = sizes_of(totals), tensor_type(totals).dtype
    parts = shape[axis]
    square = _with(shape, axis, parts)
    others = emit(ops.Reshape, source=totals, shape=_with(shape, axis, 1)).result
    others = emit(ops.Broadcast, source=others, shape=square).result
    ours, theirs = (emit(ops.Iota, shape=square, axis=a).result for a in (axis, axis + 1))
    behind = [theirs, ours] if not op.reverse else [ours, theirs]
    stands_before = emit(ops.Map, fn="lt", inputs=behind).result
    neutral = emit(ops.Constant, value=fold_identity(op.fn, dtype), dtype=dtype).result
    chosen = emit(ops.Map, fn="where", inputs=[stands_before, others, neutral]).result
    return emit(ops.Reduce, source=chosen, axes=(axis + 1,), fn=op.fn).result


def _moved_on(rewriter: Rewriter, op: ops.Scan, running: Value) -> Value:
    """For each part the running fold of the one before it."""
    emit, axis = rewriter.emit, op.axis
    shape, dtype = sizes_of(running), tensor_type(running).dtype
    rank, parts = len(shape), shape[axis]
    one = tuple(int(a == axis) for a in range(rank))
    none = (0,) * rank
    starts = one if op.reverse else none
    stops = shape if op.reverse else tuple(parts - 1 if a == axis else n for a, n in enumerate(shape))
    kept = emit(ops.Slice, source=running, starts=starts, stops=stops, steps=(1,) * rank).result
    low, high = (none, one) if op.reverse else (one, none)
    return emit(ops.Pad, source=kept, low=low, high=high, value=fold_identity(op.fn, dtype)).result


def _with(shape: Sequence[int], axis: int, size: int) -> tuple[int, ...]:
    """The shape with one axis more."""
    return (*shape[:axis], size, *shape[axis:])

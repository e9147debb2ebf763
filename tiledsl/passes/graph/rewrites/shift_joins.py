"""Joins of slices of one tensor that elementwise ops read are shifted blocks of it: a roll, what is padded in a circle.

    %a = slice(%x) {n-s:n}, %b = slice(%x) {0:n-s}          %f = iota < s
    %r = concat([%a, %b])                                   %r = where(%f, window(pad(%x, low = s-n, high = n-s)),
    %d = map([%r, %x]) {fn = sub}                     =>                   window(pad(%x, low = s, high = -s)))
                                                            %d = map([%r, %x]) {fn = sub}

The join would be written to memory and read there. As windows of one element all that is read of `x` is one parameter
of a group, of which a stencil with periodic boundaries reads each element from memory once; what lies outside of a
block is under a mask, and where no element of a block is asked for, nothing is loaded. Joins of joins (a roll along two
axes) are shifted along both. Where the same elementwise ops read a join of what is computed (a rotary embedding by
turned halves), all of it is computed part by part, see `move-reindexing`, and nothing is shifted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Op, Value
from tiledsl.ir.dtypes import bool_, i64
from tiledsl.ir.rewrite import Rewriter
from tiledsl.ir.strided_views import numbers
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.joins import starts_of
from tiledsl.passes.graph.analysis.outline import is_read_by_element, is_soft
from tiledsl.passes.graph.analysis.shapes import sizes_of, volume
from tiledsl.passes.graph.rewrites.canonicalise_graph import drop_unread
from tiledsl.passes.manager import PassContext

MOST_PARTS = 6
"""Of a join, with those of joins that it is made of: each is a load of its own."""

Places = tuple[int, ...]


@dataclass(frozen=True)
class Part:
    """A part of a join: of which tensor, at which coordinates of the join's axis, and where in the join the first
    element of the tensor would be."""

    source: Value
    place: range
    shift: Places


@dataclass(frozen=True)
class ShiftJoins:
    """Of the entry, on GPUs."""

    name: ClassVar[str] = "shift-joins"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        if not self.arch.startswith("sm_"):
            return module
        joins = [op for op in module.entry.body.ops if isinstance(op, ops.Concat) and _is_shifted(op)]
        for op in [op for op in joins if _joins_beside(op) <= set(joins)]:
            sizes = sizes_of(op.result)
            read = _read(Rewriter(op), op.result, (0,) * len(sizes), sizes, tuple(map(range, sizes)))
            op.result.replace_with(read)
            context.remark(self.name, op.location, "a join of slices of one tensor is shifted blocks of it")
        drop_unread(module.entry.body)
        return module


def _is_shifted(join: ops.Concat) -> bool:
    """Whether a join is shifted blocks of one tensor, and elementwise ops read it."""
    if not volume(join.result) or not 1 < _loads(join.result) <= MOST_PARTS:
        return False
    return all(map(is_read_by_element, join.result.users))


def _joins_beside(join: ops.Concat) -> set[ops.Concat]:
    """The joins that are read by the elementwise ops that read this one."""
    behind = _elementwise([join], lambda op: [user for result in op.results for user in result.users])
    before = _elementwise(behind, lambda op: [operand.op for operand in op.operands if operand.op is not None])
    return {source.op for op in before for source in op.operands if isinstance(source.op, ops.Concat)} - {join}


def _elementwise(start: Iterable[Op], following: Callable[[Op], list[Op]]) -> list[Op]:
    """The elementwise ops, and the plain reindexing between them, that ops lead to."""
    found: dict[Op, None] = {}
    left = list(start)
    while left:
        for op in following(left.pop()):
            if op not in found and (isinstance(op, (ops.Map, ops.Cast)) or is_soft(op)):
                found[op] = None
                left.append(op)
    return list(found)


def parts_of(value: Value) -> list[Part]:
    """The parts of a join of slices of one tensor; none of anything else."""
    join = value.op
    if not isinstance(join, ops.Concat):
        return []
    parts = [_part(source, join.axis, start) for source, start in zip(join.sources, starts_of(join.sources, join.axis))]
    return parts if len({part.source for part in parts}) == 1 else []


def _part(value: Value, axis: int, start: Places) -> Part:
    op, place = value.op, range(start[axis], start[axis] + sizes_of(value)[axis])
    if not isinstance(op, ops.Slice) or any(step != 1 for step in op.steps):
        return Part(value, place, start)
    return Part(op.source, place, tuple(at - first for at, first in zip(start, numbers(op.starts))))


def _loads(value: Value) -> int:
    """How many shifted blocks a value is read by."""
    parts = parts_of(value)
    return sum(_loads(part.source) for part in parts) if parts else 1


def _read(rewriter: Rewriter, value: Value, shift: Places, sizes: Places, wanted: tuple[range, ...]) -> Value:
    """Elements of a value, of which the first one is at `shift` of what is given; only what is wanted of each axis has
    to be right."""
    parts = parts_of(value)
    if not parts:
        return shifted(rewriter, value, shift, sizes)
    assert isinstance(value.op, ops.Concat)
    axis = value.op.axis
    result: Value | None = None
    seam = 0
    for part in reversed(parts):
        inside = range(part.place.start + shift[axis], part.place.stop + shift[axis])
        inside = range(max(inside.start, wanted[axis].start), min(inside.stop, wanted[axis].stop))
        if not inside:
            continue
        within = (*wanted[:axis], inside, *wanted[axis + 1 :])
        read = _read(rewriter, part.source, tuple(a + b for a, b in zip(shift, part.shift)), sizes, within)
        result = read if result is None else _chosen(rewriter, axis, seam, read, result)
        seam = inside.start
    assert result is not None
    return result


def _chosen(rewriter: Rewriter, axis: int, seam: int, before: Value, behind: Value) -> Value:
    """What lies before a coordinate of an axis of one value, and from there on of another."""
    place = rewriter.emit(ops.Iota, shape=sizes_of(before), axis=axis).result
    number = rewriter.emit(ops.Constant, value=seam, dtype=i64).result
    first = rewriter.emit(ops.Map, fn="lt", inputs=[place, number]).result
    return rewriter.emit(ops.Map, fn="where", inputs=[first, before, behind]).result


def shifted(rewriter: Rewriter, value: Value, shift: Places, sizes: Places) -> Value:
    """A value as windows of one element, which groups read of what is not padded: its first element is at `shift` of
    what has these sizes. It is padded, or cut, at its ends."""
    high = tuple(size - low - own for low, size, own in zip(shift, sizes, sizes_of(value)))
    axes = tuple(axis for axis, ends in enumerate(zip(shift, high)) if any(ends))
    if not axes:
        return value
    fill, ones = False if tensor_type(value).dtype == bool_ else 0, (1,) * len(axes)
    padded = rewriter.emit(ops.Pad, source=value, low=shift, high=high, value=fill).result
    window = rewriter.emit(ops.Window, source=padded, axes=axes, sizes=ones, strides=ones, dilations=ones).result
    return rewriter.emit(ops.Reshape, source=window, shape=sizes).result

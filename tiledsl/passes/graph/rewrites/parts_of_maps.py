"""Parts of what elementwise ops and lookups make, computed of parts of what they read.

slice(map(x, broadcast(y)))           map(slice(x), broadcast(slice(y)))
slice(gather(x, i))             =>    gather(slice(x), slice(i))
slice(iota)                           iota * step + start
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.rewrite import Rewriter
from tiledsl.ir.strided_views import VIEWS
from tiledsl.passes.graph.analysis.joins import starts_of
from tiledsl.passes.graph.analysis.outline import MapOp, is_arithmetic_of_coordinates, is_soft
from tiledsl.passes.graph.analysis.shapes import bytes_of, sizes_of, volume
from tiledsl.passes.graph.analysis.views import view_of_value

LEAST_TIMES = 64
"""As many elements has what is made, compared with what is computed again for each of its parts."""

MOST_VALUES = 96
"""Of what an elementwise op is computed from, that a slice goes through at most."""

Cut: TypeAlias = "tuple[tuple[int, int, int], ...]"
"""What a slice takes of each axis: from where, up to where, in steps of how many."""


def is_free(made: MapOp | ops.Gather, cut: Cut) -> bool:
    """Whether a part of an elementwise op, or of a lookup, costs nothing more: what it reads are views of memory, or
    computed for it alone."""
    pending: list[tuple[Value, Cut, Op]] = _read_by_part(made, cut)
    seen: set[tuple[Value, Cut]] = set()
    while pending:
        value, cut, reader = pending.pop()
        op = value.op
        if (value, cut) in seen or is_all(value, cut) or op is None or isinstance(op, ops.Call):
            continue
        seen.add((value, cut))
        if len(seen) > MOST_VALUES:
            return False
        if is_soft(op):
            pending.append((op.operands[0], _cut_before(op, cut), op))
        elif isinstance(op, ops.Concat):
            found = _source_of(op, cut)
            if found is None:
                return False
            pending.append((*found, op))
        elif isinstance(op, ops.Iota) or is_arithmetic_of_coordinates(op):
            pass  # it is written again wherever it is read
        elif isinstance(op, (ops.Map, ops.Cast)):
            if any(user is not reader for user in value.users) and not _is_had_again(value, made.results[0]):
                return False
            pending += _read_by_part(op, cut)
        elif isinstance(op, ops.Gather) and is_in_memory(_looked_up(op)):
            pending += _read_by_part(op, cut)
        elif not is_in_memory(value) or (not isinstance(op, ops.Slice) and view_of_value(value) is None):
            return False
    return True


def _read_by_part(op: MapOp | ops.Gather, cut: Cut) -> list[tuple[Value, Cut, Op]]:
    """What a part of an op reads: of which values which parts."""
    if not isinstance(op, ops.Gather):
        return [(value, cut, op) for value in op.operands]
    at, last = op.axis, op.axis + len(sizes_of(op.indices))
    whole = (0, sizes_of(op.source)[at], 1)
    return [(op.source, (*cut[:at], whole, *cut[last:]), op), (op.indices, cut[at:last], op)]


def _looked_up(op: ops.Gather) -> Value:
    """What a lookup is of, or lookups in what others give."""
    value = op.source
    while isinstance(value.op, ops.Gather):
        value = value.op.source
    return value


def _is_had_again(value: Value, made: Value) -> bool:
    """Whether a value may as well be computed once more for a part of what is made: few numbers, as the scale of each
    channel, or what is but widened of what is in memory, where it has fewer bytes."""
    if isinstance(value.op, ops.Cast) and is_in_memory(value.op.source):
        return bytes_of(value.op.source) <= bytes_of(value)
    return LEAST_TIMES * volume(value) <= volume(made)


def is_all(value: Value, cut: Cut) -> bool:
    """Whether a cut leaves a value whole; one number always is."""
    return all(one == (0, n, 1) for one, n in zip(cut, sizes_of(value)))


class Parts:
    """Parts of values as they are written, each once."""

    def __init__(self, rewriter: Rewriter) -> None:
        self.rewriter = rewriter
        self.known: dict[tuple[Value, Cut], Value] = {}

    def of_map(self, op: MapOp, cut: Cut) -> Value:
        operands = [self.part(value, cut) for value in op.operands]
        with self.rewriter.at(op.location):
            if isinstance(op, ops.Cast):
                return self.rewriter.emit(ops.Cast, source=operands[0], dtype=op.dtype).result
            return self.rewriter.emit(ops.Map, fn=op.fn, inputs=operands).result

    def of_lookup(self, op: ops.Gather, cut: Cut) -> Value:
        (source, mine, _), (indices, its, _) = _read_by_part(op, cut)
        source, indices = self.part(source, mine), self.part(indices, its)
        with self.rewriter.at(op.location):
            return self.rewriter.emit(ops.Gather, source=source, indices=indices, axis=op.axis).result

    def part(self, value: Value, cut: Cut) -> Value:
        if is_all(value, cut):
            return value
        if (value, cut) not in self.known:
            self.known[value, cut] = self._part(value, cut)
        return self.known[value, cut]

    def _part(self, value: Value, cut: Cut) -> Value:
        op, emit = value.op, self.rewriter.emit
        if is_soft(op):
            assert op is not None
            source = self.part(op.operands[0], _cut_before(op, cut))
            if isinstance(op, ops.Transpose):
                return emit(ops.Transpose, source=source, permutation=op.permutation).result
            kind = ops.Broadcast if isinstance(op, ops.Broadcast) else ops.Reshape
            return emit(kind, source=source, shape=tuple(len(range(*one)) for one in cut)).result
        if isinstance(op, ops.Concat):
            found = _source_of(op, cut)
            assert found is not None
            return self.part(*found)
        if isinstance(op, (ops.Map, ops.Cast)):
            return self.of_map(op, cut)
        if isinstance(op, ops.Gather):
            return self.of_lookup(op, cut)
        if isinstance(op, ops.Iota):
            return self.coordinates(op, cut)
        starts, stops, steps = zip(*cut)
        return emit(ops.Slice, source=value, starts=starts, stops=stops, steps=steps).result

    def coordinates(self, op: ops.Iota, cut: Cut) -> Value:
        """start, start + step, ..."""
        emit, (start, _, step) = self.rewriter.emit, cut[op.axis]
        place = emit(ops.Iota, shape=tuple(len(range(*one)) for one in cut), axis=op.axis).result
        for fn, number, neutral in (("mul", step, 1), ("add", start, 0)):
            if number != neutral:
                place = emit(ops.Map, fn=fn, inputs=[place, emit(ops.Constant, value=number, dtype=i64).result]).result
        return place


def drop(some: Iterable[Op | None], rewriter: Rewriter) -> None:
    """Takes out what nobody reads any more: else it would count as a reader of what it reads."""
    pending = list(some)
    while pending:
        op = pending.pop()
        if op is not None and op.parent is not None and not any(value.users for value in op.results):
            pending += [value.op for value in op.operands]
            rewriter.erase(op)


def is_in_memory(value: Value) -> bool:
    """Whether a value is a view of a tensor that is an input, a weight, or what a program gives."""
    while isinstance(value.op, VIEWS):
        value = value.op.source
    return value.op is None or isinstance(value.op, ops.Call)


def _cut_before(op: Op, cut: Cut) -> Cut:
    """The cut of the source of plain reindexing that gives the cut of its result."""
    sizes = sizes_of(op.operands[0])
    if isinstance(op, ops.Transpose):
        return tuple(cut[op.permutation.index(axis)] for axis in range(len(sizes)))
    if isinstance(op, ops.Broadcast):
        own = cut[len(cut) - len(sizes) :]
    else:
        rest = iter([one for one, n in zip(cut, sizes_of(op.results[0])) if n != 1])
        own = tuple(next(rest) if n != 1 else (0, 1, 1) for n in sizes)
    return tuple((0, 1, 1) if n == 1 else one for n, one in zip(sizes, own))


def _source_of(op: ops.Concat, cut: Cut) -> tuple[Value, Cut] | None:
    """The source of a join that a cut lies in, and the cut of it."""
    first, last, step = cut[op.axis]
    for start, source in zip(starts_of(op.sources, op.axis), op.sources):
        at = start[op.axis]
        if at <= first and last <= at + sizes_of(source)[op.axis]:
            own = (first - at, last - at, step)
            return source, tuple(own if axis == op.axis else one for axis, one in enumerate(cut))
    return None

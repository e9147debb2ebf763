"""Slices go in front of elementwise ops, joins behind them: a slice of what is in memory is a view, and parts of a join
are written where they belong.

    %e = map([%x]) {fn = exp}                         %a = slice(%x) {0:4}, %b = slice(%x) {4:8}
    %a = slice(%e) {0:4}, %b = slice(%e) {4:8}   =>   two exps, of %a and of %b

    %j = concat([%a, %b])                             %s, %t = slices of %y
    %z = map([%j, %y]) {fn = mul}                =>   %z = concat([map([%a, %s]), map([%b, %t])])

A join that is transposed is one of transposed parts, where that costs nothing: rows stay rows.

    %j = concat([%a, %b]) {axis = 2}, %t = transpose(%j) {permutation = [1, 0, 2]}   =>   concat of transposed %a, %b

A reshape of what elementwise ops make goes behind those that follow, which then are of one kernel with it. So does
one that strides cannot tell, which would be a copy: of what is made, it is none. In front of a fold, a product or what
is repeated, of elementwise ops that lead there, or that meet what cannot have the shape before, it goes the other way,
up to what is in memory, through lookups in tables as well: there it is a view.

    %r = reshape(%e), %n = cast(%r) {dtype = f16}     =>   %n = reshape(cast(%e))
    %r = reshape(transpose(%x)), %y = exp(%r)         =>   %y = reshape(exp(transpose(%x)))
    %r = reshape(cast(%x)), %s = reduce(%r)           =>   %s = reduce(cast(reshape(%x)))
    %r = reshape(gather(%table, %x)), %s = mul(%r, broadcast(%y))  =>  mul(gather(%table, reshape(%x)), broadcast(%y))

But for a few operations in front of slices that overlap, nothing is computed twice, and nothing goes to memory that did
not: slices go through maps that nobody reads but by
slices, up to tensors that are in memory already. What a product or a fold makes stays whole, with the maps behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, TypeGuard

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Function, Module, Op, Value
from tiledsl.ir.rewrite import Rewriter, Rules
from tiledsl.ir.strided_views import numbers
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.joins import starts_of
from tiledsl.passes.graph.analysis.outline import MapOp, is_arithmetic_of_coordinates, is_soft
from tiledsl.passes.graph.analysis.shapes import bytes_of, sizes_of, volume
from tiledsl.passes.graph.analysis.views import place_of
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy, unrepeated
from tiledsl.passes.graph.rewrites.repeat_maps import COST, cost_of
from tiledsl.passes.manager import PassContext

MOST_PARTS = 8
"""Of a join that maps go in front of: each part is a kernel of its own if its shape is."""

LEAST_TIMES = 64
"""As many elements has what is made, compared with what is computed again for each of its parts."""

MOST_VALUES = 96
"""Of what an elementwise op is computed from, that a slice goes through at most."""

ASKING = (ops.Reduce, ops.Scan, ops.Contract, ops.Broadcast)
"""Ops that have what they read under its own shape."""

RULES = Rules()


@dataclass(frozen=True)
class MoveReindexing:
    """Of the entry."""

    name: ClassVar[str] = "move-reindexing"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH

    def run(self, module: Module, context: PassContext) -> Module:
        moved = RULES.apply(module.entry)
        narrowed, turned = _join_what_is_narrow(module.entry), _join_in_turns(module.entry)
        if moved or narrowed or turned:
            tidy(module.entry)
        return module


def _join_what_is_narrow(function: Function) -> bool:
    """What is widened and then joined is joined and then widened: half of it goes to memory, where a join has to."""
    joins = [op for op in function.body.ops if isinstance(op, ops.Concat)]
    changed = False
    for op in joins:
        casts = [value.op for value in op.sources if isinstance(value.op, ops.Cast)]
        dtypes = {tensor_type(cast.source).dtype for cast in casts}
        if len(casts) < len(op.sources) or len(dtypes) > 1 or dtypes.pop().bits >= casts[0].dtype.bits:
            continue
        joined = ops.Concat(op.location, sources=[cast.source for cast in casts], axis=op.axis)
        wide = ops.Cast(op.location, source=joined.result, dtype=casts[0].dtype, result_names=[op.result.name])
        for new in (joined, wide):
            function.body.insert_before(op, new)
        op.result.replace_with(wide.result)
        op.erase()
        changed = True
    return changed


def _join_in_turns(function: Function) -> bool:
    """Tensors that are joined along a new last axis are joined in turns, so that each is read by whole rows."""
    changed = False
    for op in [op for op in function.body.ops if isinstance(op, ops.Concat)]:
        before, behind = sizes_of(op.sources[0])[: op.axis], sizes_of(op.sources[0])[op.axis :]
        single = all(sizes_of(source)[op.axis] == 1 for source in op.sources)
        if not single or volume(op.sources[0]) < 2 or any(n != 1 for n in behind) or len(op.sources) > MOST_PARTS:
            continue
        rewriter = Rewriter(op)
        rows = [rewriter.emit(ops.Reshape, source=source, shape=before).result for source in op.sources]
        turns = rewriter.emit(ops.Interleave, sources=rows, axis=len(before) - 1).result
        rewriter.replace(op, rewriter.emit(ops.Reshape, source=turns, shape=sizes_of(op.result)).result)
        changed = True
    return changed


Cut: TypeAlias = "tuple[tuple[int, int, int], ...]"
"""What a slice takes of each axis: from where, up to where, in steps of how many."""


@RULES.on(ops.Slice)
def slice_of_a_map(op: ops.Slice, rewriter: Rewriter) -> bool:
    # slice(map(x, y)) => map(slice(x), slice(y)), where nothing but slices reads the map
    made = op.source.op
    if not isinstance(made, (ops.Map, ops.Cast)) or is_arithmetic_of_coordinates(made):
        return False
    slices = [user for user in op.source.users if isinstance(user, ops.Slice)]
    if len(slices) < len(op.source.users):
        return False
    times = sum(volume(s.result) for s in slices) / max(1, volume(op.source))
    if times > 1 and not (_overlap(slices) and _is_cheap(made, times)):
        return False
    cut = tuple(zip(numbers(op.starts), numbers(op.stops), op.steps))
    if not _is_free(made, cut):
        return False
    rewriter.replace(op, _Parts(rewriter).of_map(made, cut))
    _drop([made], rewriter)
    return True


@RULES.on(ops.Map, ops.Cast)
def map_of_a_join(op: MapOp, rewriter: Rewriter) -> bool:
    # map(concat(a, b), y) => concat(map(a, slice(y)), map(b, slice(y)))
    joins = [value.op for value in op.operands if isinstance(value.op, ops.Concat)]
    if not joins or len(joins[0].sources) > MOST_PARTS or any(user is not op for user in joins[0].result.users):
        return False
    first = joins[0]
    cuts = [
        tuple((start, start + n, 1) for start, n in zip(starts, sizes_of(source)))
        for starts, source in zip(starts_of(first.sources, first.axis), first.sources)
    ]
    if any(_is_all(first.result, cut) for cut in cuts) or not all(_is_free(op, cut) for cut in cuts):
        return False  # a part that is all of the join is the join again
    parts = [_Parts(rewriter).of_map(op, cut) for cut in cuts]
    read = [value.op for value in op.operands]
    rewriter.replace(op, rewriter.emit(ops.Concat, sources=parts, axis=first.axis).result)
    _drop(read, rewriter)
    return True


@RULES.on(ops.Transpose)
def transpose_of_a_join(op: ops.Transpose, rewriter: Rewriter) -> bool:
    # transpose(concat(a, b)) => concat(transpose(a), transpose(b)), where nobody else reads the join and rows stay rows
    join, order = op.source.op, op.permutation
    if not isinstance(join, ops.Concat) or len(join.result.users) > 1 or order[-1] != len(order) - 1:
        return False
    with rewriter.at(join.location):
        parts = [rewriter.emit(ops.Transpose, source=part, permutation=order).result for part in join.sources]
        rewriter.replace(op, rewriter.emit(ops.Concat, sources=parts, axis=order.index(join.axis)).result)
    _drop([join], rewriter)
    return True


@RULES.on(ops.Pad)
def pad_as_windows(op: ops.Pad, rewriter: Rewriter) -> bool:
    # pad(x) => windows of one element, which groups read of what is not padded
    readers = [user for user in op.result.users if not isinstance(user, ops.Window)]
    axes = tuple(axis for axis, widths in enumerate(zip(op.low, op.high)) if any(widths))
    sizes = sizes_of(op.source)
    if not readers or not axes or any(sizes[axis] == 1 for axis in axes) or not _is_in_memory(op.source):
        return False
    if not any(isinstance(user, (ops.Map, ops.Cast)) for user in readers):
        return False
    ones = (1,) * len(axes)
    with rewriter.at(op.location):
        padded = rewriter.emit(ops.Pad, source=op.source, low=op.low, high=op.high, value=op.value).result
        windows = rewriter.emit(ops.Window, source=padded, axes=axes, sizes=ones, strides=ones, dilations=ones).result
        rewriter.replace(op, rewriter.emit(ops.Reshape, source=windows, shape=sizes_of(op.result)).result)
    return True


@RULES.on(ops.Map, ops.Cast)
def map_of_a_reshape(op: MapOp, rewriter: Rewriter) -> bool:
    # map(reshape(x), y) => reshape(map(x, reshape(y))), where y is one number or in memory, and x is computed, or the
    # reshape would be a copy
    found = next((v.op for v in op.operands if isinstance(v.op, ops.Reshape) and _goes_behind(v.op, op)), None)
    if found is None or is_arithmetic_of_coordinates(op):
        return False
    shape = sizes_of(found.source)
    if not all(is_free_under(value, shape, op) for value in op.operands):
        return False
    read = [value.op for value in op.operands]
    made = map_under(op, shape, rewriter)
    rewriter.replace(op, rewriter.emit(ops.Reshape, source=made, shape=sizes_of(op.result)).result)
    _drop(read, rewriter)
    return True


@RULES.on(ops.Reshape)
def reshape_in_front_of_a_fold(op: ops.Reshape, rewriter: Rewriter) -> bool:
    # reduce(reshape(map(x, y))) => reduce(map(reshape(x), reshape(y))), where x and y are in memory, or less of it
    made, shape = op.source.op, sizes_of(op.result)
    if not isinstance(made, (ops.Map, ops.Cast, ops.Gather)) or any(user is not op for user in op.source.users):
        return False
    if isinstance(made, ops.Gather) and not _is_lookup(made):
        return False
    free = is_free_under(op.source, shape, op)
    goes_up = any(isinstance(user, ASKING) for user in op.result.users)
    if free:
        goes_up = _is_asked_for(op.result) or _is_held_up(op)
    if not goes_up:
        return False
    if not free and not (isinstance(made, ops.Cast) and _is_less(made)):
        return False
    is_lookup = isinstance(made, ops.Gather)
    rewriter.replace(op, _lookup_under(made, shape, rewriter) if is_lookup else map_under(made, shape, rewriter))
    _drop([made], rewriter)
    return True


def _is_held_up(op: ops.Reshape) -> bool:
    """Whether a reshape meets what cannot be had under the shape before it: `x.reshape(m, g, 64) * s[:, :, None]`."""
    before, after = sizes_of(op.source), sizes_of(op.result)
    met = ((user, value) for user in op.result.users if isinstance(user, ops.Map) for value in user.inputs)
    beside = [(user, value) for user, value in met if value is not op.result and sizes_of(value) == after != ()]
    return any(not is_free_under(value, before, user) for user, value in beside)


def _is_less(made: ops.Cast) -> bool:
    """Whether fewer bytes of a fold or a product are widened: these it had better keep."""
    before = made.source.op
    kept = isinstance(before, (ops.Reduce, ops.Scan, ops.Contract))
    return kept and bytes_of(made.source) < bytes_of(made.result)


def _goes_behind(reshape: ops.Reshape, op: MapOp) -> bool:
    """Whether a reshape had better be of what `op` makes of it: nothing but maps reads it, and it is of what maps make,
    or of a view of memory, in a way that strides cannot tell, so that it would be a copy."""
    if any(not isinstance(user, (ops.Map, ops.Cast)) for user in reshape.result.users):
        return False
    if _is_asked_for(reshape.result) and is_free_under(reshape.source, sizes_of(reshape.result), reshape):
        return False  # it goes the other way
    if not _is_computed(reshape.source):
        return _is_copy(reshape)
    # else what goes to memory would be more, unless it goes there anyway
    fewer = bytes_of(op.result) <= bytes_of(reshape.source)
    return fewer or (_is_given(op.result) and volume(op.result) == volume(reshape.source))


def _is_computed(value: Value) -> bool:
    """Whether elementwise ops make a value, or a join of such for one reader alone."""
    if isinstance(value.op, ops.Concat) and len(value.users) == 1 and len(value.op.sources) <= MOST_PARTS:
        return all(map(_is_computed, value.op.sources))
    return isinstance(value.op, (ops.Map, ops.Cast)) or _is_lookup(value.op)


def _is_given(value: Value) -> bool:
    """Whether a value is a result of the graph, perhaps reshaped, and nobody else's."""
    return bool(value.users) and all(
        isinstance(user, ops.Return) or (isinstance(user, ops.Reshape) and _is_given(user.result))
        for user in value.users
    )


def _is_asked_for(value: Value) -> bool:
    """Whether an op that has what it reads under its own shape reads a value, or what elementwise ops make of it."""
    work, seen = [value], set[Value]()
    while work and len(seen) < MOST_VALUES:
        value = work.pop()
        if value not in seen:
            seen.add(value)
            if any(isinstance(user, ASKING) for user in value.users):
                return True
            work += [user.result for user in value.users if isinstance(user, (ops.Map, ops.Cast))]
    return False


def _is_copy(reshape: ops.Reshape) -> bool:
    return _is_in_memory(reshape.source) and not is_free_under(reshape.source, sizes_of(reshape.result), reshape)


def is_free_under(value: Value, shape: tuple[int, ...], reader: Op) -> bool:
    """Whether a value, of `reader` alone if it is computed, may be had under that shape without a copy."""
    op, sizes = value.op, sizes_of(value)
    if not sizes or sizes == shape or (isinstance(op, ops.Reshape) and sizes_of(op.source) == shape):
        return True
    if isinstance(op, ops.Broadcast) and unrepeated(sizes_of(op.source), sizes, shape) is not None:
        return True
    if isinstance(op, (ops.Map, ops.Cast)):
        if is_arithmetic_of_coordinates(op) or any(user is not reader for user in value.users):
            return False
        return all(is_free_under(operand, shape, op) for operand in op.operands)
    if _is_lookup(op):
        return all(user is reader for user in value.users) and is_free_under(op.indices, shape, op)
    return _is_in_memory(value) and place_of(value, shape) is not None


def _written_under(value: Value, shape: tuple[int, ...], rewriter: Rewriter) -> Value:
    op, sizes = value.op, sizes_of(value)
    if isinstance(op, ops.Reshape) and sizes_of(op.source) == shape:
        return op.source
    if not sizes or sizes == shape:
        return value
    if isinstance(op, (ops.Map, ops.Cast)):
        return map_under(op, shape, rewriter)
    if _is_lookup(op):
        return _lookup_under(op, shape, rewriter)
    small = unrepeated(sizes_of(op.source), sizes, shape) if isinstance(op, ops.Broadcast) else None
    if isinstance(op, ops.Broadcast) and small is not None:
        once = numbers(small)
        if is_free_under(op.source, once, op):
            source = _written_under(op.source, once, rewriter)
        else:
            source = rewriter.emit(ops.Reshape, source=op.source, shape=once).result
        return rewriter.emit(ops.Broadcast, source=source, shape=shape).result
    return rewriter.emit(ops.Reshape, source=value, shape=shape).result


def _is_lookup(op: Op | None) -> TypeGuard[ops.Gather]:
    """Whether an op gives each of its elements one of a table of one axis: its shape is that of the coordinates."""
    return isinstance(op, ops.Gather) and len(sizes_of(op.source)) == 1


def _lookup_under(op: ops.Gather, shape: tuple[int, ...], rewriter: Rewriter) -> Value:
    indices = _written_under(op.indices, shape, rewriter)
    with rewriter.at(op.location):
        return rewriter.emit(ops.Gather, source=op.source, indices=indices, axis=op.axis).result


def map_under(op: MapOp, shape: tuple[int, ...], rewriter: Rewriter) -> Value:
    """What an elementwise op makes of operands under that shape."""
    inputs = [_written_under(value, shape, rewriter) for value in op.operands]
    with rewriter.at(op.location):
        if isinstance(op, ops.Cast):
            return rewriter.emit(ops.Cast, source=inputs[0], dtype=op.dtype).result
        return rewriter.emit(ops.Map, fn=op.fn, inputs=inputs).result


def _is_free(made: MapOp, cut: Cut) -> bool:
    """Whether a part of an elementwise op costs nothing more: what it reads are views of memory, or computed for it
    alone."""
    pending: list[tuple[Value, Cut, Op]] = [(value, cut, made) for value in made.operands]
    seen: set[tuple[Value, Cut]] = set()
    while pending:
        value, cut, reader = pending.pop()
        op = value.op
        if (value, cut) in seen or _is_all(value, cut) or op is None or isinstance(op, ops.Call):
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
        elif isinstance(op, (ops.Map, ops.Cast)):
            if any(user is not reader for user in value.users) and not _is_had_again(value, made.results[0]):
                return False
            pending += [(operand, cut, op) for operand in op.operands]
        elif not (isinstance(op, ops.Slice) and _is_in_memory(op.source)):
            return False
    return True


def _overlap(slices: Sequence[ops.Slice]) -> bool:
    """Whether all take neighbours, so that what they have in common is near when it is read again."""
    return all(step == 1 for op in slices for step in op.steps)


def _is_cheap(made: MapOp, times: float) -> bool:
    """Whether elementwise ops are so few that each part of what they make may as well be computed from memory, where
    what they read is no more than what they make."""
    most, cost, seen = bytes_of(made.results[0]), 0.0, set[Value]()
    work = [made.results[0]]
    while work and cost * times <= COST:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value.op, (ops.Map, ops.Cast)):
            cost += cost_of(value.op)
            work += value.op.operands
        elif is_soft(value.op) and value.op is not None:
            work.append(value.op.operands[0])
        else:
            most -= bytes_of(value) if LEAST_TIMES * volume(value) > volume(made.results[0]) else 0
    return cost * times <= COST and most >= 0


def _is_had_again(value: Value, made: Value) -> bool:
    """Whether a value may as well be computed once more for a part of what is made: few numbers, as the scale of each
    channel, or what is but widened of what is in memory, where it has fewer bytes."""
    if isinstance(value.op, ops.Cast) and _is_in_memory(value.op.source):
        return bytes_of(value.op.source) <= bytes_of(value)
    return LEAST_TIMES * volume(value) <= volume(made)


def _is_all(value: Value, cut: Cut) -> bool:
    """Whether a cut leaves a value whole; one number always is."""
    return all(one == (0, n, 1) for one, n in zip(cut, sizes_of(value)))


class _Parts:
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

    def part(self, value: Value, cut: Cut) -> Value:
        if _is_all(value, cut):
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
        starts, stops, steps = zip(*cut)
        return emit(ops.Slice, source=value, starts=starts, stops=stops, steps=steps).result


def _drop(some: Iterable[Op | None], rewriter: Rewriter) -> None:
    """Takes out what nobody reads any more: else it would count as a reader of what it reads."""
    pending = list(some)
    while pending:
        op = pending.pop()
        if op is not None and op.parent is not None and not any(value.users for value in op.results):
            pending += [value.op for value in op.operands]
            rewriter.erase(op)


def _is_in_memory(value: Value) -> bool:
    """Whether a value is a view of a tensor that is an input, a weight, or what a program gives."""
    while isinstance(value.op, (ops.Slice, ops.Transpose, ops.Reshape, ops.Broadcast)):
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

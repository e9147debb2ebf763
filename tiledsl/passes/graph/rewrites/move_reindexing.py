"""Slices go in front of elementwise ops, joins behind them: a slice of what is in memory is a view, and parts of a join
are written where they belong.

    %e = map([%x]) {fn = exp}                         %a = slice(%x) {0:4}, %b = slice(%x) {4:8}
    %a = slice(%e) {0:4}, %b = slice(%e) {4:8}   =>   two exps, of %a and of %b

    %j = concat([%a, %b])                             %s, %t = slices of %y
    %z = map([%j, %y]) {fn = mul}                =>   %z = concat([map([%a, %s]), map([%b, %t])])

What is padded of what elementwise ops make is made of what is padded of what they read, by shifted loads
(`padded_maps.py`): the sum of windows that overlap (`fold`) is one kernel.

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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeGuard

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Function, Module, Op, Value
from tiledsl.ir.dtypes import f32
from tiledsl.ir.rewrite import Rewriter, Rules
from tiledsl.ir.strided_views import numbers
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.joins import starts_of
from tiledsl.passes.graph.analysis.outline import MapOp, is_arithmetic_of_coordinates, is_read_by_element, is_soft
from tiledsl.passes.graph.analysis.shapes import bytes_of, sizes_of, volume
from tiledsl.passes.graph.analysis.views import place_of
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy, unrepeated
from tiledsl.passes.graph.rewrites.padded_maps import can_be_padded, is_zero_outside, kept_inside, padded_map
from tiledsl.passes.graph.rewrites.parts_of_maps import (
    LEAST_TIMES,
    MOST_VALUES,
    Parts,
    drop,
    is_all,
    is_free,
    is_in_memory,
)
from tiledsl.passes.graph.rewrites.repeat_maps import COST, cost_of
from tiledsl.passes.manager import PassContext

MOST_PARTS = 8
"""Of a join that maps go in front of: each part is a kernel of its own if its shape is."""

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
    if not is_free(made, cut):
        return False
    rewriter.replace(op, Parts(rewriter).of_map(made, cut))
    drop([made], rewriter)
    return True


@RULES.on(ops.Slice)
def slice_of_a_lookup(op: ops.Slice, rewriter: Rewriter) -> bool:
    # slice(gather(x, i)) => gather(slice(x), slice(i)), where nothing but slices that do not overlap reads the lookup
    made = op.source.op
    if not isinstance(made, ops.Gather):
        return False
    if not all(isinstance(user, ops.Return) or is_read_by_element(user) for user in op.result.users):
        return False  # products know weights that are turned round and cut as they are
    slices = [user for user in op.source.users if isinstance(user, ops.Slice)]
    if len(slices) < len(op.source.users) or sum(volume(s.result) for s in slices) > volume(op.source):
        return False
    cut = tuple(zip(numbers(op.starts), numbers(op.stops), op.steps))
    if not is_free(made, cut):
        return False
    rewriter.replace(op, Parts(rewriter).of_lookup(made, cut))
    drop([made], rewriter)
    return True


@RULES.on(ops.Slice)
def slice_of_a_join(op: ops.Slice, rewriter: Rewriter) -> bool:
    # slice(concat(a, b)) => concat(slice(a), slice(b)), of what is in memory, where slices that do not overlap read it
    join = op.source.op
    if not isinstance(join, ops.Concat) or not all(map(is_in_memory, join.sources)) or not volume(op.result):
        return False
    readers = [user for user in op.source.users if isinstance(user, ops.Slice)]
    apart = sum(volume(user.result) for user in readers) <= volume(op.source)
    axis, starts, stops = join.axis, numbers(op.starts), numbers(op.stops)
    if len(readers) < len(op.source.users) or not apart or op.steps[axis] != 1:
        return False
    parts: list[Value] = []
    for place, source in zip(starts_of(join.sources, axis), join.sources):
        first, last = max(0, starts[axis] - place[axis]), min(sizes_of(source)[axis], stops[axis] - place[axis])
        if first < last:
            low, high = ((*ends[:axis], end, *ends[axis + 1 :]) for ends, end in ((starts, first), (stops, last)))
            parts.append(rewriter.emit(ops.Slice, source=source, starts=low, stops=high, steps=op.steps).result)
    rewriter.replace(op, parts[0] if len(parts) == 1 else rewriter.emit(ops.Concat, sources=parts, axis=axis).result)
    drop([join], rewriter)
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
    if any(is_all(first.result, cut) for cut in cuts) or not all(is_free(op, cut) for cut in cuts):
        return False  # a part that is all of the join is the join again
    parts = [Parts(rewriter).of_map(op, cut) for cut in cuts]
    read = [value.op for value in op.operands]
    rewriter.replace(op, rewriter.emit(ops.Concat, sources=parts, axis=first.axis).result)
    drop(read, rewriter)
    return True


@RULES.on(ops.Reduce)
def fold_of_single_parts(op: ops.Reduce, rewriter: Rewriter) -> bool:
    # reduce(concat(a, b)) over the axis of the join => map(a, b), where each part has one element along it
    join = op.source.op
    if not isinstance(join, ops.Concat) or op.axes != (join.axis,) or op.fn not in ("add", "maximum", "minimum"):
        return False
    narrow = op.fn == "add" and tensor_type(op.source).dtype != f32
    single = all(sizes_of(source)[join.axis] == 1 for source in join.sources)
    if not single or narrow or len(join.sources) > MOST_PARTS or len(join.result.users) > 1:
        return False
    result, *others = join.sources
    for other in others:
        result = rewriter.emit(ops.Map, fn=op.fn, inputs=[result, other]).result
    rewriter.replace(op, rewriter.emit(ops.Reshape, source=result, shape=sizes_of(op.result)).result)
    drop([join], rewriter)
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
    drop([join], rewriter)
    return True


@RULES.on(ops.Transpose)
def transpose_of_what_is_taken_apart(op: ops.Transpose, rewriter: Rewriter) -> bool:
    # slice(transpose(map(x, y))) => slice(map(transpose(x), transpose(y))), where x and y are in memory, or repeated
    made = op.source.op
    if not isinstance(made, (ops.Map, ops.Cast)) or any(user is not op for user in op.source.users):
        return False
    readers = [user.result if isinstance(user, ops.Reshape) else op.result for user in op.result.users]
    parts = [user for value in readers for user in value.users if not isinstance(user, ops.Reshape)]
    apart = bool(parts) and all(isinstance(user, (ops.Slice, ops.Pad)) for user in parts)
    if not apart or not all(map(_is_turned_freely, made.operands)):
        return False
    inputs = [_turned(value, op.permutation, rewriter) for value in made.operands]
    with rewriter.at(made.location):
        if isinstance(made, ops.Cast):
            turned = rewriter.emit(ops.Cast, source=inputs[0], dtype=made.dtype).result
        else:
            turned = rewriter.emit(ops.Map, fn=made.fn, inputs=inputs).result
    rewriter.replace(op, turned)
    drop([made], rewriter)
    return True


def _is_turned_freely(value: Value) -> bool:
    """Whether a transpose of a value is a view of memory, or it is repeated of such."""
    source = value.op.source if isinstance(value.op, ops.Broadcast) else value
    return not sizes_of(value) or is_in_memory(source) or isinstance(source.op, ops.Constant)


def _turned(value: Value, permutation: tuple[int, ...], rewriter: Rewriter) -> Value:
    sizes = sizes_of(value)
    if not sizes:
        return value
    if not isinstance(value.op, ops.Broadcast):
        return rewriter.emit(ops.Transpose, source=value, permutation=permutation).result
    own = sizes_of(value.op.source)
    once = (1,) * (len(sizes) - len(own)) + own
    whole = rewriter.emit(ops.Reshape, source=value.op.source, shape=once).result
    turned = rewriter.emit(ops.Transpose, source=whole, permutation=permutation).result
    return rewriter.emit(ops.Broadcast, source=turned, shape=tuple(sizes[axis] for axis in permutation)).result


@RULES.on(ops.Reshape)
def reshape_of_a_reshape(op: ops.Reshape, rewriter: Rewriter) -> bool:
    # reshape(reshape(x)) => reshape(x): what went behind maps meets others there
    inner = op.source.op
    if not isinstance(inner, ops.Reshape):
        return False
    rewriter.replace(op, rewriter.emit(ops.Reshape, source=inner.source, shape=sizes_of(op.result)).result)
    drop([inner], rewriter)
    return True


@RULES.on(ops.Pad)
def pad_as_windows(op: ops.Pad, rewriter: Rewriter) -> bool:
    # pad(x) => windows of one element, which groups read of what is not padded
    readers = [user for user in op.result.users if not isinstance(user, ops.Window)]
    axes = tuple(axis for axis, widths in enumerate(zip(op.low, op.high)) if any(widths))
    sizes = sizes_of(op.source)
    if not readers or not axes or any(sizes[axis] == 1 for axis in axes) or not is_in_memory(op.source):
        return False
    if not any(isinstance(user, (ops.Map, ops.Cast)) for user in readers):
        return False
    ones = (1,) * len(axes)
    with rewriter.at(op.location):
        padded = rewriter.emit(ops.Pad, source=op.source, low=op.low, high=op.high, value=op.value).result
        windows = rewriter.emit(ops.Window, source=padded, axes=axes, sizes=ones, strides=ones, dilations=ones).result
        rewriter.replace(op, rewriter.emit(ops.Reshape, source=windows, shape=sizes_of(op.result)).result)
    return True


@RULES.on(ops.Pad)
def pad_of_a_map(op: ops.Pad, rewriter: Rewriter) -> bool:
    # pad(map(x, y)) => where(inside, map(pad(x), pad(y)), value), where x and y are in memory, or few numbers
    made = op.source.op
    widths = (*numbers(op.low), *numbers(op.high))
    if not isinstance(made, (ops.Map, ops.Cast)) or is_arithmetic_of_coordinates(made) or min(widths, default=0) < 0:
        return False
    sizes = sizes_of(op.source)
    axes = [axis for axis, ends in enumerate(zip(op.low, op.high)) if any(ends)]
    if not axes or len(op.source.users) > 1 or any(sizes[axis] == 1 for axis in axes):
        return False
    if not all(map(is_read_by_element, op.result.users)) or not can_be_padded(made):
        return False
    with rewriter.at(op.location):
        padded = padded_map(made, op, rewriter)
        for axis in () if is_zero_outside(made, op) else axes:
            padded = kept_inside(padded, op, axis, rewriter)
    rewriter.replace(op, padded)
    drop([made], rewriter)
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
    drop(read, rewriter)
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
        goes_up = _is_asked_for(op.result) or _is_held_up(op) or _is_taken_apart(op)
    if not goes_up:
        return False
    if not free and not (isinstance(made, ops.Cast) and _is_less(made)):
        return False
    is_lookup = isinstance(made, ops.Gather)
    rewriter.replace(op, _lookup_under(made, shape, rewriter) if is_lookup else map_under(made, shape, rewriter))
    drop([made], rewriter)
    return True


def _is_held_up(op: ops.Reshape) -> bool:
    """Whether a reshape meets what cannot be had under the shape before it: `x.reshape(m, g, 64) * s[:, :, None]`."""
    before, after = sizes_of(op.source), sizes_of(op.result)
    met = ((user, value) for user in op.result.users if isinstance(user, ops.Map) for value in user.inputs)
    beside = [(user, value) for user, value in met if value is not op.result and sizes_of(value) == after != ()]
    return any(not is_free_under(value, before, user) for user, value in beside)


def _is_taken_apart(op: ops.Reshape) -> bool:
    """Whether nothing but slices, or what pads, reads a reshape of more than axes of one element: parts of what is
    computed can be had under its shape."""
    users = list(op.result.users)
    return bool(users) and all(isinstance(user, (ops.Slice, ops.Pad)) for user in users)


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
    fewer = bytes_of(op.result) <= bytes_of(reshape.source) or _is_narrowed(op, reshape)
    return fewer or (_is_given(op.result) and volume(op.result) == volume(reshape.source))


def _is_narrowed(op: MapOp, reshape: ops.Reshape) -> bool:
    """Whether elementwise ops that follow make no more bytes of what an op widens, where all of them can be had under
    the shape before: all that goes to memory is what the last ones make."""
    shape, made = sizes_of(reshape.source), 0
    work, seen = [op.result], {reshape.result}
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        following = [user for user in value.users if isinstance(user, (ops.Map, ops.Cast))]
        made += bytes_of(value) if len(following) < len(value.users) else 0
        if len(seen) > MOST_VALUES or made > bytes_of(reshape.source):
            return False
        work += [user.result for user in following]
    chain = [value.op for value in seen if isinstance(value.op, (ops.Map, ops.Cast))]
    beside = ((one, value) for one in chain for value in one.operands if value not in seen)
    return all(is_free_under(value, shape, one) for one, value in beside)


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
    return is_in_memory(reshape.source) and not is_free_under(reshape.source, sizes_of(reshape.result), reshape)


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
    return is_in_memory(value) and place_of(value, shape) is not None


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

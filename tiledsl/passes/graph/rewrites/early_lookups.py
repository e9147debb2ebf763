"""Lookups along an axis go in front of what they are of: only what is looked up is computed, of what is in memory.

    %m = map([%x, broadcast(%w)]) {fn = mul}         %g = gather(%x, %i)
    %g = gather(%m, %i) {axis = 3}             =>    %m = map([%g, broadcast(%w)]) {fn = mul}

    %j = concat([slice(%x) {5:n}, slice(%x) {0:5}])
    %g = gather(%j, %i)                        =>    %g = gather(%x, (%i + 5) % n)

    gather(gather(%x, %a), %b), along one axis =>    gather(%x, %a at the coordinates %b)
    gather(transpose(%x), %i)                  =>    transpose(gather(%x, %i))
    transpose(reshape(gather(%x, %i)))         =>    transpose(gather(reshape(%x), %i divided))

Lookups along several axes of one tensor are one load then: a bilinear resize reads four elements for each that it
makes, and writes nothing in between; what is rolled, turned and flipped is one copy. Elementwise ops are computed again
where lookups overlap, as long as that is cheap. Coordinates have to be known to be inside (`index_span`): what lies
outside is 0, whatever would be computed of zeros.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Op, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.rewrite import Rewriter, Rules
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.index_spans import index_span
from tiledsl.passes.graph.analysis.outline import MapOp, is_arithmetic_of_coordinates, is_soft
from tiledsl.passes.graph.analysis.shapes import sizes_of, volume
from tiledsl.passes.graph.rewrites.canonicalise_graph import factors_of, tidy
from tiledsl.passes.graph.rewrites.parts_of_maps import drop, is_in_memory
from tiledsl.passes.graph.rewrites.repeat_maps import COST, cost_of
from tiledsl.passes.graph.rewrites.shift_joins import parts_of
from tiledsl.passes.manager import PassContext

RULES = Rules()

MOST_LOADS = 4
"""For each element that is made of lookups in what was computed before: threads load element by element then."""
FEW = 4
"""As many times fewer elements has what is no load for each: the weights of a row."""


@dataclass(frozen=True)
class EarlyLookups:
    """Of the entry, on GPUs: on a CPU, what a vector computes once is worth more than a pass through its caches."""

    name: ClassVar[str] = "early-lookups"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        if self.arch.startswith("sm_") and RULES.apply(module.entry):
            tidy(module.entry)
        return module


def _is_inside(op: ops.Gather) -> bool:
    span = index_span(op.indices)
    return span is not None and 0 <= span[0] <= span[1] < sizes_of(op.source)[op.axis]


def _lookups(value: Value, beside: bool = False) -> list[ops.Gather]:
    """The lookups in a value, if nothing else reads it. `beside`: or nothing but elementwise ops."""
    found = [user for user in value.users if isinstance(user, ops.Gather) and user.source is value]
    others = [user for user in value.users if user not in found]
    alone = all(value is not op.indices for op in found)
    return found if alone and (not others or (beside and all(map(_is_map, others)))) else []


def _is_map(op: Op) -> bool:
    return isinstance(op, (ops.Map, ops.Cast))


@RULES.on(ops.Gather)
def lookup_of_a_map(op: ops.Gather, rewriter: Rewriter) -> bool:
    # gather(map(x, y), i) => map(gather(x, i), gather(y, i))
    made = op.source.op
    if not isinstance(made, (ops.Map, ops.Cast)) or is_arithmetic_of_coordinates(made):
        return False
    lookups = _lookups(op.source, beside=True)
    if not lookups or not all(map(_is_inside, lookups)) or not _is_cheap(made, lookups):
        return False
    for one in lookups:  # all at once: what one alone left would be read by others than lookups
        rewriter.move_to(one)
        _compute_behind(made, one, rewriter)
    drop([made], rewriter)
    return True


def _compute_behind(made: MapOp, op: ops.Gather, rewriter: Rewriter) -> None:
    """Puts an elementwise op of lookups in the place of a lookup in what it makes."""
    inputs = [_looked_up(value, op, rewriter) for value in made.operands]
    with rewriter.at(made.location):
        if isinstance(made, ops.Cast):
            result = rewriter.emit(ops.Cast, source=inputs[0], dtype=made.dtype).result
        else:
            result = rewriter.emit(ops.Map, fn=made.fn, inputs=inputs).result
    rewriter.replace(op, result)


def _is_cheap(made: MapOp, lookups: Sequence[ops.Gather]) -> bool:
    """Whether no more is computed and loaded for what is looked up than for the whole, or little enough, where all is
    read of memory."""
    loads = cost = 0
    work, seen = [*made.operands], set[Value]()
    cost += cost_of(made)
    while work:
        value = work.pop()
        if value in seen or not sizes_of(value) or FEW * volume(value) <= volume(made.result):
            continue
        seen.add(value)
        op = value.op
        if isinstance(op, (ops.Map, ops.Cast)) and not is_arithmetic_of_coordinates(op):
            if len(value.users) > 1:
                return False  # it is computed whole, and may as well be so with what reads it
            cost += cost_of(op)
            work += op.operands
        elif op is None or isinstance(op, (ops.Call, ops.Gather)):
            loads += 1
        elif is_soft(op):
            work += op.operands
        elif is_in_memory(value):
            loads += 1
        elif not is_arithmetic_of_coordinates(op) and not isinstance(op, ops.Iota):
            return False
    sizes = [volume(one.result) for one in lookups]
    whole = max(1, volume(made.result))
    if len(lookups) < len(made.result.users):
        sizes.append(whole)  # elementwise ops read it as it is
    if sum(sizes) <= whole:
        return True
    return sum(sizes) * loads <= MOST_LOADS * max(sizes) and sum(sizes) * cost <= COST * whole


def _looked_up(value: Value, op: ops.Gather, rewriter: Rewriter) -> Value:
    """What `op` looks up of a value of the shape of its source."""
    if not sizes_of(value):
        return value
    spread, shape = value.op, sizes_of(op.result)
    if isinstance(spread, ops.Broadcast) and len(sizes_of(op.indices)) == 1:
        axis = op.axis - len(shape) + len(sizes_of(spread.source))
        source = spread.source
        if axis >= 0 and sizes_of(source)[axis] != 1:
            source = rewriter.emit(ops.Gather, source=source, indices=op.indices, axis=axis).result
        return rewriter.emit(ops.Broadcast, source=source, shape=shape).result
    return rewriter.emit(ops.Gather, source=value, indices=op.indices, axis=op.axis).result


@RULES.on(ops.Gather)
def lookup_of_a_transpose(op: ops.Gather, rewriter: Rewriter) -> bool:
    # gather(transpose(x), i) => transpose(gather(x, i)), where x is what other lookups give, or a join of one tensor
    turned = op.source.op
    if not isinstance(turned, ops.Transpose) or not _lookups(op.source):
        return False
    if not isinstance(turned.source.op, (ops.Gather, ops.Map, ops.Cast)) and len(parts_of(turned.source)) < 2:
        return False
    axis, rank = turned.permutation[op.axis], len(sizes_of(op.indices))
    found = rewriter.emit(ops.Gather, source=turned.source, indices=op.indices, axis=axis).result
    order: list[int] = []
    for place in turned.permutation:
        order += range(axis, axis + rank) if place == axis else [place if place < axis else place + rank - 1]
    rewriter.replace(op, rewriter.emit(ops.Transpose, source=found, permutation=tuple(order)).result)
    drop([turned], rewriter)
    return True


@RULES.on(ops.Gather)
def lookup_of_a_join(op: ops.Gather, rewriter: Rewriter) -> bool:
    # gather(concat(x[a:], x[:a]), i) => gather(gather(x, (iota + a) % n), i): a roll, or what is padded in a circle
    join = op.source.op
    parts = parts_of(op.source)
    if not isinstance(join, ops.Concat) or len(parts) < 2 or not _lookups(op.source):
        return False
    source, wanted, axis = parts[0].source, sizes_of(join.result), join.axis
    sizes, ends = sizes_of(source), {part.shift[axis] % sizes_of(source)[axis] for part in parts}
    if any(sizes[n] != wanted[n] or any(part.shift[n] for part in parts) for n in range(len(sizes)) if n != axis):
        return False
    if len(ends) != 1 or not wanted[axis]:
        return False
    with rewriter.at(join.location):
        place = rewriter.emit(ops.Iota, shape=wanted[axis : axis + 1], axis=0).result
        first, length = (
            rewriter.emit(ops.Constant, value=n, dtype=i64).result for n in (-ends.pop() % sizes[axis], sizes[axis])
        )
        place = rewriter.emit(ops.Map, fn="add", inputs=[place, first]).result
        place = rewriter.emit(ops.Map, fn="mod", inputs=[place, length]).result
        rolled = rewriter.emit(ops.Gather, source=source, indices=place, axis=axis).result
    rewriter.replace(op, rewriter.emit(ops.Gather, source=rolled, indices=op.indices, axis=op.axis).result)
    drop([join], rewriter)
    return True


@RULES.on(ops.Gather)
def lookup_of_a_lookup(op: ops.Gather, rewriter: Rewriter) -> bool:
    # gather(gather(x, a), b), along one axis => gather(x, a at b), where a is made of coordinates
    inner = op.source.op
    if not isinstance(inner, ops.Gather) or not _lookups(op.source) or not _is_inside(op):
        return False
    if len(sizes_of(inner.indices)) != 1 or op.axis != inner.axis or not _is_of_coordinates(inner.indices):
        return False
    indices = _at(inner.indices, op.indices, rewriter)
    rewriter.replace(op, rewriter.emit(ops.Gather, source=inner.source, indices=indices, axis=op.axis).result)
    drop([inner], rewriter)
    return True


@RULES.on(ops.Reshape)
def divided_lookup(op: ops.Reshape, rewriter: Rewriter) -> bool:
    # reshape(gather(x, i)) => gather(reshape(x), reshape(i)), where axes are divided and turned: it is stored so then
    lookup = op.source.op
    if not isinstance(lookup, ops.Gather) or len(lookup.result.users) != 1 or len(sizes_of(lookup.indices)) != 1:
        return False
    if not op.result.users or not all(map(_is_turned, op.result.users)):
        return False
    shape = sizes_of(op.result)
    factors = factors_of(shape, sizes_of(op.source))
    if factors is None or tuple(size for sizes in factors for size in sizes) != shape:
        return False
    axis, divided = lookup.axis, factors[lookup.axis]
    others = [sizes if at != axis else [sizes_of(lookup.source)[axis]] for at, sizes in enumerate(factors)]
    if len(divided) > 1 and not _is_of_coordinates(lookup.indices):
        indices = rewriter.emit(ops.Reshape, source=lookup.indices, shape=tuple(divided)).result
    else:
        indices = _at(lookup.indices, _row_major(divided, rewriter), rewriter) if len(divided) > 1 else lookup.indices
    rows = tuple(size for sizes in others for size in sizes)
    source = rewriter.emit(ops.Reshape, source=lookup.source, shape=rows).result
    place = sum(map(len, factors[:axis]))
    rewriter.replace(op, rewriter.emit(ops.Gather, source=source, indices=indices, axis=place).result)
    drop([lookup], rewriter)
    return True


def _is_turned(user: Op) -> bool:
    """Whether an op transposes axes, or divides or looks up more of them for that."""
    if isinstance(user, (ops.Reshape, ops.Gather)):
        return bool(user.result.users) and all(map(_is_turned, user.result.users))
    return isinstance(user, ops.Transpose)


def _row_major(sizes: Sequence[int], rewriter: Rewriter) -> Value:
    """The number of each place of a tensor, row by row."""
    total: Value | None = None
    for axis in range(len(sizes)):
        places = rewriter.emit(ops.Iota, shape=tuple(sizes), axis=axis).result
        step = math.prod(sizes[axis + 1 :])
        if step > 1:
            number = rewriter.emit(ops.Constant, value=step, dtype=i64).result
            places = rewriter.emit(ops.Map, fn="mul", inputs=[places, number]).result
        total = places if total is None else rewriter.emit(ops.Map, fn="add", inputs=[total, places]).result
    assert total is not None
    return total


def _is_of_coordinates(value: Value) -> bool:
    """Whether elements of a tensor of one axis are made of their places alone, element by element."""
    op = value.op
    if isinstance(op, ops.Broadcast):
        return not sizes_of(op.source) and _is_of_coordinates(op.source)
    if isinstance(op, (ops.Map, ops.Cast)):
        return is_arithmetic_of_coordinates(op) and all(map(_is_of_coordinates, op.operands))
    return isinstance(op, (ops.Iota, ops.Constant, ops.Size))


def _at(value: Value, places: Value, rewriter: Rewriter) -> Value:
    """The elements that are made of such places as they are made of their own."""
    op = value.op
    if not sizes_of(value):
        return value
    match op:
        case ops.Iota():
            return rewriter.emit(ops.Cast, source=places, dtype=i64).result
        case ops.Broadcast():
            return rewriter.emit(ops.Broadcast, source=op.source, shape=sizes_of(places)).result
        case ops.Cast():
            return rewriter.emit(ops.Cast, source=_at(op.source, places, rewriter), dtype=op.dtype).result
        case _:
            assert isinstance(op, ops.Map), "made of coordinates"
            inputs = [_at(each, places, rewriter) for each in op.inputs]
            return rewriter.emit(ops.Map, fn=op.fn, inputs=inputs).result

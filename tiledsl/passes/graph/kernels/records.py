"""Elements of short rows that a group reads or gives one by one: its program has the rows as records.

    %a = graph.slice(%x) [.., 0:1], %b = graph.slice(%x) [.., 1:2]           %x of f32[4096, 2]
    %p, %q = graph.call(%a, %b) {callee = g}
    %j = graph.concat([%p, %q]) {axis = 1}                                   func @g(%a: [4096], %b: [4096])
 =>
    %j = graph.call(%x) {callee = g_0}                                       func @g_0(%r: tensor<f32, [M, 2], unit=1>)

The program loads %r[%m, 0] and %r[%m, 1], and stores to %out[%m, 0] and %out[%m, 1]: accesses of fields, which are made
together on a GPU (`passes/gpu/transforms/join_fields.py`). A join that becomes such a result costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.strided_views import numbers, reshaped, sliced
from tiledsl.passes.analysis.fields import MOST_FIELDS
from tiledsl.passes.graph.analysis.joins import Join, join_of, record_call, unreshaped
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.analysis.views import view_of_value
from tiledsl.passes.graph.kernels.kernel_plan import KernelPlan


class Field(NamedTuple):
    """Which record, by its number among those of a program, and which element of it."""

    record: int
    number: int


@dataclass(frozen=True)
class Records:
    """Of a program: `inputs` and `outputs` that are fields, by their numbers; how many elements each record has, with
    the records that are read first."""

    inputs: Mapping[int, Field] = field(default_factory=dict[int, Field])
    outputs: Mapping[int, Field] = field(default_factory=dict[int, Field])
    lengths: tuple[int, ...] = ()

    @property
    def key(self) -> object:
        """What programs that are otherwise alike differ in."""
        return tuple(self.inputs.items()), tuple(self.outputs.items()), self.lengths


NO_RECORDS = Records()


class _Cut(NamedTuple):
    """A slice of one element along the last axis: of what, and which."""

    source: Value
    outer: tuple[tuple[int, int, int], ...]
    number: int
    length: int


def records_of(plan: KernelPlan, inputs: Sequence[Value], results: Sequence[Value]) -> Records:
    """The records of a group that is given these inputs and gives these results."""
    function, last = plan.outlined.function, plan.outlined.function.body.terminator
    assert last is not None
    if plan.flat is not None or any(isinstance(op, (ops.Contract, ops.Window)) for op in function.body.ops):
        return NO_RECORDS
    found: dict[object, list[tuple[int, _Cut]]] = {}
    for number, (value, parameter) in enumerate(zip(inputs, function.parameters)):
        cut = _cut_of(value)
        if cut is None or any(isinstance(user, ops.Gather) and user.source is parameter for user in parameter.users):
            continue
        if _goes_by_blocks(plan, parameter) and _lie_behind_each_other(plan, parameter, cut):
            key = (cut.source, cut.outer, cut.length, plan.axes.kept[parameter])
            found.setdefault(key, []).append((number, cut))
    lengths: list[int] = []
    read: dict[int, Field] = {}
    for fields in found.values():
        if len({cut.number for _, cut in fields}) > 1:
            read.update((number, Field(len(lengths), cut.number)) for number, cut in fields)
            lengths.append(fields[0][1].length)
    made: dict[int, Field] = {}
    for join in dict.fromkeys(map(join_of, results)):
        parts = [] if join is None else [unreshaped(source) for source in join.sources]
        if join is None or record_call(join) is None:
            continue
        places = [results.index(part) for part in parts]
        if all(_goes_by_blocks(plan, last.operands[place]) for place in places):
            made.update((place, Field(len(lengths), number)) for number, place in enumerate(places))
            lengths.append(len(parts))
    return Records(dict(sorted(read.items())), dict(sorted(made.items())), tuple(lengths))


def record_join(result: Value) -> Join:
    """The join that a result is a field of."""
    join = join_of(result)
    assert join is not None
    return join


def whole_records(value: Value, shape: Sequence[int], before: Op) -> Value:
    """The tensor of records that one of their fields is taken out of, in front of an op; `shape`: that of the field."""
    cut = _cut_of(value)
    assert cut is not None
    assert before.parent is not None
    whole = cut.source
    sizes = sizes_of(whole)
    if any(one != (0, size, 1) for one, size in zip(cut.outer, sizes)):
        starts, stops, steps = zip(*cut.outer, (0, cut.length, 1))
        part = ops.Slice(before.location, source=whole, starts=starts, stops=stops, steps=steps)
        before.parent.insert_before(before, part)
        whole = part.result
    if sizes_of(whole) != (*shape, cut.length):
        rows = ops.Reshape(before.location, source=whole, shape=(*shape, cut.length), result_names=[cut.source.name])
        before.parent.insert_before(before, rows)
        whole = rows.result
    return whole


def _cut_of(value: Value) -> _Cut | None:
    """The slice that a value is, perhaps reshaped since."""
    while isinstance(value.op, ops.Reshape):
        value = value.op.source
    op = value.op
    if not isinstance(op, ops.Slice):
        return None
    sizes, starts, stops = sizes_of(op.source), numbers(op.starts), numbers(op.stops)
    if stops[-1] - starts[-1] != 1 or not 1 < sizes[-1] <= MOST_FIELDS:
        return None
    return _Cut(op.source, tuple(zip(starts[:-1], stops[:-1], op.steps[:-1])), starts[-1], sizes[-1])


def _lie_behind_each_other(plan: KernelPlan, parameter: Value, cut: _Cut) -> bool:
    """Whether the records of a parameter lie one behind the other."""
    view = view_of_value(cut.source)
    if view is None:
        return False
    starts, stops, steps = zip(*cut.outer, (0, cut.length, 1))
    shape = (*(axis.size for axis in plan.axes.kept[parameter]), cut.length)
    place = reshaped(sliced(view.place, starts, stops, steps), shape)
    return place is not None and place.is_contiguous


def _goes_by_blocks(plan: KernelPlan, value: Value) -> bool:
    """Whether the last axis of a value goes by blocks of the grid, and all others are axes of the grid."""
    kept, treatments = plan.axes.kept[value], plan.treatments
    if not kept or any(axis not in treatments.grid for axis in kept) or kept[-1] in treatments.single:
        return False
    fixed = {*plan.axes.slid, *plan.axes.positions}
    return kept[-1] not in fixed

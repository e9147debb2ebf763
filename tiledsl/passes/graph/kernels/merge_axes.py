"""Makes one axis of axes that every tensor of a group has behind each other.

    x[b, s, k] @ w[k, n] + bias[n] -> y[b, s, n]         b and s are one axis: y[bs, n] = x[bs, k] @ w[k, n] + bias[n]

So blocks are cut from all rows of a batch, not from those of each sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.passes.graph.analysis.axes import Axis, GroupAxes
from tiledsl.passes.graph.analysis.joins import part_of
from tiledsl.passes.graph.analysis.views import can_reshape, view_of_value
from tiledsl.passes.graph.kernels.kernel_plan import KernelPlan
from tiledsl.passes.graph.kernels.treatments import Treatments


def merged_axes(plan: KernelPlan) -> KernelPlan:
    """The plan with as few axes as there can be."""
    while True:
        pair = _find(plan)
        if pair is None:
            return plan
        plan = _merge(plan, *pair)


def _find(plan: KernelPlan) -> tuple[Axis, Axis] | None:
    """Two axes that can be one."""
    axes = plan.axes
    fixed: set[Axis | None] = {*axes.indexed.values(), *axes.slid, *axes.positions, *axes.inner, *axes.planes}
    for op in plan.outlined.function.body.ops:
        if isinstance(op, ops.Iota):
            fixed |= set(axes.kept[op.result])
    held = _held(plan)
    pairs = [pair for value in held for pair in pairwise(axes.kept[value])]
    for first, second in dict.fromkeys(pairs):
        if (
            first in fixed
            or second in fixed
            or _treatment(plan.treatments, first) != _treatment(plan.treatments, second)
        ):
            continue
        if _always_together(axes, held, first, second) and _lie_behind_each_other(plan, first, second):
            return first, second
    return None


def _treatment(treatments: Treatments, axis: Axis) -> str:
    """What two axes have to share: whether one coordinate at a time or not is decided anew for what they become."""
    if axis in treatments.whole:
        return "whole"
    return "streamed" if axis in treatments.streamed else "grid"


def _held(plan: KernelPlan) -> list[Value]:
    """The values of a group that lie in memory: in what order a program has the axes of others is up to it."""
    last = plan.outlined.function.body.terminator
    assert last is not None
    return list(dict.fromkeys((*plan.outlined.function.parameters, *last.operands)))


def _always_together(axes: GroupAxes, held: Sequence[Value], first: Axis, second: Axis) -> bool:
    """Whether no value has one of two axes alone, and those in memory have the second one behind the first."""
    if any((first in kept) != (second in kept) for kept in (*axes.kept.values(), *axes.reduced.values())):
        return False
    orders = [kept for value in held if first in (kept := axes.kept[value])]
    return all(kept.index(second) == kept.index(first) + 1 for kept in orders)


def _lie_behind_each_other(plan: KernelPlan, first: Axis, second: Axis) -> bool:
    """Whether strides can tell the joined axis, in each tensor from outside, and in each part of a join."""
    outlined = plan.outlined
    views = [view_of_value(value) for value in outlined.inputs]
    places = [None if view is None else view.place for view in views]
    last = outlined.function.body.terminator
    assert last is not None
    parts = [(value, part_of(output)) for value, output in zip(last.operands, outlined.outputs)]
    held = [*zip(outlined.function.parameters, places), *((value, part.place) for value, part in parts if part)]
    for value, place in held:
        kept = plan.axes.kept[value]
        if first not in kept:
            continue
        sizes = [axis.size for axis in kept]
        at = kept.index(first)
        wanted = (*sizes[:at], first.size * second.size, *sizes[at + 2 :])
        if place is None or not can_reshape(place, wanted):
            return False
    return True


def _merge(plan: KernelPlan, first: Axis, second: Axis) -> KernelPlan:
    joined = Axis(first.size * second.size, first.name + second.name)

    def of(kept: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(joined if axis is first else axis for axis in kept if axis is not second)

    def of_set(some: frozenset[Axis]) -> frozenset[Axis]:
        rest = some - {first, second}
        return rest | {joined} if first in some and second in some else rest

    kept: Mapping[Value, tuple[Axis, ...]] = {v: of(a) for v, a in plan.axes.kept.items()}
    reduced: Mapping[Op, tuple[Axis, ...]] = {op: of(a) for op, a in plan.axes.reduced.items()}
    treatments = plan.treatments
    both = replace(
        treatments,
        grid=of(treatments.grid),
        single=of_set(treatments.single),
        whole=of_set(treatments.whole),
        streamed=of_set(treatments.streamed),
    )
    return replace(plan, axes=replace(plan.axes, kept=kept, reduced=reduced), treatments=both)

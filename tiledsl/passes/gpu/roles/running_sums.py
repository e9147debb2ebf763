"""Sums over an axis that a loop carries and rescales: each thread adds up what it has, and threads meet after the loop.

    for j in tile.range(K): total = total * w + tile.sum(p[i, j], axis=1)

    carried: %total * %w + reduce(%p)     =>     carried: %part * %w + slices of %p, and after the loop reduce(%part)

A thread's part is as wide as one slice of `p`: two numbers per row of an accumulator. It begins with nothing, so the
loop must begin with a sum of 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.layouts.layout import Digit, RegisterLayout
from tiledsl.passes.analysis.splats import number_of
from tiledsl.passes.gpu.lower.lower_folds import fold_scratch
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.tile.carried_values import carried_arguments, yielded


@dataclass(frozen=True)
class RunningSum:
    """A carried value that is `scaled` (itself, or itself times `weight`) plus a `fold`."""

    fold: ops.Reduce
    weight: Value | None
    part: RegisterLayout
    starts: tuple[tuple[int, ...], ...]
    """Where the slices of the fold's source begin, each of which has the layout `part`."""
    replaced: tuple[Op, ...]
    """The ops of the loop that it stands for."""


def running_sums(state: Lowering, loop: ops.Range) -> dict[int, RunningSum]:
    """Those sums of a loop that threads can keep to themselves, by their numbers among the carried values."""
    found: dict[int, RunningSum] = {}
    arguments = carried_arguments(loop, loop.body)
    for number, (argument, value, initial) in enumerate(zip(arguments, yielded(loop.body), loop.initial)):
        one = _sum(state, argument, value) if number_of(initial) == 0 else None
        if one is not None:
            found[number] = one
    return found


def _sum(state: Lowering, argument: Value, value: Value) -> RunningSum | None:
    total = value.op
    if not isinstance(total, ops.Map) or total.fn != "add" or not _once(argument) or not _once(value):
        return None
    for fold_value, kept in (total.inputs, total.inputs[::-1]):
        fold, scaled = fold_value.op, kept.op
        if not isinstance(fold, ops.Reduce) or fold.fn != "add" or fold.parent is not total.parent:
            continue
        if len(fold.sources) != 1 or len(fold.axes) != 1 or not _once(fold_value):
            continue
        weight: Value | None = None
        replaced: tuple[Op, ...] = (fold, total)
        if kept is not argument:
            if not isinstance(scaled, ops.Map) or scaled.fn != "mul" or argument not in scaled.inputs:
                continue
            (weight,) = [v for v in scaled.inputs if v is not argument] or [None]
            if weight is None or not _once(kept) or not weight.shape:
                continue
            replaced = (*replaced, scaled)
        slices = _slices(state.layout(fold.sources[0]), fold.axes[0])
        if slices is not None and fold.sources[0].dtype.bits >= 32:  # narrow ones are rounded after each fold
            return RunningSum(fold, weight, *slices, replaced)
    return None


def _once(value: Value) -> bool:
    return sum(value.users.values()) == 1


def _slices(layout: RegisterLayout, axis: int) -> tuple[RegisterLayout, tuple[tuple[int, ...], ...]] | None:
    """Equal slices along an axis, each thread's outermost slots there: their layout, and where they begin."""
    along = [digit for digit in layout.slot_digits if digit.axis == axis]
    outer = max(along, key=lambda digit: digit.stride, default=None)
    if outer is None or outer.stride * outer.size != layout.shape[axis]:
        return None
    shape = tuple(outer.stride if number == axis else size for number, size in enumerate(layout.shape))
    slots: list[Digit] = [digit for digit in layout.slot_digits if digit is not outer]
    starts = [
        tuple(outer.stride * number if other == axis else 0 for other in range(layout.rank))
        for number in range(outer.size)
    ]
    return RegisterLayout(shape, layout.thread_digits, slots), tuple(starts)


def begin(state: Lowering, running: RunningSum) -> Value:
    """What is carried at first: nothing."""
    return state.filled(state.constant(0.0, running.fold.sources[0].dtype), running.part)


def follow(state: Lowering, running: RunningSum, carried: Value) -> Value:
    """What is carried on from a turn in which the fold's source and the weight are there."""
    fold = running.fold
    with state.builder.at(fold.location):
        source = state.tile(fold.sources[0], state.layout(fold.sources[0]))
        source = state.padded(source, fold.sources[0].shape, 0.0, fold.axes)
        total = scaled(state, running, carried)
        pieces = [
            state.emit(gpu.Slice, source=source, starts=start, layout=running.part).result for start in running.starts
        ]
        return _map(state, "add", total, reduce(lambda left, right: _map(state, "add", left, right), pieces))


def scaled(state: Lowering, running: RunningSum, carried: Value) -> Value:
    """What was carried so far, in terms of this turn."""
    if running.weight is None:
        return carried
    axes, part = running.fold.axes, running.part
    weight = state.tile(running.weight, part.reduced(axes, running.fold.keepdims))
    if not running.fold.keepdims:
        weight = state.reshaped(weight, part.reduced(axes, True))
    return _map(state, "mul", carried, state.filled(weight, part))


def _map(state: Lowering, fn: str, left: Value, right: Value) -> Value:
    return state.emit(ops.Map, types=[left.tile], fn=fn, inputs=(left, right)).result


def end(state: Lowering, running: RunningSum, carried: Value, names: Sequence[str]) -> Value:
    """After the loop: all parts together."""
    fold = running.fold
    with state.builder.at(fold.location):
        scratch = fold_scratch(state, running.part, fold.axes, [carried.dtype])
        return state.emit(
            gpu.Reduce, name=names, sources=[carried], buffer=scratch, axes=fold.axes, fn=fold.fn,
            keepdims=fold.keepdims,
        ).result  # fmt: skip

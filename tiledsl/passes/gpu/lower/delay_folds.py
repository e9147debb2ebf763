"""Folds of folds: a loop that adds up sums of tiles adds up the tiles, and sums once at its end.

    for m in tile.range(M): total = total + tile.sum(x[m, n], axis=0)

    carried: %total + reduce(%x)     =>     carried: %part + %x, and after the loop %total + reduce(%part)

Threads meet once instead of in every turn. It costs each thread a register for every element of the tile that it holds,
and is done where these are few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.fold_identities import fold_identity
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.passes.gpu.lower.lower_folds import fold_scratch
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.tile.carried_values import carried_arguments, yielded

MOST_SLOTS = 64
"""Elements of a tile per thread up to which it is carried."""
COMBINES = {"add": "add", "maximum": "max", "minimum": "min"}
"""Elementwise functions that go with folds."""


@dataclass(frozen=True)
class DelayedFold:
    """A carried value that is a fold of folds: `combine` is what joins them, `fold` the one in the loop."""

    number: int
    fold: ops.Reduce
    combine: ops.Map
    layout: RegisterLayout

    @property
    def source(self) -> Value:
        return self.fold.sources[0]


def delayed_folds(state: Lowering, op: ops.Range | ops.For) -> dict[int, DelayedFold]:
    """What a loop carries and can fold at its end, by its number among the carried values."""
    found: dict[int, DelayedFold] = {}
    for number, (argument, value) in enumerate(zip(carried_arguments(op, op.body), yielded(op.body))):
        combine = value.op
        if not isinstance(combine, ops.Map) or combine.fn not in COMBINES or argument not in combine.inputs:
            continue
        (fold,) = [v.op for v in combine.inputs if v is not argument] or [None]
        fits = (
            isinstance(fold, ops.Reduce)
            and fold.fn == COMBINES[combine.fn]
            and fold.parent is op.body
            and combine.parent is op.body
            and fold.sources[0].dtype.bits >= 32  # narrow ones are rounded after each fold
        )
        once = all(sum(v.users.values()) == 1 for v in (argument, value)) and fits
        if once and isinstance(fold, ops.Reduce) and sum(fold.results[0].users.values()) == 1:
            layout = state.layout(fold.sources[0])
            if layout.slots <= MOST_SLOTS:
                found[number] = DelayedFold(number, fold, combine, layout)
    return found


def begin(state: Lowering, delayed: DelayedFold) -> Value:
    """What is carried at first: nothing folded yet."""
    dtype = delayed.source.dtype
    return state.filled(state.constant(fold_identity(delayed.fold.fn, dtype), dtype), delayed.layout)


def follow(state: Lowering, delayed: DelayedFold, carried: Value) -> Value:
    """What is carried on: with the tile of this turn, its padding left out."""
    source = state.tile(delayed.source, delayed.layout)
    fill = fold_identity(delayed.fold.fn, source.dtype)
    source = state.padded(source, delayed.source.shape, fill, delayed.fold.axes)
    return state.emit(ops.Map, types=[carried.tile], fn=delayed.combine.fn, inputs=(carried, source)).result


def end(state: Lowering, delayed: DelayedFold, carried: Value, initial: Value, names: Sequence[str]) -> Value:
    """After the loop: all folded, and joined with what the loop began with (`initial`, a value of the program)."""
    fold = delayed.fold
    scratch = fold_scratch(state, delayed.layout, fold.axes, [carried.dtype])
    folded = state.emit(
        gpu.Reduce, sources=[carried], buffer=scratch, axes=fold.axes, fn=fold.fn, keepdims=fold.keepdims
    ).result
    before = state.tile(initial, folded.layout) if folded.shape else state.scalar(initial)
    return state.emit(ops.Map, types=[folded.tile], name=names, fn=delayed.combine.fn, inputs=(before, folded)).result

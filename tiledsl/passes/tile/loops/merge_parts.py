"""Merges parts of folds: the extrema first, then the sums, each multiplied by the rescale from its part to the whole.

%top = reduce max [%top_parts]                                        axis 0 has the parts
%rescale = exp2(%top_parts - broadcast %top)                          the loop's own ops, of all parts at once
%total = reduce add [%total_parts * %rescale]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Number, Value
from tiledsl.ir.fold_identities import PAIRWISE, fold_identity
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.types import Shape
from tiledsl.passes.analysis.sizes import is_scalar
from tiledsl.passes.analysis.splats import number_of
from tiledsl.passes.tile.loops.carried_folds import IDEMPOTENT, CarriedFold
from tiledsl.passes.tile.loops.carried_values import yielded


class Lifted:
    """Emits what ops of a loop's body give for all parts at once: along a new first axis. `values`: those that are
    there. What depends on none of them is a scalar, or one throughout."""

    def __init__(self, builder: Builder, parts: Dim, values: Mapping[Value, Value]) -> None:
        self.builder, self.parts = builder, parts
        self._done: dict[Value, Value] = dict(values)

    def of(self, value: Value) -> Value:
        """A tile of shape [parts, ...]; a scalar that is the same for all parts stays one."""
        if value not in self._done:
            self._done[value] = self._emitted(value)
        return self._done[value]

    def factor(self, value: Value, wanted: Shape) -> Value:
        """What multiplies tiles of a shape, for all parts: a scalar of each part is repeated."""
        return self._beside(self.of(value), value.shape, wanted)

    def _emitted(self, value: Value) -> Value:
        builder, op = self.builder, value.op
        match op:
            case ops.Constant():
                return builder.constant(op.value, op.dtype)
            case ops.Map():
                return builder.map(op.fn, *(self._beside(self.of(v), v.shape, value.shape) for v in op.inputs))
            case ops.Cast():
                return builder.cast(self.of(op.source), op.dtype)
            case ops.Broadcast():
                source = self.of(op.source)
                return source if is_scalar(source) else self._spread(source, op.source.shape, op.shape)
            case ops.Reshape():
                source = self.of(op.source)
                if is_scalar(source):
                    return source
                return builder.emit(ops.Reshape, source=source, shape=(self.parts, *op.shape)).result
            case ops.Transpose():
                source = self.of(op.source)
                order = (0, *(axis + 1 for axis in op.permutation))
                return (
                    source if is_scalar(source)
                    else builder.emit(ops.Transpose, source=source, permutation=order).result
                )  # fmt: skip
            case _:
                return value

    def _beside(self, lifted: Value, shape: Shape, wanted: Shape) -> Value:
        """An input of a map: a scalar of each part goes with all elements of a tile."""
        return lifted if is_scalar(lifted) or shape == wanted else self._spread(lifted, shape, wanted)

    def _spread(self, lifted: Value, shape: Shape, wanted: Shape) -> Value:
        aligned = (self.parts, *(1,) * (len(wanted) - len(shape)), *shape)
        if lifted.shape != aligned:
            lifted = self.builder.emit(ops.Reshape, source=lifted, shape=aligned).result
        return self.builder.broadcast(lifted, (self.parts, *wanted))


class MergedParts:
    """What the parts of a loop's folds come to. `load`: all parts of a fold, along the first axis; `starts`: what each
    part started from, where that is a number and the loop itself starts from infinity."""

    def __init__(
        self,
        builder: Builder,
        loop: ops.Range,
        folds: Sequence[CarriedFold],
        load: Callable[[int], Value],
        starts: Mapping[int, Number],
    ) -> None:
        self.builder, self.loop, self.folds, self.starts = builder, loop, folds, starts
        loaded = {n: load(n) for n in range(len(folds))}
        self.parts = {
            n: builder.cast(one, loop.results[n].dtype) if folds[n].followed else one for n, one in loaded.items()
        }
        self.wholes: dict[int, Value] = {}
        for n in sorted(loaded, key=lambda n: bool(folds[n].rescales)):  # extrema before what is relative to them
            self.wholes[n] = self._sum(n) if folds[n].fn == "add" else self._fold(n)
            self.wholes[n].name = loop.results[n].name

    def _fold(self, n: int) -> Value:
        fn, first, builder = self.folds[n].fn, self.loop.initial[n], self.builder
        whole = builder.cast(self._folded(self.parts[n], fn, ()), first.dtype)
        if fn not in IDEMPOTENT and number_of(first) != fold_identity(fn, first.dtype):
            return builder.map(PAIRWISE[fn], first, whole)
        if n not in self.starts:
            return whole
        start = builder.constant(self.starts[n], first.dtype)
        unmoved = builder.map("le" if fn == "max" else "ge", whole, start)
        return builder.map("where", unmoved, first, whole)

    def _sum(self, n: int) -> Value:
        first, builder = self.loop.initial[n], self.builder
        whole = self._folded(self.parts[n], "add", self._factors(n, self.parts))
        if number_of(first) != 0:
            whole = builder.map("add", self._begun(n, builder.cast(first, whole.dtype)), whole)
        return builder.cast(whole, first.dtype)

    def _begun(self, n: int, first: Value) -> Value:
        """What a sum starts from, relative to the extrema of all."""
        if not self.folds[n].rescales:
            return first
        begins = {m: self._once(self.loop.initial[m]) for m, fold in enumerate(self.folds) if fold.followed}
        return self._folded(self._once(first), "add", self._factors(n, begins))

    def _factors(self, n: int, extrema: Mapping[int, Value]) -> list[Value]:
        """What parts of a sum are multiplied by, that are relative to these extrema."""
        if not self.folds[n].rescales:
            return []
        values: dict[Value, Value] = {}
        parts: Dim = 1
        last = yielded(self.loop.body)
        for number, fold in enumerate(self.folds):
            if fold.followed:
                values[self.loop.body.arguments[1 + number]] = extrema[number]
                parts = extrema[number].shape[0]
                whole = self._once(self.wholes[number])
                values[last[number]] = self.builder.broadcast(whole, extrema[number].shape)
        lifted = Lifted(self.builder, parts, values)
        return [lifted.factor(value, self.loop.results[n].shape) for value in self.folds[n].rescales]

    def _once(self, value: Value) -> Value:
        """A value as the only part."""
        return self.builder.emit(ops.Reshape, source=value, shape=(1, *value.shape)).result

    def _folded(self, parts: Value, fn: str, factors: Sequence[Value]) -> Value:
        for factor in factors:
            parts = self.builder.map("mul", parts, self.builder.cast(factor, parts.dtype))
        return self.builder.emit(ops.Reduce, sources=[parts], axes=(0,), fn=fn).result

"""Folds over streamed axes: loops that carry them all, each following the others that it depends on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tiledsl.ir import graph_ops as graph
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.dtypes import DType, f32, i64
from tiledsl.ir.fold_identities import PAIRWISE, identity
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.types import AxisType, BlockSize
from tiledsl.passes.graph.analysis.axes import Axis
from tiledsl.passes.graph.analysis.online_rules import Dependence, Factor, Moments, factors_of, moments_of, unspread
from tiledsl.passes.graph.kernels.exact_sums import finite_or_exact
from tiledsl.passes.graph.kernels.group_tiles import Fold, GroupTiles, Scope
from tiledsl.passes.graph.kernels.index_limits import Combined, Edge, IndexLimits, Term
from tiledsl.passes.graph.kernels.kernel_plan import FlatWindows
from tiledsl.passes.graph.kernels.mask_bounds import limits_of_folds
from tiledsl.passes.graph.kernels.stream_moments import counts_of, squares_after
from tiledsl.passes.graph.kernels.treatments import depends


class GroupStreams(GroupTiles):
    """The loops of a group."""

    def _stream(self, streams: Sequence[Axis]) -> None:
        """Writes the loops over the blocks of axes, with every fold over them."""
        folds = [op for op, reduced in self.axes.reduced.items() if self._streams_of(reduced) == list(streams)]
        folds = [op for op in self.function.body.ops if op in folds and isinstance(op, (graph.Reduce, graph.Contract))]
        folds = [op for op in folds if op.result not in self._made()]
        moving = frozenset(op.result for op in folds)
        for op in folds:
            self._before(op, moving, set(streams))
        carried = [self._initial(op, self._is_followed(op, folds)) for op in folds]
        finals = self._loop(list(streams), folds, carried)
        for op, final in zip(folds, finals):
            self.scopes[-1][op.result] = self._finished(op, final, self._is_followed(op, folds))

    def _is_followed(self, op: Fold, folds: Sequence[Fold]) -> bool:
        """Whether others of the same loop depend on a fold."""
        return any(other is not op and depends(other.result, op.result) for other in folds)

    def _made(self) -> Mapping[Value, Value]:
        return {value: tile for scope in self.scopes for value, tile in scope.items()}

    def _before(self, op: Op, moving: frozenset[Value], streams: set[Axis]) -> None:
        """Makes what a loop reads and what stays the same in it, in front of it."""
        dependence = Dependence(moving)
        pending, seen = list(op.operands), set[Value]()
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            if not streams & set(self.axes.kept[value]) and not dependence.of(value):
                if value.op is not None and not isinstance(value.op, (graph.Constant, graph.Broadcast)):
                    self.tile(value)
            elif value.op is not None and value not in moving and not isinstance(value.op, graph.Window):
                pending += value.op.operands

    def accumulator(self, op: Fold) -> DType:
        """The dtype in which a fold is carried."""
        dtype = tensor_type(op.result).dtype
        return f32 if dtype.is_float and dtype.bits < 32 else dtype

    def _initial(self, op: Fold, followed: bool) -> Value:
        fn = "add" if isinstance(op, graph.Contract) else op.fn
        dtype = self.accumulator(op)
        start = self.builder.constant(identity(fn, tensor_type(op.result).dtype, followed), dtype)
        return self.builder.broadcast(start, self.shape(self.tile_axes(op.result)))

    def _finished(self, op: Fold, final: Value, followed: bool) -> Value:
        """What a fold comes to. If an extremum that others follow is what it began with, nothing was seen."""
        if followed and isinstance(op, graph.Reduce) and op.fn in ("max", "min") and final.dtype.is_float:
            start = self.builder.constant(identity(op.fn, final.dtype, followed=True), final.dtype)
            nothing = self.builder.constant(identity(op.fn, tensor_type(op.result).dtype, followed=False), final.dtype)
            unseen = self.builder.map("le" if op.fn == "max" else "ge", final, start)
            final = self.builder.map("where", unseen, nothing, final)
        if isinstance(op, graph.Contract) and op.exact_a is not None and op.exact_b is not None:
            return finite_or_exact(self, op, op.exact_a, op.exact_b, final)
        return self.builder.cast(final, tensor_type(op.result).dtype)

    def _loop(self, streams: list[Axis], folds: Sequence[Fold], carried: Sequence[Value]) -> list[Value]:
        if not streams:
            return self._turn(folds, carried)
        if self.flat is not None and self.flat.channels in streams:
            return self._places_and_channels(self.flat, folds, carried)
        axis, inner = streams[0], streams[1:]
        start, stop = self._limits(axis, folds)
        is_deep = self.flat is not None and self.flat.depth_axis is not None
        single = bool(inner) or axis in self.axes.inner or is_deep
        body = Block()
        self.open(body, axis, single=single)
        arguments = [body.add_argument(value.type, op.result.name or "acc") for value, op in zip(carried, folds)]
        with Scope(self, body):
            finals = self._loop(inner, folds, arguments)
            self.builder.emit(ops.Yield, values=finals)
        block = BlockSize.fixed(1) if single else BlockSize.auto()
        loop = self.builder.emit(ops.Range, start=start, stop=stop, initial=carried, blocks=(block,), body=body)
        del self.blocks[axis]
        return list(loop.results)

    def _places_and_channels(
        self, flat: FlatWindows, folds: Sequence[Fold], carried: Sequence[Value]
    ) -> list[Value]:  # fmt: skip
        """One loop over all places of a window, and over blocks of channels in each."""
        assert flat.channels is not None
        build, each = self.builder, -(-flat.channels.size // flat.depth) * flat.depth
        both = Axis(math.prod(axis.size for axis in flat.inner) * each, "k")
        self.sizes[both] = both.size
        body = Block()
        block = self.open(body, both, single=False)
        assert isinstance(block.type, AxisType)
        arguments = [body.add_argument(value.type, op.result.name or "acc") for value, op in zip(carried, folds)]
        with Scope(self, body):
            channels = block
            if flat.inner:
                place = build.map("floordiv", build.emit(ops.Start, axis=block).result, build.constant(each, i64))
                before = build.map("mul", place, build.constant(each, i64))
                offset = build.map("sub", build.constant(0, i64), before)
                channels = build.emit(ops.Shift, axis=block, offset=offset).result
                if flat.places is not None:
                    self.blocks[flat.places] = place
                for axis in reversed(flat.inner[1:]):
                    self.blocks[axis] = build.map("mod", place, build.constant(axis.size, i64))
                    place = build.map("floordiv", place, build.constant(axis.size, i64))
                self.blocks[flat.inner[0]] = place
            self.blocks[flat.channels] = channels
            build.emit(ops.Yield, values=self._turn(folds, arguments))
        stop = build.size(both.size)
        loop = build.emit(
            ops.Range, start=build.constant(0, i64), stop=stop, initial=carried,
            blocks=(BlockSize.fixed(flat.depth),), body=body,
        )  # fmt: skip
        for axis in (*flat.inner, flat.channels, both, *((flat.places,) if flat.places else ())):
            del self.blocks[axis]
        return list(loop.results)

    def _limits(self, axis: Axis, folds: Sequence[Fold]) -> tuple[Value, Value]:
        """Where the loop over an axis begins and ends: masks may leave only a part of it."""
        build = self.builder
        start, stop = build.constant(0, i64), build.size(self.sizes[axis])
        moving = Dependence(frozenset(fold.result for fold in folds))

        def is_loaded(value: Value) -> bool:
            mine = self.axes.kept[value]
            return (
                axis not in mine
                and not moving.of(value)
                and all(a in self.blocks for a in mine)
                and (not self.tile_axes(value))
            )

        limits = limits_of_folds(folds, IndexLimits(axis, self.axes, is_loaded))
        if limits.start is not None:
            start = build.map("maximum", start, self._term(limits.start))
        if limits.end is not None:
            stop = build.map("minimum", self._term(limits.end), stop)
        return start, stop

    def _term(self, term: Term) -> Value:
        """The value of a limit, as an i64."""
        build = self.builder
        match term:
            case int():
                return build.constant(term, i64)
            case Value():
                return build.cast(self.tile(term), i64)
            case Combined(fn=fn, left=left, right=right):
                return build.map(fn, self._term(left), self._term(right))
            case Edge(axis=axis, past=past):
                return self._edge(axis, past)

    def _edge(self, axis: Axis, past: bool) -> Value:
        build, block = self.builder, self.blocks.get(axis)
        if block is None:
            return build.size(self.sizes[axis]) if past else build.constant(0, i64)
        if not isinstance(block.type, AxisType):
            return build.map("add", block, build.constant(1, i64)) if past else block
        first = build.emit(ops.Start, axis=block).result
        return build.map("add", first, build.emit(ops.Extent, axis=block).result) if past else first

    def _turn(self, folds: Sequence[Fold], carried: Sequence[Value]) -> list[Value]:
        """The values of the folds after one more block."""
        before = {op.result: value for op, value in zip(folds, carried)}
        after: list[Value] = []
        for number, op in enumerate(folds):
            earlier = frozenset(other.result for other in folds[:number])
            with self.builder.at(op.location):
                old = before[op.result]
                moments = moments_of(op)
                if moments is not None and moments.total in earlier:
                    new = self._squares(op, moments, old, before)
                else:
                    for factor in factors_of(op, Dependence(earlier)):
                        old = self._corrected(op, old, factor, before)
                    new = self._with_block(op, old)
            self.scopes[-1][op.result] = new
            after.append(new)
        return after

    def _with_block(self, op: Fold, old: Value) -> Value:
        if isinstance(op, graph.Contract):
            return self.product(op, old)
        axes = self.tile_axes(op.source)
        over = tuple(axes.index(axis) for axis in self.axes.reduced[op] if axis in axes)
        source = self.builder.cast(self.tile(op.source), self.accumulator(op))
        if over:
            source = self.builder.emit(ops.Reduce, sources=[source], axes=over, fn=op.fn).result
        return self.builder.map(PAIRWISE[op.fn], old, source)

    def _squares(self, op: Fold, moments: Moments, old: Value, before: Mapping[Value, Value]) -> Value:
        """The sum of squares around the mean after one more block."""
        source, axes = self.builder.cast(self.tile(moments.source), old.dtype), self.tile_axes(moments.source)
        reduced = self.axes.reduced[op]
        streams = self._streams_of(reduced)
        counts = counts_of(
            self.builder,
            [(self.blocks[axis], self.sizes[axis]) for axis in streams],
            [self.sizes[axis] for axis in reduced if axis not in streams],
        )
        over = tuple(axes.index(axis) for axis in reduced if axis in axes)
        kept = self.tile_axes(op.result)
        total = before[moments.total]
        return squares_after(self.builder, source, over, lambda v: self.spread(v, kept, axes), counts, total, old)

    def _corrected(self, op: Fold, old: Value, factor: Factor, before: Mapping[Value, Value]) -> Value:
        """What was summed so far, in terms of what the values that it depends on are now."""
        change = self._change(factor.exponent, before)
        rescale = self.builder.map(factor.fn, change)
        axes = self._exponent_axes(factor.exponent)
        return self.builder.map("mul", old, self.spread(rescale, axes, self.tile_axes(op.result)))

    def _exponent_axes(self, exponent: Value) -> tuple[Axis, ...]:
        return self.tile_axes(unspread(exponent))

    def _change(self, exponent: Value, before: Mapping[Value, Value]) -> Value:
        """u - u': what the exponent was before this block, less what it is now."""
        plain = unspread(exponent)
        op = plain.op
        if plain not in before and isinstance(op, graph.Map) and op.fn == "mul":
            for value, other in (op.inputs, op.inputs[::-1]):
                if unspread(value) in before and isinstance(unspread(other).op, graph.Constant):
                    return self.builder.map("mul", self._change(value, before), self.tile(unspread(other)))
        old = self._evaluated(plain, before)
        return self.builder.map("sub", old, self.tile(plain))

    def _evaluated(self, value: Value, before: Mapping[Value, Value]) -> Value:
        """A value as it was before this block."""
        if value in before:
            return before[value]
        moving = frozenset(before)
        dependence = Dependence(moving)
        hidden = self.scopes
        kept = {v: t for v, t in self._made().items() if not dependence.of(v)}
        self.scopes = [{**kept, **before}]
        result = self.tile(value)
        self.scopes = hidden
        return result

"""Splits long folds among programs: a grid folds parts of each, a second one merges the parts and goes on.

    tile.grid([%M, %N]) body(%m: axis<m>, %n: axis<n>) {
      %acc = tile.range(%0, %K, [%zeros]) body(%k: axis<k>, %a: tile<f32, [m, n]>) { ... }
      ... what the program does with %acc
    }
 =>                                                            split-sums{parts=4}
    %parts = tile.empty() {shape = [4, M, N], dtype = f32, scratch = true}
    tile.grid([%4, %M, %N]) body(%part: i64, %m: axis<m>, %n: axis<n>) {
      %from = 256 * ((K + 1023) // 1024) * %part
      %to = minimum(%from + 256 * ((K + 1023) // 1024), %K)
      %acc = tile.range(%from, %to, [%zeros]) body(%k: axis<k>, %a: tile<f32, [m, n]>) { ... }
      tile.store(%parts, [%part, %m, %n], %acc)
    }
    tile.grid([%M, %N]) body(%m: axis<m_sum>, %n: axis<n_sum>) {
      %all = tile.load(%parts, [:, %m, %n])
      %acc = tile.reduce([%all]) {axes = [0], fn = add}
      ... what the program does with %acc
    }

Before: any TILE form. After: the same form. Every loop of a grid is split that only folds: sums, extrema, sums that
are relative to an extremum (`carried_folds`). Whatever else the grid does stays in the second one, and happens as often
as before. Parts are merged in the same order in every run. Narrow floats are kept as f32 between the grids. Rows of the
scratch tensors start at multiples of 16 bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Function, Index, Module, Number, Op, Value, free_names
from tiledsl.ir.dtypes import DType, f32, i64
from tiledsl.ir.facts import facts_of
from tiledsl.ir.fold_identities import fold_identity, identity
from tiledsl.ir.substitute import substitute_in_ops
from tiledsl.ir.symbolic import Dim, ceildiv, symbol, symbol_name, symbols_of
from tiledsl.ir.types import WHOLE, AxisType, BlockSize, Slice, TileType, Type, scalar
from tiledsl.ir.verifier import Form
from tiledsl.passes.analysis.effects import has_effect, tensors_written
from tiledsl.passes.analysis.sizes import size_of, symbols_in
from tiledsl.passes.analysis.splats import number_of
from tiledsl.passes.manager import PassContext, form_of
from tiledsl.passes.tile.dce import EliminateDeadCode
from tiledsl.passes.tile.loops.carried_folds import IDEMPOTENT, CarriedFold, carried_folds, check_reads
from tiledsl.passes.tile.loops.follow_weights import NotSplitError
from tiledsl.passes.tile.loops.merge_parts import MergedParts

UNIT = 256
"""Elements that a part has a multiple of: no block of a loop of products ends anywhere else."""
ROW_BYTES = 16
"""What rows of the scratch tensor start at multiples of, as TMA wants them."""
SUFFIX = "_sum"
"""Of the blocks of the second grid."""


@dataclass(frozen=True)
class SplitSums:
    """`parts`: of the sums of each grid, in order; grids beyond, and those with 1, stay as they are. `unit`: what each
    part has a multiple of, in coordinates of the loop, but for the last one."""

    name: ClassVar[str] = "split-sums"
    requires: ClassVar[Form] = Form.TILE
    gives: ClassVar[Form] = Form.TILE
    parts: tuple[int, ...] = ()
    unit: int = UNIT

    def run(self, module: Module, context: PassContext) -> Module:
        function = module.entry
        placed = form_of(module) is not Form.TILE
        grids = [op for op in function.body.ops if isinstance(op, ops.Grid)]
        for grid, parts in zip(grids, self.parts):
            if parts > 1:
                self._split(function, grid, parts, context)
        if placed:
            place_new(function)
        return EliminateDeadCode().run(module, context) if any(parts > 1 for parts in self.parts) else module

    def _split(self, function: Function, grid: ops.Grid, parts: int, context: PassContext) -> None:
        found, declined = sums_of(grid)
        if not found:
            reason = "; ".join(dict.fromkeys(declined)) or "it has no loop"
            context.remark(self.name, grid.location, f"sums are not split into {parts} parts, because {reason}")
            return
        _Splitting(function, grid, parts, self.unit).split(found)
        for sum_ in found:
            context.remark(self.name, sum_.loop.location, f"split into {parts} parts, which another grid merges")


@dataclass(frozen=True)
class SplitLoop:
    """A loop whose folds can be split, one for each carried value. `needs`: the ops of the grid's body that it is
    computed of. `places`: for each fold, which axis of the grid each of its axes is the block of; None where it is
    whole."""

    loop: ops.Range
    folds: tuple[CarriedFold, ...]
    needs: frozenset[Op]
    places: tuple[tuple[int | None, ...], ...]


def sums_of(grid: ops.Grid) -> tuple[list[SplitLoop], list[str]]:
    """The loops of a grid whose sums can be split, and why others cannot: in words that follow "because"."""
    found: list[SplitLoop] = []
    declined: list[str] = []
    written = tensors_written([grid])
    taken: set[Op] = set()
    for op in grid.body.ops:
        if isinstance(op, ops.Range):
            try:
                folds = tuple(carried_folds(op, written))
                _check_stops(grid)
                places = tuple(_places(result.tile, grid) for result in op.results)
                needs = _needs(op, folds, grid.body, taken, written)
            except NotSplitError as error:
                declined.append(str(error))
            else:
                found.append(SplitLoop(op, folds, needs, places))
                taken.add(op)
        elif isinstance(op, (ops.For, ops.While)):
            declined.append(f"the loop is no `tile.range` but `{op.name}`")
    return found, declined


def _check_stops(grid: ops.Grid) -> None:
    if any(size_of(stop) is None for stop in grid.stops):
        raise NotSplitError("how far the grid goes is computed")


def _places(type_: TileType, grid: ops.Grid) -> tuple[int | None, ...]:
    """Which axis of the grid each axis of a sum is the block of."""
    axes = {n: a.type.extent for n, a in enumerate(grid.body.arguments) if isinstance(a.type, AxisType)}
    names = {name for extent in axes.values() for name in symbols_of(extent)}
    places: list[int | None] = []
    for dim in type_.shape:
        place = next((n for n, extent in axes.items() if extent == dim and n not in places), None)
        if place is None and symbols_of(dim) & names:
            raise NotSplitError("a sum has an axis that is no block of the grid, nor the same in all programs")
        places.append(place)
    if not set(axes) <= set(places):
        raise NotSplitError("each program of the grid has a sum of its own, whose axes are not the grid's blocks")
    return tuple(places)


def _needs(
    loop: ops.Range, folds: Sequence[CarriedFold], body: Block, taken: Iterable[Op], written: frozenset[Value]
) -> frozenset[Op]:
    """The ops of the body that what a loop folds is computed of."""
    found: set[Op] = set()
    pending = [loop.start, loop.stop, *(value for op in loop.body.walk() for value in op.operands)]
    pending += [first for fold, first in zip(folds, loop.initial) if fold.fn in IDEMPOTENT]
    while pending:
        op = _outermost(pending.pop(), body)
        if op is None or op is loop or op in found:
            continue
        if op in taken:
            raise NotSplitError("the loop needs the sums of another one")
        if has_effect(op):
            raise NotSplitError(f"the loop needs what `{op.name}` gives")
        check_reads(op, written)
        found.add(op)
        pending += [value for nested in op.walk() for value in nested.operands]
    return frozenset(found)


def _outermost(value: Value, body: Block) -> Op | None:
    """The op of a body that gives a value, or has the op that does inside; None for a value from outside."""
    if value.op is None:
        block = value.owner
        op = block.parent if isinstance(block, Block) else None
    else:
        op = value.op
    while op is not None and op.parent is not body:
        op = None if op.parent is None else op.parent.parent
    return op


class _Splitting:
    """Splits the loops of one grid."""

    def __init__(self, function: Function, grid: ops.Grid, parts: int, unit: int) -> None:
        self.function, self.grid, self.parts, self.unit = function, grid, parts, unit
        self.stops = [size for stop in grid.stops if (size := size_of(stop)) is not None]
        self.facts = facts_of(function)

    def split(self, loops: Sequence[SplitLoop]) -> None:
        outside = Builder(Block(), self.grid.location)
        summed = [_Scratch(outside, loop, self) for loop in loops]
        body = self._parts_body(loops, summed)
        stops = (outside.size(self.parts), *self.grid.stops)
        outside.emit(ops.Grid, stops=stops, blocks=(BlockSize.fixed(1), *self.grid.blocks), body=body)
        for op in outside.block.ops:
            self.function.body.insert_before(self.grid, op)
        for one in summed:
            one.use_parts()
        self._rename()

    def _parts_body(self, loops: Sequence[SplitLoop], summed: Sequence[_Scratch]) -> Block:
        """The body of the first grid: what the loops need, a part of each, and where its sums go."""
        arguments: list[tuple[Type, str]] = [(a.type, a.name) for a in self.grid.body.arguments]
        body = Block([(scalar(i64), "part"), *arguments])
        values = dict(zip(self.grid.body.arguments, body.arguments[1:]))
        needed = frozenset[Op]().union(*(loop.needs for loop in loops))
        scratch = dict(zip((loop.loop for loop in loops), summed))
        builder = Builder(body, self.grid.location)
        for op in self.grid.body.ops:
            if op in needed:
                body.append(op.clone(values))
            elif isinstance(op, ops.Range) and op in scratch:
                with builder.at(op.location):
                    scratch[op].add_part(builder, values)
        builder.emit(ops.Yield)
        return body

    def _rename(self) -> None:
        """Gives the blocks of the second grid names of their own."""
        taken = {name for op in self.function.walk() for name in symbols_in(op)}
        taken |= {name for value in self.function.parameters for dim in _dims(value) for name in symbols_of(dim)}
        names: dict[str, Dim] = {}
        inside = [op for op in self.grid.walk() if isinstance(op, (ops.Grid, ops.Range))]
        for op in inside:
            for argument in op.body.arguments:
                name = symbol_name(argument.type.extent) if isinstance(argument.type, AxisType) else None
                if name is not None:
                    wanted = free_names(taken, name + SUFFIX)
                    taken.add(wanted)
                    names[name] = symbol(wanted)
        substitute_in_ops([self.grid], names)


def _dims(value: Value) -> Sequence[Dim]:
    return () if isinstance(value.type, AxisType) else value.type.shape


class _Scratch:
    """Where parts of the sums of one loop are kept, between the grids: a tensor for each sum."""

    def __init__(self, outside: Builder, split: SplitLoop, whole: _Splitting) -> None:
        self.loop, self.folds, self.places, self.whole = split.loop, split.folds, split.places, whole
        self.tensors = [
            self._tensor(outside, result, places) for result, places in zip(self.loop.results, self.places)
        ]  # fmt: skip

    def _tensor(self, outside: Builder, result: Value, places: Sequence[int | None]) -> Value:
        """[parts, scalar axes of the grid ..., axes of the sum ...], its rows a little longer if need be."""
        dtype = kept_dtype(result.dtype)
        sizes = [self.whole.stops[n] if n is not None else dim for n, dim in zip(places, result.shape)]
        shape = [self.whole.parts, *(self.whole.stops[n] for n in self._scalar_axes()), *sizes]
        granule = ROW_BYTES // math.gcd(ROW_BYTES, dtype.bytes)
        if sizes and not self.whole.facts.divisible(shape[-1], granule):
            shape[-1] = ceildiv(shape[-1], granule) * granule
        name = f"{result.name or 'sum'}_parts"
        with outside.at(self.loop.location):
            made = outside.emit(ops.Empty, result_names=[name], shape=tuple(shape), dtype=dtype, scratch=True)
        return made.result

    def _scalar_axes(self) -> list[int]:
        return [n for n, a in enumerate(self.whole.grid.body.arguments) if not isinstance(a.type, AxisType)]

    def _subscripts(self, part: Index, arguments: Sequence[Value], result: Value, number: int) -> tuple[Index, ...]:
        """Where a sum lies in its tensor."""
        tensor = self.tensors[number].type
        assert not isinstance(tensor, (AxisType, TileType))
        found: list[Index] = [part, *(arguments[n] for n in self._scalar_axes())]
        for place, dim in zip(self.places[number], result.shape):
            if place is not None:
                found.append(arguments[place])
            else:
                found.append(WHOLE if tensor.shape[len(found)] == dim else Slice(0, dim))
        return tuple(found)

    def add_part(self, builder: Builder, values: dict[Value, Value]) -> None:
        """Emits the loop over one part, from nothing, and the stores of its sums."""
        arguments = builder.block.arguments
        loop = self.loop
        start, stop = self._bounds(builder, arguments[0], values)
        body = loop.body.clone(values)
        initial = [self._start(builder, number, values) for number in range(len(loop.initial))]
        part = builder.emit(
            ops.Range, start=start, stop=stop, initial=initial, blocks=loop.blocks, num_stages=loop.num_stages,
            body=body, types=[result.type for result in loop.results],
            result_names=[result.name for result in loop.results],
        )  # fmt: skip
        for number, (result, tensor) in enumerate(zip(part.results, self.tensors)):
            wide = builder.cast(result, kept_dtype(result.dtype))
            at = self._subscripts(arguments[0], arguments[1:], result, number)
            builder.emit(ops.Store, tensor=tensor, indices=at, value=wide)

    def _bounds(self, builder: Builder, part: Value, values: dict[Value, Value]) -> tuple[Value, Value]:
        """Where a part begins and ends: as long as the others, in whole units, but not beyond the end of the loop."""
        start, stop = (values.get(value, value) for value in (self.loop.start, self.loop.stop))
        (block,) = self.loop.blocks
        unit = math.lcm(self.whole.unit, block.size) if block.kind == "fixed" else self.whole.unit
        first, last = size_of(start), size_of(stop)
        if first is not None and last is not None:
            each = builder.size(ceildiv(last - first, self.whole.parts * unit) * unit)
        else:
            start = builder.cast(start, i64)
            length = builder.map("sub", builder.cast(stop, i64), start)
            more = builder.map("add", length, builder.constant(self.whole.parts * unit - 1, i64))
            turns = builder.map("floordiv", more, builder.constant(self.whole.parts * unit, i64))
            each = builder.map("mul", turns, builder.constant(unit, i64))
        before = builder.map("mul", part, each)
        begin = before if first == 0 else builder.map("add", builder.cast(start, i64), before)
        return begin, builder.map("minimum", builder.map("add", begin, each), builder.cast(stop, i64))

    def _start(self, builder: Builder, number: int, values: Mapping[Value, Value]) -> Value:
        """What each part starts from."""
        fold, first, finite = self.folds[number], self.loop.initial[number], self._finite_starts()
        if fold.fn in IDEMPOTENT and number not in finite:
            return values.get(first, first)
        return _throughout(builder, finite.get(number, fold_identity(fold.fn, first.dtype)), first.tile)

    def _finite_starts(self) -> dict[int, Number]:
        """Of extrema that start from infinity, and that sums are relative to: a part may have no element that counts,
        and a difference of two infinities is no number."""
        pairs = enumerate(zip(self.folds, map(number_of, self.loop.initial)))
        infinite = [n for n, (fold, start) in pairs if fold.followed and start is not None and math.isinf(start)]
        return {n: identity(self.folds[n].fn, self.loop.initial[n].dtype, True) for n in infinite}

    def use_parts(self) -> None:
        """Lets what follows the loop, in the second grid, read what the parts come to."""
        grid, loop = self.whole.grid, self.loop
        builder = Builder(Block(), loop.location)
        merged = MergedParts(
            builder, loop, self.folds, lambda number: self._load(builder, number), self._finite_starts()
        ).wholes  # fmt: skip
        for op in builder.block.ops:
            grid.body.insert_before(loop, op)
        for number, result in enumerate(loop.results):
            result.replace_with(merged[number])
        loop.erase()

    def _load(self, builder: Builder, number: int) -> Value:
        """All parts of a fold, along the first axis."""
        at = self._subscripts(WHOLE, self.whole.grid.body.arguments, self.loop.results[number], number)
        return builder.emit(ops.Load, tensor=self.tensors[number], indices=at).result


def kept_dtype(dtype: DType) -> DType:
    """What parts of a sum are kept in between the grids: no less than f32."""
    return f32 if dtype.is_float and dtype.bits < f32.bits else dtype


def _throughout(builder: Builder, number: Number, type_: TileType) -> Value:
    """A tile that is a number throughout."""
    scalar_ = builder.constant(number, type_.dtype)
    if not type_.shape:
        return scalar_
    tile = builder.broadcast(scalar_, type_.shape)
    tile.type = type_
    return tile


def place_new(function: Function) -> None:
    """Puts tiles that have no level into registers."""
    for op in function.walk():
        for value in op.results:
            if isinstance(value.type, TileType) and value.type.shape and value.type.level is None:
                value.type = replace(value.type, level="register")

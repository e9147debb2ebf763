"""Where lowering emits, and what the scalars, sizes and blocks of a TILE program have become."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Function, Index, Op, Value
from tiledsl.ir.dtypes import DType, i64
from tiledsl.ir.facts import Facts, facts_of
from tiledsl.ir.symbolic import Dim, Expr, Opaque, Symbol, symbols_of
from tiledsl.ir.types import AxisType, Shape, Slice, TileType, Whole
from tiledsl.passes.analysis.sizes import constant_of
from tiledsl.passes.gpu.layouts.capacities import Capacities
from tiledsl.support.follow import follow

OpT = TypeVar("OpT", bound=Op)
MOST_MULTIPLE = 16
"""Nothing needs to be known to be a multiple of more: no access is of more than 16 bytes."""


@dataclass(frozen=True)
class BlockPlace:
    """What a block has become: its first coordinate, and how many coordinates it has (None: as many as there is room).

    `multiple`, `extent_multiple`: powers of two, at most `MOST_MULTIPLE`, that the two are known to be multiples of.
    `shared`: whether it may have coordinates that another block has too, and makes the same of.
    """

    start: Value
    extent: Value | None
    multiple: int
    extent_multiple: int
    shared: bool = False


class ScalarLowering:
    """The state of lowering, as far as scalars are concerned: `Lowering` adds tiles to it."""

    def __init__(self, function: Function, capacities: Capacities, builder: Builder) -> None:
        self.function = function
        self.builder = builder
        self.capacities = capacities
        self.facts: Facts = facts_of(function)
        self._scalars: dict[Value, Value] = {}
        self._blocks: dict[Value, BlockPlace] = {}
        self._extents: dict[str, BlockPlace] = {}
        self._scopes: list[list[Callable[[], object]]] = [[]]

    # Emission

    def emit(
        self, kind: type[OpT], *, types: Sequence[TileType] | None = None, name: str | Sequence[str] = "", **fields: Any
    ) -> OpT:
        """Builds an op at the current point. `types` where the op implies no layouts."""
        names = (name,) if isinstance(name, str) else tuple(name)
        return self.builder.emit(kind, types=types, result_names=names, **fields)

    def constant(self, value: int | float | bool, dtype: DType = i64) -> Value:
        """A scalar constant."""
        return self.builder.constant(value, dtype)

    def arithmetic(self, fn: str, left: Value, right: Value | int) -> Value:
        """An i64 scalar computed from two."""
        first, second = constant_of(left), right if isinstance(right, int) else constant_of(right)
        if (second == 0 and fn in ("add", "sub")) or (second == 1 and fn in ("mul", "floordiv")):
            return left
        if first is not None and second is not None and (fn in ("add", "sub", "mul") or (fn == "floordiv" and second)):
            known = {"add": first + second, "sub": first - second, "mul": first * second}
            return self.constant(first // second if fn == "floordiv" else known[fn])
        if first == 0 and fn == "add" and isinstance(right, Value):
            return right
        return self.builder.map(fn, left, self.constant(right) if isinstance(right, int) else right)

    def next_stage(self, stage: Value, stages: int) -> Value:
        """The stage after one, the first after the last."""
        after = self.arithmetic("add", stage, 1)
        wraps = self.builder.map("eq", after, self.constant(stages))
        return self.builder.map("where", wraps, self.constant(0), after)

    def quotient_up(self, dividend: Value, divisor: int) -> Value:
        """An i64 scalar divided by a number, rounded up."""
        return self.arithmetic("floordiv", self.arithmetic("add", dividend, divisor - 1), divisor)

    @contextmanager
    def scope(self, block: Block) -> Generator[None]:
        """Emits into `block`; what is defined meanwhile is forgotten afterwards."""
        self._scopes.append([])
        with self.builder.inside(block):
            yield
        for forget in reversed(self._scopes.pop()):
            forget()

    @contextmanager
    def when(self, condition: Value) -> Generator[None]:
        """Emits what is done only if a scalar is true, and gives no results."""
        then, otherwise = Block(), Block()
        with self.scope(then):
            yield
            self.emit(ops.Yield)
        with self.scope(otherwise):
            self.emit(ops.Yield)
        self.emit(ops.If, types=[], condition=condition, then=then, otherwise=otherwise)

    @contextmanager
    def trial(self) -> Generator[None]:
        """Emits what is thrown away afterwards: to find out what lowering something would come to."""
        block = Block()
        with self.scope(block):
            yield
        for op in reversed(list(block.ops)):
            op.erase()

    # Scalars, sizes, blocks

    def define_scalar(self, value: Value, lowered: Value) -> None:
        """Says what a scalar has become."""
        self._scalars[value] = lowered
        self._scopes[-1].append(lambda: self._scalars.pop(value, None))

    def scalar(self, value: Value) -> Value:
        """What a scalar has become. Pure ones from outside of grids are made here again."""
        if value not in self._scalars:
            assert value.op is not None, f"%{value.name} is not lowered yet"
            self.lower_op(value.op)
        return self._scalars[value]

    def coordinate(self, value: Value) -> Value:
        """What an integer scalar has become, as i64: programs count in any integer type, GPU form in this one alone."""
        return self.builder.cast(self.scalar(value), i64)

    lower_op: Callable[[Op], None]
    """Lowers an op at the current point; set by the pass."""

    def define_block(self, axis: Value, place: BlockPlace) -> None:
        """Says where a block is."""
        self._blocks[axis] = place
        assert isinstance(axis.type, AxisType)
        name = str(axis.type.extent)
        if place.extent is not None and not isinstance(axis.type.extent, int):
            self._extents[name] = place

    @contextmanager
    def elsewhere(self, axis: Value, place: BlockPlace | Value) -> Generator[None]:
        """Takes a block (or the coordinate that stands for one) to be elsewhere for a while."""
        if isinstance(place, Value):
            coordinate = self._scalars.get(axis)
            self._scalars[axis] = place
            yield
            self._scalars.pop(axis)
            if coordinate is not None:
                self._scalars[axis] = coordinate
            return
        assert isinstance(axis.type, AxisType)
        name = str(axis.type.extent)
        before, extent = self._blocks.get(axis), self._extents.get(name)
        self._blocks[axis] = place
        if place.extent is not None and not isinstance(axis.type.extent, int):
            self._extents[name] = place
        yield
        self._blocks.pop(axis)
        self._extents.pop(name, None)
        if before is not None:
            self._blocks[axis] = before
        if extent is not None:
            self._extents[name] = extent

    def block(self, axis: Value) -> BlockPlace:
        """Where a block is; that of a shift is its axis', moved."""
        if axis not in self._blocks:
            assert isinstance(axis.op, ops.Shift)
            inner, offset = self.block(axis.op.axis), axis.op.offset
            start = self.arithmetic("add", inner.start, self.coordinate(offset))
            multiple = math.gcd(inner.multiple, self.multiple(offset))
            return BlockPlace(start, inner.extent, multiple, inner.extent_multiple)
        return self._blocks[axis]

    def start_of(self, index: Index) -> Value:
        """Where a subscript that is no gather begins."""
        match index:
            case Whole():
                return self.constant(0)
            case Slice():
                return self.size(index.start)
            case Value(type=AxisType()):
                return self.block(index).start
            case Value():
                return self.coordinate(index)

    def size(self, dim: Dim) -> Value:
        """A size as an i64 scalar; the extents of blocks may stand in it."""
        if isinstance(dim, int):
            return self.constant(dim)
        if not symbols_of(dim) & self._extents.keys():
            return self.builder.size(dim)
        total: Value | None = None
        for monomial, coefficient in dim.terms:
            product: Value | None = None
            for atom in monomial:
                factor = self._atom(atom)
                product = factor if product is None else self.arithmetic("mul", product, factor)
            term = (
                self.constant(coefficient)
                if product is None
                else self.arithmetic("mul", product, coefficient)
            )  # fmt: skip
            total = term if total is None else self.arithmetic("add", total, term)
        assert total is not None
        return total

    def _atom(self, atom: Symbol | Opaque) -> Value:
        if isinstance(atom, Symbol):
            place = self._extents.get(atom.name)
            if place is not None and place.extent is not None:
                return place.extent
            return self.builder.size(Expr((((atom,), 1),)))
        names = {"floordiv": "floordiv", "mod": "mod", "min": "minimum", "max": "maximum"}
        return self.arithmetic(names[atom.operation], self.size(atom.left), self.size(atom.right))

    def extent(self, dim: Dim) -> Value | None:
        """How many elements there are along an axis of that size; None where there is no room for more."""
        if isinstance(dim, int) and dim == self.capacities.of(dim):
            return None
        return self.size(dim)

    def ragged(self, shape: Shape, axes: Sequence[int] | None = None) -> list[tuple[int, Value]]:
        """The axes (all, or some of these) that may have padding, with their extents."""
        found: list[tuple[int, Value]] = []
        for axis in range(len(shape)) if axes is None else axes:
            extent = self.extent(shape[axis])
            if extent is not None and constant_of(extent) != self.capacities.of(shape[axis]):
                found.append((axis, extent))
        return found

    def extent_multiple(self, dim: Dim) -> int:
        """A power of two (at most `MOST_MULTIPLE`) that the extent of an axis is known to be a multiple of."""
        if isinstance(dim, int):
            return math.gcd(dim, MOST_MULTIPLE)
        place = self._extents.get(str(dim))
        if place is not None:
            return place.extent_multiple
        return self.size_multiple(dim)

    def size_multiple(self, dim: Dim) -> int:
        """A power of two (at most `MOST_MULTIPLE`) that a size is known to be a multiple of."""
        return next(n for n in (16, 8, 4, 2, 1) if self.facts.divisible(dim, n))

    def multiple(self, value: Value) -> int:
        """A power of two (at most `MOST_MULTIPLE`) that an i64 scalar of the TILE program is a multiple of."""
        return follow(self._multiple, value)

    def _multiple(self, value: Value) -> Generator[Value, int, int]:
        match value.op:
            case ops.Constant() as op:
                return math.gcd(int(op.value), MOST_MULTIPLE)
            case ops.Size() as op:
                return self.size_multiple(op.value)
            case ops.Start() as op:
                return self.block(op.axis).multiple
            case ops.Map() as op if op.fn in ("add", "sub", "minimum", "maximum"):
                return math.gcd((yield op.inputs[0]), (yield op.inputs[1]))
            case ops.Map() as op if op.fn == "mul":
                return min(MOST_MULTIPLE, (yield op.inputs[0]) * (yield op.inputs[1]))
            case _:
                return 1

    def divides(self, divisor: int, value: Value) -> bool:
        """Whether an i64 scalar of the TILE program is known to be a multiple of some number."""
        return follow(partial(self._divides, divisor), value)

    def _divides(self, divisor: int, value: Value) -> Generator[Value, bool, bool]:
        match value.op:
            case ops.Constant() as op:
                return int(op.value) % divisor == 0
            case ops.Size() as op:
                return self.facts.divisible(op.value, divisor)
            case ops.Start() as op:
                owner = op.axis.op_around
                if not isinstance(owner, ops.Grid):
                    return False
                return owner.blocks[owner.body.arguments.index(op.axis)].size % divisor == 0
            case ops.Map() as op if op.fn in ("add", "sub", "minimum", "maximum"):
                return (yield op.inputs[0]) and (yield op.inputs[1])
            case ops.Map(fn="mul") as op:
                return (yield op.inputs[0]) or (yield op.inputs[1])
            case _:
                return False

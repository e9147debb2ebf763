"""Leaves out the rows of a block that no store keeps: blocks of a fixed size whose ends are data.

    tile.grid([%rows]) {blocks = [128]} body(%r: axis<r>) {
      %x = tile.load(%a, [%r, %k])                                        ... and a product of it
      %at = tile.index(%r)
      %kept = tile.map([%at, %stop]) {fn = lt}
      %row = tile.map([%kept, %at, %T]) {fn = where}                      T: as many rows as the tensor has
      tile.store(%y, [%row, :], %product)
    }
 =>                                                                       clip-rows
    tile.grid([%rows]) {blocks = [128]} body(%r: axis<r>) {
      %first = tile.start(%r)
      %last = tile.map([%first + 128, %stop]) {fn = minimum}
      tile.range(%first, %last) {blocks = [128]} body(%r_kept: axis<r_kept>) {
        ... the same of %r_kept
      }
    }

What stands at the size of a tensor is dropped, so rows behind `stop` are computed for nothing; in mixtures of experts,
where every expert has blocks of its own, that may be most of them. The loop has one turn, or none.

Before: any TILE form, blocks open or fixed. After: the same form. Grids are left alone where a row depends on others,
where anything but such stores has an effect, and where there is no product to be saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Function, Module, Op, Value, free_names
from tiledsl.ir.dtypes import i64
from tiledsl.ir.substitute import substitute_in_ops
from tiledsl.ir.symbolic import Dim, symbol, symbol_name, symbols_of
from tiledsl.ir.types import AxisType, Shape, TensorType, TileType
from tiledsl.ir.verifier import Form
from tiledsl.passes.analysis.effects import has_effect
from tiledsl.passes.analysis.sizes import size_of, symbols_in
from tiledsl.passes.manager import PassContext

SUFFIX = "_kept"
"""Of the rows that are computed."""
SMALL_BITS = 32
"""Integers of which sums and differences do not leave i64."""
OF_ELEMENTS = (
    ops.Load, ops.Store, ops.Map, ops.Cast, ops.Broadcast, ops.Transpose, ops.Coordinates, ops.Shift, ops.Arange,
    ops.Constant, ops.Start, ops.Random, ops.Range, ops.Yield,
)  # fmt: skip
"""Ops that make a row of nothing but the same row."""


@dataclass(frozen=True)
class ClipRows:
    """Puts what depends on the rows of a block into a loop over those that are stored."""

    name: ClassVar[str] = "clip-rows"
    requires: ClassVar[Form] = Form.TILE
    gives: ClassVar[Form] = Form.TILE

    def run(self, module: Module, context: PassContext) -> Module:
        for function in module.functions:
            for grid in [op for op in function.body.ops if isinstance(op, ops.Grid)]:
                for axis, block in zip(grid.body.arguments, grid.blocks):
                    if block.kind != "fixed" or not isinstance(axis.type, AxisType):
                        continue
                    found = clipped_rows(grid, axis)
                    if found is not None:
                        _clip(function, grid, axis, found)
                        context.remark(
                            self.name, grid.location, f"rows of %{axis.name} that are not stored are left out"
                        )
        return module


@dataclass(frozen=True)
class Clipped:
    """The ops of a grid's body that depend on the rows of an axis, in order, and what ends those that are stored."""

    moved: tuple[Op, ...]
    ends: tuple[tuple[Value, tuple[tuple[str, Value], ...]], ...]
    """For each store an integer, and what is added to a coordinate ("add") or taken from it ("sub") before they are
    compared: the coordinate is stored if it is then less."""


def clipped_rows(grid: ops.Grid, axis: Value) -> Clipped | None:
    """What can be clipped of an axis of a grid; None where rows are all stored, or not independent of each other."""
    name = symbol_name(axis.type.extent) if isinstance(axis.type, AxisType) else None
    if name is None:
        return None
    moved = _moved(grid.body, axis, name)
    inside = [nested for op in moved for nested in op.walk()]
    if not any(isinstance(op, ops.Dot) for op in inside) or not all(_is_of_rows(op, name) for op in inside):
        return None
    if any(
        isinstance(nested, (ops.Store, ops.Atomic)) for op in grid.body.ops if op not in moved for nested in op.walk()
    ):
        return None
    stores = [op for op in moved if has_effect(op)]
    ends = [_end(op, axis, name) for op in stores]
    known = tuple(end for end in ends if end is not None)
    if not known or len(known) != len(ends):
        return None
    if any(value.op in moved for end, terms in known for value in (end, *(term for _, term in terms))):
        return None
    return Clipped(tuple(moved), known)


def _moved(body: Block, axis: Value, name: str) -> list[Op]:
    """The ops of a block that depend on an axis by more than its start."""
    moved: list[Op] = []
    values = {axis}
    for op in body.ops:
        if isinstance(op, (ops.Start, ops.Yield)):
            continue
        nested = list(op.walk())
        if any(name in symbols_in(one) for one in nested) or any(v in values for one in nested for v in one.operands):
            moved.append(op)
            values.update(op.results)
    return moved


def _is_of_rows(op: Op, name: str) -> bool:
    """Whether each row of what an op gives is made of the same row of what it is given."""
    shapes = [value.shape for value in (*op.operands, *op.results) if isinstance(value.type, TileType)]
    if any(not _is_one_axis(shape, name) for shape in shapes):
        return False
    match op:
        case ops.Dot():
            return name not in symbols_of(op.a.shape[-1])
        case ops.Reduce():
            return all(name not in symbols_of(source.shape[axis]) for source in op.sources for axis in op.axes)
        case ops.Scan():
            return all(name not in symbols_of(source.shape[op.axis]) for source in op.sources)
        case ops.Sort():
            return name not in symbols_of(op.source.shape[op.axis])
        case ops.Reshape():
            return [dim for dim in op.source.shape if dim != 1] == [dim for dim in op.shape if dim != 1]
        case ops.Size():
            return name not in symbols_of(op.value)
        case _:
            return isinstance(op, OF_ELEMENTS)


def _is_one_axis(shape: Shape, name: str) -> bool:
    """Whether the symbol is an axis of a shape by itself, once, or none."""
    having = [dim for dim in shape if name in symbols_of(dim)]
    return len(having) <= 1 and all(symbol_name(dim) == name for dim in having)


def _end(op: Op, axis: Value, name: str) -> tuple[Value, tuple[tuple[str, Value], ...]] | None:
    """Of a store whose rows are `where(coordinate + terms < end, ..., size)`: the end, and the terms."""
    if not isinstance(op, ops.Store) or not isinstance(op.tensor.type, TensorType):
        return None
    for subscript, size in zip(op.indices, op.tensor.type.shape):
        chosen = subscript.op if isinstance(subscript, Value) else None
        if not isinstance(chosen, ops.Map) or chosen.fn != "where" or not _is_rows(chosen.result, name):
            continue
        kept, _, otherwise = chosen.inputs
        if size_of(otherwise) != size or not isinstance(kept.op, ops.Map) or kept.op.fn != "lt":
            continue
        coordinate, end = kept.op.inputs
        terms = _terms(coordinate, axis)
        if terms is not None and _is_small(end):
            return end, terms
    return None


def _is_rows(value: Value, name: str) -> bool:
    return len(value.shape) == 1 and symbol_name(value.shape[0]) == name


def _terms(value: Value, axis: Value) -> tuple[tuple[str, Value], ...] | None:
    """What is added to the coordinates of an axis; None where a value is not made of them like this."""
    found: list[tuple[str, Value]] = []
    while True:
        match value.op:
            case ops.Coordinates() as op:
                shifts = _shifts(op.axis, axis)
                return None if shifts is None else (*found, *(("add", offset) for offset in shifts))
            case ops.Map(fn="add" | "sub") as op:
                left, right = op.inputs
                if op.fn == "add" and not left.shape:
                    left, right = right, left
                if right.shape or not _is_small(right):
                    return None
                found.append((op.fn, right))
                value = left
            case _:
                return None


def _shifts(moved: Value, axis: Value) -> list[Value] | None:
    found: list[Value] = []
    while isinstance(moved.op, ops.Shift):
        found.append(moved.op.offset)
        moved = moved.op.axis
    return found if moved is axis and all(map(_is_small, found)) else None


def _is_small(value: Value) -> bool:
    """Whether an integer is a scalar of few bits, or a size, so that what is computed of it does not overflow."""
    if value.shape:
        return False
    if value.dtype.bits <= SMALL_BITS:
        return not value.dtype.is_float
    source = value.op
    if isinstance(source, ops.Cast):
        return _is_small(source.source)
    return isinstance(source, (ops.Size, ops.Start)) or (isinstance(source, ops.Constant) and abs(source.value) < 2**31)


def _clip(function: Function, grid: ops.Grid, axis: Value, clipped: Clipped) -> None:
    """Moves the ops into a loop, which stands where the last of them did."""
    assert isinstance(axis.type, AxisType)
    builder = Builder(Block(), grid.location)
    first = builder.emit(ops.Start, axis=axis).result
    extent = builder.emit(ops.Extent, axis=axis).result
    ends = [_end_of_rows(builder, end, terms) for end, terms in clipped.ends]
    end = ends[0]
    for other in ends[1:]:
        end = builder.map("maximum", end, other)
    last = builder.map("minimum", builder.map("add", first, extent), end)
    (block,) = (block for argument, block in zip(grid.body.arguments, grid.blocks) if argument is axis)
    name = _new_name(function, axis.type.extent)
    body = Block([(axis.type, f"{axis.name}{SUFFIX}")])
    values: dict[Value, Value] = {axis: body.arguments[0]}
    for op in clipped.moved:
        body.append(op.clone(values))
    Builder(body, grid.location).emit(ops.Yield)
    loop = builder.emit(ops.Range, start=first, stop=last, initial=(), blocks=(block,), body=body)
    for op in builder.block.ops:
        grid.body.insert_before(clipped.moved[-1], op)
    for op in reversed(clipped.moved):
        op.erase()
    old = symbol_name(axis.type.extent)
    assert old is not None
    substitute_in_ops([loop], {old: symbol(name)})


def _end_of_rows(builder: Builder, end: Value, terms: Iterable[tuple[str, Value]]) -> Value:
    """The coordinate before which rows are stored."""
    end = builder.cast(end, i64)
    for fn, term in terms:
        end = builder.map("sub" if fn == "add" else "add", end, builder.cast(term, i64))
    return end


def _new_name(function: Function, extent: Dim) -> str:
    taken = set(_names(function))
    return free_names(taken, f"{symbol_name(extent)}{SUFFIX}")


def _names(function: Function) -> Iterator[str]:
    for parameter in function.parameters:
        if isinstance(parameter.type, TensorType):
            for dim in parameter.type.shape:
                yield from symbols_of(dim)
    for op in function.walk():
        yield from symbols_in(op)

"""Sizes in the program: scalars that are sizes, blocks that declare extents, ops that speak of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tiledsl.ir.core import Function, Op, Value
from tiledsl.ir.facts import Facts
from tiledsl.ir.symbolic import Dim, symbol_name, symbols_of
from tiledsl.ir.tile_ops import Constant, Grid, Range, Size
from tiledsl.ir.types import AxisType, BlockSize, Slice, TileType, Type

SIZES = Facts()
"""What holds of all sizes: they are not negative."""
UNKNOWN_SIZE = 2048
"""What a size that nobody knows is taken for, where plans are chosen."""


def size_of(value: Value) -> Dim | None:
    """What an integer scalar is, if it is a constant or a size; else None."""
    match value.op:
        case Constant() as op if op.dtype.is_integer and isinstance(op.value, int):
            return op.value
        case Size() as op:
            return op.value
        case _:
            return None


def constant_of(value: Value) -> int | None:
    """What an integer scalar is, if it is known at compile time; else None."""
    size = size_of(value)
    return size if isinstance(size, int) else None


@dataclass(frozen=True)
class BlockDefinition:
    """A block of a grid or a range: where it stands, between which values it runs, how large it is."""

    op: Grid | Range
    argument: Value
    start: Value | None
    """None for 0."""
    stop: Value
    block: BlockSize

    @property
    def extent(self) -> str | None:
        """The symbol that the block declares, or None: a scalar coordinate, or an extent that is known."""
        return symbol_name(self.argument.type.extent) if isinstance(self.argument.type, AxisType) else None

    @property
    def total(self) -> Dim | None:
        """How many coordinates all blocks have together, if that is a size. Below 1, no block is run."""
        start, stop = 0 if self.start is None else size_of(self.start), size_of(self.stop)
        return None if start is None or stop is None else stop - start


def blocks_of(op: Grid | Range) -> Iterator[BlockDefinition]:
    """The blocks that one op runs over, in order."""
    if isinstance(op, Range):
        yield BlockDefinition(op, op.body.arguments[0], op.start, op.stop, op.blocks[0])
        return
    for argument, stop, block in zip(op.body.arguments, op.stops, op.blocks):
        yield BlockDefinition(op, argument, None, stop, block)


def blocks_in(function: Function | Op) -> dict[Value, BlockDefinition]:
    """Every block of a function, or of an op and what stands in it, by the value that stands for it."""
    ops = [op for op in function.walk() if isinstance(op, (Grid, Range))]
    return {block.argument: block for op in ops for block in blocks_of(op)}


def symbols_in(op: Op) -> frozenset[str]:
    """The size symbols that an op itself speaks of, in its results' types, attributes and subscripts."""
    dims: list[Dim] = []
    for result in op.results:
        dims += _dims_of(result.type)
    for name, field in op.attribute_fields.items():
        if field.kind == "dim":
            dims.append(op.attributes[name])
        elif field.kind == "shape":
            dims += op.attributes[name]
    for operand in op.fields.values():
        for item in operand if isinstance(operand, tuple) else ():
            if isinstance(item, Slice):
                dims += (item.start, item.stop)
    return frozenset[str]().union(*map(symbols_of, dims))


def _dims_of(type_: Type) -> tuple[Dim, ...]:
    return (type_.extent,) if isinstance(type_, AxisType) else type_.shape


def is_scalar(value: Value) -> bool:
    """Whether the value is a tile of rank 0."""
    return isinstance(value.type, TileType) and not value.type.shape

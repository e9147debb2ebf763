"""Where the blocks of grids and loops begin and end, in GPU form."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.types import AxisType, BlockSize
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.lower.scalar_lowering import MOST_MULTIPLE, BlockPlace


def block_size(block: BlockSize) -> int:
    """The size of a block; a plan has made it a number."""
    assert block.kind == "fixed", f"a block is {block} yet"
    return block.size


def block_place(
    state: Lowering,
    argument: Value,
    start: Value,
    stop: Value,
    size: int,
    stop_multiple: int,
    start_multiple: int = MOST_MULTIPLE,
    shared: bool = False,
) -> BlockPlace | Value:
    """Where the block is that an argument stands for; or `start`, if that is a plain coordinate.

    `stop_multiple`, `start_multiple`: powers of two that the ends of the whole axis are known to be multiples of.
    `shared`: as of a `BlockPlace`.
    """
    if not isinstance(argument.type, AxisType):
        return start
    multiple = math.gcd(size, start_multiple, MOST_MULTIPLE)
    extent = argument.type.extent
    if isinstance(extent, int):
        length = None if extent == state.capacities.of(extent) else state.constant(extent)
        return BlockPlace(start, length, multiple, math.gcd(extent, MOST_MULTIPLE))
    left = state.arithmetic("sub", stop, start)
    length = state.builder.map("minimum", left, state.constant(size))
    length.name = f"{argument.name}_size"
    return BlockPlace(start, length, multiple, math.gcd(multiple, stop_multiple), shared)


@dataclass(frozen=True)
class Turns:
    """The turns of a loop over blocks: where it starts and stops, how many there are, and the size of their blocks.

    `start_multiple`, `stop_multiple`: powers of two that its ends are known to be multiples of. `whole`: whether both
    are multiples of the size of a block, so that all turns have as much as there is room for.
    """

    argument: Value
    start: Value
    stop: Value
    count: Value
    size: int
    start_multiple: int
    stop_multiple: int
    whole: bool = False

    def start_of(self, state: Lowering, number: Value) -> Value:
        """The first coordinate of the block of turn `number`."""
        return state.arithmetic("add", self.start, state.arithmetic("mul", number, self.size))

    def place(self, state: Lowering, start: Value) -> BlockPlace | Value:
        """Where the block is that begins at `start`."""
        type_ = self.argument.type
        if self.whole and isinstance(type_, AxisType) and not isinstance(type_.extent, int):
            multiple = math.gcd(self.size, MOST_MULTIPLE)
            return BlockPlace(start, state.constant(self.size), multiple, multiple)
        multiples = self.stop_multiple, self.start_multiple
        return block_place(state, self.argument, start, self.stop, self.size, *multiples)


def turns_of(state: Lowering, op: ops.Range) -> Turns:
    """The turns of a loop, from its bounds at the current point."""
    size = block_size(op.blocks[0])
    start, stop = state.coordinate(op.start), state.coordinate(op.stop)
    count = state.quotient_up(state.arithmetic("sub", stop, start), size)
    multiples = state.multiple(op.start), state.multiple(op.stop)
    whole = state.divides(size, op.start) and state.divides(size, op.stop)
    return Turns(op.body.arguments[0], start, stop, count, size, *multiples, whole)


def define_place(state: Lowering, argument: Value, place: BlockPlace | Value) -> None:
    """Says what `block_place` found."""
    if isinstance(place, Value):
        state.define_scalar(argument, place)
    else:
        state.define_block(argument, place)

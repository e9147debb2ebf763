"""Where the blocks of grids and loops begin and end, in GPU form."""

from __future__ import annotations

import math

from tiledsl.ir.core import Value
from tiledsl.ir.types import AxisType, BlockSize
from tiledsl.passes.gpu.lowering import MOST_MULTIPLE, BlockPlace, Lowering


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
) -> BlockPlace | Value:
    """Where the block is that an argument stands for; or `start`, if that is a plain coordinate.

    `stop_multiple`, `start_multiple`: powers of two that the ends of the whole axis are known to be multiples of.
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
    return BlockPlace(start, length, multiple, math.gcd(multiple, stop_multiple))


def define_place(state: Lowering, argument: Value, place: BlockPlace | Value) -> None:
    """Says what `block_place` found."""
    if isinstance(place, Value):
        state.define_scalar(argument, place)
    else:
        state.define_block(argument, place)

"""The frame: the array of 64-bit words through which a launch hands everything to compiled code.

Pointers and scalars come first, since they alone change between calls of one signature; the rest is fixed when the
program is bound to sizes: strides (in elements), size symbols, block sizes. Compiled code only reads it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.ir.core import Function, Value
from tiledsl.ir.symbolic import symbol_name, symbols_of
from tiledsl.ir.tile_ops import Empty, Grid, Range
from tiledsl.ir.types import AxisType, TensorType, TileType

PROGRAM_UNIT = 1 << 16
"""The status of a launch is the program that failed times this, plus 1 and the number of the assertion."""


@dataclass(frozen=True)
class FrameLayout:
    """Which word holds what."""

    ranks: tuple[int, ...]
    """Rank of each tensor: parameters in order, then the results of `tile.empty` in order."""
    scalars: tuple[str, ...]
    """dtype name of each scalar parameter."""
    symbols: tuple[str, ...]
    """Size symbols, sorted."""
    blocks: tuple[str, ...]
    """Extent symbols of the axes whose block is chosen at launch, in order of appearance."""

    def pointer(self, tensor: int) -> int:
        return tensor

    def scalar(self, index: int) -> int:
        return len(self.ranks) + index

    def stride(self, tensor: int, axis: int) -> int:
        return len(self.ranks) + len(self.scalars) + sum(self.ranks[:tensor]) + axis

    def symbol(self, name: str) -> int:
        return self.stride(len(self.ranks), 0) + self.symbols.index(name)

    def block(self, name: str) -> int:
        return self.stride(len(self.ranks), 0) + len(self.symbols) + self.blocks.index(name)

    @property
    def words(self) -> int:
        return self.stride(len(self.ranks), 0) + len(self.symbols) + len(self.blocks)


def tensors_of(function: Function) -> list[Value]:
    """Every tensor in the order of the frame: parameters, then what the function creates."""
    parameters = [p for p in function.parameters if isinstance(p.type, TensorType)]
    return parameters + [op.result for op in function.body.ops if isinstance(op, Empty)]


def layout_of(function: Function) -> FrameLayout:
    """The frame layout of a function in form `tile-tiled`."""
    tensors = tensors_of(function)
    names: set[str] = set()
    ranks: list[int] = []
    for tensor in tensors:
        assert isinstance(tensor.type, TensorType)
        ranks.append(len(tensor.type.shape))
        for dim in tensor.type.shape:
            names |= symbols_of(dim)
    scalars = [p.dtype.name for p in function.parameters if isinstance(p.type, TileType)]
    return FrameLayout(tuple(ranks), tuple(scalars), tuple(sorted(names)), tuple(launch_blocks(function)))


def launch_blocks(function: Function) -> list[str]:
    """The extent symbols of the axes whose block size is left to the launch."""
    found: list[str] = []
    for op in function.walk():
        if isinstance(op, (Grid, Range)):
            for block, argument in zip(op.blocks, op.body.arguments):
                if block.kind == "upto":
                    found.append(axis_symbol(argument))
    return found


def axis_symbol(argument: Value) -> str:
    """The extent symbol that a block argument declares."""
    assert isinstance(argument.type, AxisType)
    name = symbol_name(argument.type.extent)
    assert name is not None, f"%{argument.name} has no extent symbol"
    return name

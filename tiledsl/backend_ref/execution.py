"""The state of one execution of a TILE function: what symbols and values are, and how a block of ops runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, Union

import numpy as np

from tiledsl.backend_ref.scalar_functions import Array, element_type
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.symbolic import evaluate, symbol_name
from tiledsl.ir.types import AxisType, BlockSize, Shape
from tiledsl.support.errors import fail
from tiledsl.support.progress import Progress


class AxisBlock(NamedTuple):
    """The value of an axis: a run of coordinates."""

    start: int
    extent: int


RuntimeValue: TypeAlias = Union[Array, AxisBlock]
"""A tensor, a tile or a scalar (rank 0) as an array, or a block of an axis. Tiles are never changed in place."""
Program: TypeAlias = tuple[AxisBlock, ...]
"""A program of a grid: the block of each axis that it has."""
Executor: TypeAlias = Callable[[Any, Any], tuple[RuntimeValue, ...]]
"""Runs one op, given the execution (of its own kind, for GPU ops) and the op, and gives its results."""
BlockChooser: TypeAlias = Callable[[Op, int, BlockSize], int]
"""The block size of one axis (by its position) of a grid or range, for a size that is `auto` or `upto`."""


def small_blocks(op: Op, axis: int, size: BlockSize) -> int:
    """The default choice: about 7, so that small arrays already have several blocks and a short one at the end."""
    del op, axis
    if size.kind == "auto":
        return 7
    return max(size.unit, min(7, size.size) // size.unit * size.unit)


MANY_ELEMENTS = 1 << 15


def large_blocks(op: Op, axis: int, size: BlockSize) -> int:
    """About 61, for arrays of `MANY_ELEMENTS` and more: small blocks of these are thousands of programs."""
    del op, axis
    if size.kind == "auto":
        return 61
    return max(size.unit, min(61, size.size) // size.unit * size.unit)


@dataclass(eq=False)
class Execution:
    """What is known while a function runs."""

    executors: Mapping[type[Op], Executor]
    sizes: Mapping[str, int]
    """The symbols that the arguments' shapes tell."""
    blocks: BlockChooser
    output: Callable[[str], None]
    order: random.Random | None
    """Shuffles the programs of each grid, if given."""
    chosen: Callable[[list[Program]], Iterable[Program]] | None = None
    """Which programs of each grid are run, if not all of them."""
    values: dict[Value, RuntimeValue] = field(default_factory=dict[Value, RuntimeValue])
    symbols: dict[str, int] = field(default_factory=dict[str, int])
    """`sizes`, and the extents of the blocks that are being run."""
    coordinates: list[str] = field(default_factory=list[str])
    """Those of the program that is being run, for messages."""
    task: str = "running a kernel op by op"
    """What is done, for messages about how far it is."""
    progress: tuple[Op, Progress] | None = None
    """Of the grid that is being run."""

    def array(self, value: Value) -> Array:
        """What a tensor, a tile or a scalar is."""
        found = self.values[value]
        assert not isinstance(found, AxisBlock)
        return found

    def axis(self, value: Value) -> AxisBlock:
        """What a block of an axis is."""
        found = self.values[value]
        assert isinstance(found, AxisBlock)
        return found

    def integer(self, value: Value) -> int:
        """What an integer scalar is."""
        return int(self.array(value))

    def shape(self, shape: Shape) -> tuple[int, ...]:
        """A shape in numbers."""
        return tuple(evaluate(dim, self.symbols) for dim in shape)

    def run(self, block: Block, arguments: Sequence[RuntimeValue], *, vectorised: bool = False) -> tuple[Any, ...]:
        """Runs a block and gives what its terminator does.

        If `vectorised`, scalars may be arrays: the block is run for all of their elements at once.
        """
        self.values.update(zip(block.arguments, arguments))
        for op in block.ops:
            if op.effect == "terminator":
                return tuple(self.values[v] for v in op.operands)
            results = self.executors[type(op)](self, op)
            assert len(results) == len(op.results), op
            for value, result in zip(op.results, results):
                assert vectorised or self._fits(value, result), f"{op} gives {result!r} for {value}"
                self.values[value] = result
        return ()

    def _fits(self, value: Value, result: RuntimeValue) -> bool:
        if isinstance(result, AxisBlock):
            return isinstance(value.type, AxisType)
        if isinstance(value.type, AxisType):
            return False
        return result.shape == self.shape(value.type.shape) and element_type(result) == value.type.dtype

    def begin_program(self, op: Op, coordinates: list[str], count: int) -> None:
        """The next of the `count` programs of a grid begins."""
        self.coordinates = coordinates
        if self.progress is None or self.progress[0] is not op:
            self.progress = op, Progress(self.task, count)
        else:
            self.progress[1].step()

    def block_size(self, op: Op, axis: int, size: BlockSize) -> int:
        """The size of the blocks of one axis of a grid or range: the op's, or one chosen within its limits."""
        if size.kind == "fixed":
            return size.size
        chosen = self.blocks(op, axis, size)
        legal = chosen > 0 and (size.kind == "auto" or (chosen <= size.size and chosen % size.unit == 0))
        assert legal, f"a block of {chosen} was chosen for {size}"
        return chosen

    def enter_block(self, op: Op, argument: Value, block: AxisBlock) -> RuntimeValue:
        """The value for a body's argument that stands for `block`; learns its extent's symbol."""
        if not isinstance(argument.type, AxisType):
            assert block.extent == 1, f"%{argument.name} is a scalar, its block has {block.extent} coordinates"
            return np.asarray(block.start, np.int64)
        extent = argument.type.extent
        name = symbol_name(extent)
        if name is not None and name not in self.sizes:
            self.symbols[name] = block.extent
        elif evaluate(extent, self.symbols) != block.extent:
            promise = f"the extent of %{argument.name} is {extent}"
            fail("reference-promise", op.location, op=op.name, promise=promise, actual=f"it is {block.extent}")
        return block


def blocks_between(start: int, stop: int, size: int) -> list[AxisBlock]:
    """The blocks of `size` from `start` to `stop`; the last may be short."""
    return [AxisBlock(at, min(size, stop - at)) for at in range(start, stop, size)]

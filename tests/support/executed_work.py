"""What the reference executor moves and multiplies, counted while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from tiledsl.backend_ref import memory
from tiledsl.backend_ref.arguments import Argument
from tiledsl.backend_ref.execute_tile import EXECUTORS, execute
from tiledsl.backend_ref.execution import Execution
from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.ir.core import Function, Index, Op
from tiledsl.ir.symbolic import symbol_name
from tiledsl.ir.tile_ops import Atomic, For, If, Load, Range, Store, While
from tiledsl.ir.types import AxisType, BlockSize, TensorType
from tiledsl.passes.analysis.sizes import blocks_in
from tiledsl.passes.nest.count_work import WorkCounts
from tiledsl.passes.nest.loop_nest import loop_nests


@dataclass
class Moved:
    """Elements read from tensors and written to them by loads and stores."""

    read: float = 0
    written: float = 0


@dataclass
class Meter:
    """Replaces what the executor selects with while a test runs."""

    monkeypatch: pytest.MonkeyPatch
    moved: Moved = field(default_factory=Moved)

    def run(self, function: Function, arguments: Sequence[Argument], blocks: dict[str, int]) -> Moved:
        """Executes with these block sizes; what is moved."""
        self.moved = moved = Moved()
        inside = 0
        select = memory.select

        def selected(execution: Execution, array: Array, subscripts: Sequence[Index]) -> memory.Selection:
            nonlocal inside
            selection = select(execution, array, subscripts)
            inside = int(selection.inside.sum())
            return selection

        def load(execution: Execution, op: Load) -> tuple[Array, ...]:
            result = memory.load(execution, op)
            moved.read += inside
            return result

        def store(execution: Execution, op: Store) -> tuple[Array, ...]:
            result = memory.store(execution, op)
            moved.written += inside
            return result

        def choose(op: Op, axis: int, size: BlockSize) -> int:
            del size
            type_ = op.bodies["body"].arguments[axis].type
            assert isinstance(type_, AxisType)
            return blocks[symbol_name(type_.extent) or ""]

        with self.monkeypatch.context() as patch, np.errstate(all="ignore"):
            patch.setattr(memory, "select", selected)
            patch.setitem(EXECUTORS, Load, load)
            patch.setitem(EXECUTORS, Store, store)
            execute(function, arguments, blocks=choose, output=lambda line: None)
        return moved


def open_blocks(function: Function) -> dict[str, BlockSize]:
    """The blocks that nobody has chosen, by symbol."""
    blocks = blocks_in(function).values()
    return {b.extent: b.block for b in blocks if b.extent is not None and b.block.kind != "fixed"}


def counted(function: Function, sizes: dict[str, int], blocks: dict[str, int]) -> tuple[Moved, bool]:
    """What the nests of a function are counted to move, and whether that is exact."""
    moved, exact = Moved(), not any(isinstance(op, (Load, Store, If, For, While, Range)) for op in function.body.ops)
    for nest in loop_nests(function):
        counts = WorkCounts(nest, sizes, blocks)
        for access in nest.accesses:
            amount = counts.moved(access)
            exact = exact and amount.exact and not access.conditional and not access.gathers
            exact = exact and not isinstance(access.op, Atomic)  # the executor goes about them in another way
            if access.is_read:
                moved.read += amount.number
            else:
                moved.written += amount.number
    return moved, exact


def sizes_of(function: Function, arguments: Sequence[Argument]) -> dict[str, int]:
    """The symbols of a function's parameters."""
    sizes: dict[str, int] = {}
    for parameter, argument in zip(function.parameters, arguments):
        if isinstance(argument, np.ndarray) and isinstance(parameter.type, TensorType):
            for dim, size in zip(parameter.type.shape, argument.shape):
                name = symbol_name(dim)
                if name is not None:
                    sizes[name] = size
    return sizes

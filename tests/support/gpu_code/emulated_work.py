"""What the emulator moves between programs and global memory, beside what nests are counted to move."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from tests.support.executed_work import sizes_of
from tests.support.gpu_code.gpu_lowering import lowered, plans_for
from tiledsl.backend_ref.arguments import Argument
from tiledsl.backend_ref.emulator.emulate import emulate
from tiledsl.ir.core import Function, Module
from tiledsl.ir.tile_ops import Atomic, For, If, Load, Range, Store, While
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.nest.count_work import WorkCounts
from tiledsl.passes.nest.loop_nest import loop_nests
from tiledsl.support.errors import TileResourceError

Bytes = tuple[int, int]
"""Read and written."""


def counted_bytes(function: Function, sizes: dict[str, int], plan: Plan) -> tuple[Bytes, bool]:
    """By all grids under a plan, and whether that is exact."""
    read = written = 0.0
    exact = not any(isinstance(op, (Load, Store, If, For, While, Range)) for op in function.body.ops)
    for nest in loop_nests(function):
        counts = WorkCounts(nest, sizes, dict(plan.blocks))
        for access in nest.accesses:
            amount = counts.moved(access)
            exact = exact and amount.exact and not access.conditional and not access.gathers
            exact = exact and not isinstance(access.op, Atomic)
            moved = amount.number * access.tensor.dtype.bytes
            read, written = (read + moved, written) if access.is_read else (read, written + moved)
    return (round(read), round(written)), exact


def bytes_by_plan(
    module: Module, arguments: Sequence[Argument], most: int, arch: str = "sm_90"
) -> list[tuple[Plan, Bytes, bool, Bytes]]:
    """For the first plans that fit: what is counted, whether exactly, and what the emulator moves."""
    placed, plans = plans_for(module, arguments, arch)
    sizes = sizes_of(placed.entry, arguments)
    found: list[tuple[Plan, Bytes, bool, Bytes]] = []
    for plan in plans[:most]:
        counted, exact = counted_bytes(placed.entry, sizes, plan)
        with contextlib.suppress(TileResourceError):
            ran = emulate(lowered(placed, plan, arch).entry, arguments, output=lambda line: None)
            found.append((plan, counted, exact, (ran.read_bytes, ran.written_bytes)))
    return found

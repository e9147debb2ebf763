"""Gives every block that the program leaves open a limit, by the cost model of the machine.

    tile.grid([%M, %N]) {blocks = [auto, auto]}   =>   tile.grid([%M, %N]) {blocks = [upto(512, 8), upto(1024, 16)]}

On a CPU a block is a loop bound, so its exact size is left to the launch, which knows the sizes of the arrays and the
threads: it takes any multiple of the unit up to the limit. One compilation then serves all sizes. Blocks that were
given are kept as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Module, Op
from tiledsl.ir.facts import Facts, facts_of
from tiledsl.ir.symbolic import Dim, symbol_name, symbols_of
from tiledsl.ir.types import AxisType, BlockSize
from tiledsl.ir.verifier import Form
from tiledsl.passes.analysis.few import is_few, sizes_that_may_be_few
from tiledsl.passes.analysis.sizes import UNKNOWN_SIZE
from tiledsl.passes.cpu.choose_blocks import choose_blocks
from tiledsl.passes.cpu.cpu_cost import packed_depth
from tiledsl.passes.cpu.grid_work import Axis, GridWork, collect_work
from tiledsl.passes.machine import CpuMachine, named
from tiledsl.passes.manager import PassContext
from tiledsl.passes.nest.loop_nest import loop_nest

ROW_UNIT = 8
ROWS = (8, 16, 32, 64, 128, 256, 512)
DEPTHS = (32, 64, 128, 256)
COLUMN_VECTORS = (1, 2, 4, 8, 16, 32, 64)
FEW_VECTORS = (1, 4)
ELEMENT_VECTORS = (16, 64, 256, 1024, 4096)
OUTER = (1, 2, 4, 8, 16, 64)
LONG = 4096
HELD_SIZE = 128
"""What is taken for the length of an axis that no block cuts, of an operand of a product (a head): who has longer rows
cuts them."""


@dataclass(frozen=True)
class InferTiling:
    """Replaces `auto` blocks. `arch` names a machine table; `cpu` is the machine at hand."""

    name: ClassVar[str] = "infer-tiling"
    requires: ClassVar[Form] = Form.TILE_PLACED
    gives: ClassVar[Form] = Form.TILE_TILED
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        machine = named(self.arch, module.entry.location) if self.arch != "cpu" else context.machine
        for op in module.walk():
            if isinstance(op, ops.Grid):
                self._grid(op, machine, facts_of(module.entry), context)
        return module

    def _grid(self, grid: ops.Grid, machine: CpuMachine, facts: Facts, context: PassContext) -> None:
        self._note_given(grid, context)
        work = collect_work(loop_nest(grid))
        if all(axis.kind != "auto" for axis in (*work.axes, *work.loops)):
            return
        roles = {axis.symbol: _role(axis, work, machine) for axis in (*work.axes, *work.loops)}
        candidates = {name: role.candidates for name, role in roles.items()}
        names = _size_symbols(work)
        # whatever the ranks, arrays of a few million elements
        sizes = dict.fromkeys(names, UNKNOWN_SIZE if len(names) > 1 else UNKNOWN_SIZE**2)
        sizes |= dict.fromkeys(_held_by_products(work), HELD_SIZE)
        limits = choose_blocks(work, machine, sizes, 1, candidates)
        few = bool(sizes_that_may_be_few(grid, facts)) or any(_has_few(op, facts) for op in grid.walk())
        for op in grid.walk():
            if isinstance(op, (ops.Grid, ops.Range)):
                self._replace(op, limits, roles, few, context)

    def _note_given(self, grid: ops.Grid, context: PassContext) -> None:
        for op in grid.walk():
            if isinstance(op, (ops.Grid, ops.Range)):
                for block, argument in zip(op.blocks, op.body.arguments):
                    if block.kind == "fixed":
                        context.remark(self.name, op.location, f"{argument.name}: blocks of {block.size}, as given")

    def _replace(
        self, op: Op, limits: dict[str, int], roles: dict[str, _Role], few: bool, context: PassContext
    ) -> None:
        assert isinstance(op, (ops.Grid, ops.Range))
        blocks = list(op.blocks)
        for position, (block, argument) in enumerate(zip(op.blocks, op.body.arguments)):
            if block.kind == "auto":
                assert isinstance(argument.type, AxisType)
                name = symbol_name(argument.type.extent)
                assert name is not None
                role = roles[name]
                limit = max(limits[name], role.unit)
                text = f"{name}: blocks of up to {limits[name]} in multiples of {role.unit} ({role.reason})"
                if few and limit < role.long:
                    limit = role.long
                    text += f"; of up to {limit} where a dot has few rows or columns"
                blocks[position] = BlockSize.upto(limit, role.unit)
                context.remark(self.name, op.location, text)
        op.attributes["blocks"] = tuple(blocks)


@dataclass(frozen=True)
class _Role:
    """What an axis is used for, and what follows for its block."""

    reason: str
    unit: int
    candidates: Sequence[int]
    long: int = 0
    """How long blocks may be where the operands of dots are read in place, and long runs of addresses are all that
    counts."""


def _has_few(op: Op, facts: Facts) -> bool:
    return isinstance(op, ops.Dot) and (is_few(facts, op.a.shape[-2]) or is_few(facts, op.b.shape[-1]))


def _role(axis: Axis, work: GridWork, machine: CpuMachine) -> _Role:
    lanes = machine.vector_bytes // 4
    if axis.kind != "auto":
        return _Role("given", axis.unit, (axis.limit,))
    dots = [task.dims for task in work.tasks if task.kind == "dot"]
    in_loop = axis in work.loops
    if any(symbol_name(dims[-1]) == axis.symbol for dims in dots):
        together = [t.weight for t in work.tasks if t.kind == "dot" and symbol_name(t.dims[-1]) == axis.symbol]
        wide = min(packed_depth(machine, one) for one in together) // DEPTHS[-1]
        depths = [depth * wide for depth in DEPTHS]
        return _Role("the depth of a dot: packed rows of it stay in the first caches", 8, depths, LONG)
    if any(symbol_name(dims[-2]) == axis.symbol for dims in dots):
        vectors = COLUMN_VECTORS[:5] if in_loop else COLUMN_VECTORS
        long = 0 if in_loop else LONG
        return _Role("the columns of a dot: whole vectors", lanes, [lanes * count for count in vectors], long)
    if any(symbol_name(dims[-3]) == axis.symbol for dims in dots):
        long = 0 if in_loop else LONG
        return _Role("the rows of a dot: whole register tiles, their panel in the second cache", ROW_UNIT, ROWS, long)
    if any(task.across is not None and symbol_name(task.dims[task.across]) == axis.symbol for task in work.tasks):
        return _Role("what is read across the order of memory: a vector of it stays in the first cache", lanes, [lanes])
    if any(task.dims and symbol_name(task.dims[-1]) == axis.symbol for task in work.tasks):
        vectors = (*FEW_VECTORS, *ELEMENT_VECTORS) if _crosses_runs(axis, work) else ELEMENT_VECTORS
        return _Role("a contiguous axis: whole vectors", lanes, [lanes * count for count in vectors])
    looped = any((task.loops or task.times != 1) and not task.in_registers for task in work.tasks)
    sizes = OUTER if looped else OUTER[-1:]  # without loops a call takes as few as its rows ask for
    return _Role("an outer axis: as few as keep the tiles in the first caches", 1, sizes)


def _crosses_runs(axis: Axis, work: GridWork) -> bool:
    """Whether a tile has a run of contiguous addresses for each coordinate of the axis."""
    return any(
        task.run is not None and symbol_name(dim) == axis.symbol and position != task.run
        for task in work.tasks
        for position, dim in enumerate(task.dims)
    )


def _held_by_products(work: GridWork) -> set[str]:
    """Sizes of operands of products that are neither cut into blocks nor gone through one by one."""
    held = {name for task in work.tasks if task.kind == "dot" for dim in task.dims for name in symbols_of(dim)}
    cut = {name for dim in [*_lengths(work), work.programs] for name in symbols_of(dim)}
    return held - cut - {axis.symbol for axis in (*work.axes, *work.loops)}


def _size_symbols(work: GridWork) -> set[str]:
    dims = [d for task in work.tasks for d in (*task.dims, task.times)] + [d for shape in work.tiles for d in shape]
    dims += _lengths(work)
    blocks = {axis.symbol for axis in (*work.axes, *work.loops)}
    blocks |= {begins.symbol for loop in work.moving for begins in loop.begins}
    return {name for dim in [*dims, work.programs] for name in symbols_of(dim)} - blocks


def _lengths(work: GridWork) -> list[Dim]:
    """Of all axes and loops, as far as they are known."""
    known = [axis.length for axis in (*work.axes, *work.loops) if axis.length is not None]
    begins = [dim for loop in work.moving for one in loop.begins for dim in (one.step, one.total)]
    return [*known, *begins, *(loop.length for loop in work.moving)]

"""Puts the exact choices of a plan into a TILE module.

    tile.grid([%M]) {blocks = [auto]} body(%m: axis<m>)   =>   tile.grid([%M]) {blocks = [128]} body(%m: axis<m>)

Before: any TILE form. After: the same form, with no block left open. Sizes that the plan takes for constants become
numbers, and what it knows of divisibility becomes facts of the function. The launch sees to it that both are true.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir.core import Fact, Function, Module
from tiledsl.ir.substitute import substitute_symbols
from tiledsl.ir.symbolic import Dim, symbol, symbol_name
from tiledsl.ir.tile_ops import Grid, Range
from tiledsl.ir.types import AxisType, BlockSize
from tiledsl.ir.verifier import Form
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.manager import PassContext
from tiledsl.support.errors import fail


def check_applied(function: Function, plan: Plan) -> None:
    """Raises TileTypeError unless the plan says something of each grid, and all blocks of the function are numbers."""
    grids = [op for op in function.body.ops if isinstance(op, Grid)]
    if len(grids) > len(plan.grids):
        fail("plan-incomplete", grids[len(plan.grids)].location, what="the threads of this grid", example="128 threads")
    for op in function.walk():
        if isinstance(op, (Grid, Range)):
            for block, argument in zip(op.blocks, op.body.arguments):
                if block.kind != "fixed":
                    what = f"the size of block `{argument.name}`"
                    fail("plan-incomplete", op.location, what=what, example=f"{argument.name}=16")


@dataclass(frozen=True)
class ApplyPlan:
    """`plan` names blocks by the symbols of their extents, as `choose_plans` found them in the same module."""

    name: ClassVar[str] = "apply-plan"
    requires: ClassVar[Form] = Form.TILE
    gives: ClassVar[Form] = Form.TILE
    plan: Plan

    def run(self, module: Module, context: PassContext) -> Module:
        function = module.entry
        self._fix_blocks(function)
        facts = [Fact(symbol(name), divisor) for name, divisor in self.plan.divisors]
        function.facts = tuple(dict.fromkeys((*function.facts, *facts)))
        sizes: dict[str, Dim] = dict(self.plan.sizes)
        if sizes:
            substitute_symbols(function, sizes)
        return module

    def _fix_blocks(self, function: Function) -> None:
        chosen = dict(self.plan.blocks)
        for op in function.walk():
            if isinstance(op, (Grid, Range)):
                blocks: list[BlockSize] = []
                for block, argument in zip(op.blocks, op.body.arguments):
                    name = symbol_name(argument.type.extent) if isinstance(argument.type, AxisType) else None
                    size = None if name is None else chosen.get(name)
                    blocks.append(block if size is None else BlockSize.fixed(size))
                op.attributes["blocks"] = tuple(blocks)

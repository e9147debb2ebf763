"""Proves accesses in bounds, and extents known.

    // for %a: tensor<f32, [M]>, facts [M % 16 == 0]
    tile.grid([%M]) {blocks = [16]} body(%m: axis<m>) {      ... body(%m: axis<16>) {
      %x = tile.load(%a, [%m]) : tile<f32, [m]>         =>     ... {in_bounds = [0]} : tile<f32, [16]>

Before: any TILE form. After: the same form; `in_bounds` lists every axis of a load, store or atomic on which no access
can be shown to fall outside, and where a fixed block divides its axis, or covers it whole, its extent is a number.
What could not be shown is noted: such an access is checked when the program runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir.core import Function, Index, Module, Value
from tiledsl.ir.facts import Facts, facts_of
from tiledsl.ir.substitute import substitute_symbols
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.tile_ops import Atomic, Load, Store
from tiledsl.ir.types import Slice, TensorType, Whole
from tiledsl.ir.verifier import Form
from tiledsl.passes.analysis.scalars.coordinates import CoordinateAnalysis
from tiledsl.passes.analysis.sizes import BlockDefinition, blocks_in
from tiledsl.passes.manager import PassContext


@dataclass(frozen=True)
class Bounds:
    """Fills `in_bounds` and replaces extents that are always the same."""

    name: ClassVar[str] = "bounds"
    requires: ClassVar[Form] = Form.TILE
    gives: ClassVar[Form] = Form.TILE
    early: bool = False
    """Before blocks are chosen: fills `in_bounds` with what is known without them, as prices ask, and says nothing."""

    def run(self, module: Module, context: PassContext) -> Module:
        for function in module.functions:
            if not self.early:
                self._fix_extents(function, context)
            self._prove_accesses(function, context)
        return module

    def _fix_extents(self, function: Function, context: PassContext) -> None:
        facts = facts_of(function)
        known: dict[str, Dim] = {}
        for block in blocks_in(function).values():
            extent = known_extent(block, facts)
            if extent is not None and block.extent is not None:
                known[block.extent] = extent
                if extent == 1:  # divides whatever there is
                    continue
                why = "divides" if block.block.size == extent else "is all of"
                text = f"every block of %{block.argument.name} has {extent} coordinates, which {why} {block.total}"
                context.remark(self.name, block.op.location, text)
        if known:
            substitute_symbols(function, known)

    def _prove_accesses(self, function: Function, context: PassContext) -> None:
        analysis = CoordinateAnalysis(function)
        accesses = [op for op in function.walk() if isinstance(op, (Load, Store, Atomic))]
        proved = 0
        for op in accesses:
            assert isinstance(op.tensor.type, TensorType)
            shape = op.tensor.type.shape
            axes = [
                axis
                for axis, (index, size) in enumerate(zip(op.indices, shape))
                if axis in op.in_bounds or _is_within(index, size, analysis)
            ]
            op.attributes["in_bounds"] = tuple(axes)
            proved += len(axes) == len(shape)
            for axis in () if self.early else sorted(set(range(len(shape))) - set(axes)):
                text = f"axis {axis} of %{op.tensor.name}, of size {shape[axis]}, is checked when the program runs"
                context.remark(self.name, op.location, text)
        if accesses and not self.early:
            text = f"{proved} of {len(accesses)} accesses proved in bounds"
            context.remark(self.name, function.location, text)


def known_extent(block: BlockDefinition, facts: Facts) -> int | None:
    """The extent of every block of an axis, if it is always the same."""
    total = block.total
    if block.block.kind != "fixed" or total is None:
        return None
    if facts.divisible(total, block.block.size):
        return block.block.size
    return total if isinstance(total, int) and 0 < total <= block.block.size else None


def _is_within(index: Index, size: Dim, analysis: CoordinateAnalysis) -> bool:
    match index:
        case Whole():
            return True
        case Slice():
            return analysis.facts.less_equal(0, index.start) and analysis.facts.less_equal(index.stop, size)
        case Value():
            return analysis.within(index, size)

"""Moves out of loops what is the same in every turn (loop-invariant code motion).

    tile.range(%start, %K, [%acc]) ... {           %q = tile.load(%a, [%m, :])
      %q = tile.load(%a, [%m, :])             =>   tile.range(%start, %K, [%acc]) ... {
      ...                                            ...

Before: any TILE form. After: the same form; no loop computes or loads what does not depend on it, except where the
loop writes the tensor, where moving could fault, and for tiles that cost nothing (a broadcast, another shape) unless
what is made of them moves as well. Grids keep what they compute: each program runs on its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir.core import Block, Module, Op, Value
from tiledsl.ir.tile_ops import Broadcast, Extract, For, Load, Range, Reshape, Transpose, While
from tiledsl.ir.verifier import Form
from tiledsl.passes.analysis.effects import tensors_written
from tiledsl.passes.analysis.sizes import blocks_of, is_scalar, symbols_in
from tiledsl.passes.manager import PassContext
from tiledsl.passes.tile.loops.carried_values import Loop


@dataclass(frozen=True)
class HoistLoopInvariants:
    """Moves pure ops and loads to before the loops that they do not depend on."""

    name: ClassVar[str] = "licm"
    requires: ClassVar[Form] = Form.TILE
    gives: ClassVar[Form] = Form.TILE

    def run(self, module: Module, context: PassContext) -> Module:
        for function in module.functions:
            _hoist_in(function.body, self.name, context)
        return module


def _hoist_in(block: Block, name: str, context: PassContext) -> None:
    for op in list(block.ops):
        for body in op.bodies.values():
            _hoist_in(body, name, context)  # the innermost first, so that what leaves one loop can leave the next
        if isinstance(op, (Range, For, While)):
            moved = [inner for body in op.bodies.values() for inner in _movable(op, body)]
            for inner in moved:
                assert inner.parent is not None
                inner.parent.ops.remove(inner)
                block.insert_before(op, inner)
            loads = [f"%{load.tensor.name}" for load in moved if isinstance(load, Load)]
            if loads:
                context.remark(name, op.location, f"loads of {', '.join(loads)} moved out of the loop")


def _movable(loop: Loop, body: Block) -> list[Op]:
    """The ops of a loop's body that can stand before the loop and had better, in order."""
    written = tensors_written([loop])
    extents = {block.extent for block in blocks_of(loop)} if isinstance(loop, Range) else set[str | None]()
    inside: set[Value] = {argument for block in loop.bodies.values() for argument in block.arguments}
    invariant: list[Op] = []
    for op in body.ops:
        depends = any(v in inside for nested in op.walk() for v in nested.operands)
        depends = depends or not symbols_in(op).isdisjoint(extents)
        if depends or not _can_move(op, written):
            inside.update(op.results)
        else:
            invariant.append(op)
    worth: set[Op] = set()
    for op in reversed(invariant):
        # A tile that costs nothing would only occupy registers; it goes along if a user of it goes.
        if not _is_free(op) or not worth.isdisjoint(user for v in op.results for user in v.users):
            worth.add(op)
    return [op for op in invariant if op in worth]


def _can_move(op: Op, written: frozenset[Value]) -> bool:
    """Whether the op may run where it did not: in a loop of no turns, only an extract outside of its tile may fault."""
    if isinstance(op, Load):
        return op.tensor not in written
    if isinstance(op, Extract):
        return not any(isinstance(index, Value) for index in op.indices)
    return op.effect == "pure"


def _is_free(op: Op) -> bool:
    return isinstance(op, (Broadcast, Reshape, Transpose)) and not is_scalar(op.results[0])

"""Moves behind loops what is loaded and computed before them, but needed only behind them.

    %x = tile.load(%r, [%m, %n])                    %acc = tile.range(...) { ... tile.dot ... }
    %acc = tile.range(...) { ... tile.dot ... }  => %x = tile.load(%r, [%m, %n])
    %y = tile.map([%x, %acc]) {fn = add}            %y = tile.map([%x, %acc]) {fn = add}

Before: any TILE form. After: the same form; no tile of a load waits in registers for the end of a loop that does not
read it, which `x + a @ w` means as it is written. Folds stay, and with them what they are of: their results are small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir.core import Block, Module, Op, Value
from tiledsl.ir.tile_ops import Broadcast, Cast, For, Load, Map, Range, Reshape, Transpose, While
from tiledsl.ir.types import TileType
from tiledsl.ir.verifier import Form
from tiledsl.passes.analysis.effects import tensors_written
from tiledsl.passes.manager import PassContext


@dataclass(frozen=True)
class SinkBehindLoops:
    """Moves loads, and what is computed of them alone, to behind the loops that do not need them."""

    name: ClassVar[str] = "sink"
    requires: ClassVar[Form] = Form.TILE
    gives: ClassVar[Form] = Form.TILE

    def run(self, module: Module, context: PassContext) -> Module:
        for function in module.functions:
            for block in [function.body, *(body for op in function.walk() for body in op.bodies.values())]:
                for op in list(block.ops):
                    if isinstance(op, (Range, For, While)):
                        _sink(block, op, self.name, context)
        return module


def _sink(block: Block, loop: Range | For | While, name: str, context: PassContext) -> None:
    moved = _needed_behind(block, loop)
    if not any(isinstance(op, Load) for op in moved):
        return
    for op in moved:
        block.ops.remove(op)
    at = block.ops.index(loop) + 1
    block.ops[at:at] = moved
    for op in moved:
        if isinstance(op, Load):
            context.remark(name, op.location, f"the load of %{op.tensor.name} moved behind the loop")


def _needed_behind(block: Block, loop: Op) -> list[Op]:
    """The ops before a loop that can stand behind it and make no tile wait for them there, in order."""
    before = block.ops[: block.ops.index(loop)]
    written = tensors_written([*before, loop])
    late = [op for op in before if _can_move(op, written)]
    early = {*before, loop} - set(late)
    found = -1
    while found != len(late):  # a turn has the whole of a chain, from behind and from before
        found = len(late)
        for op in reversed(late):
            if any(_top(user, block) in early for value in op.results for user in value.users):
                early.add(op)
        for op in late:
            if any(value.op in early and isinstance(value.type, TileType) and value.shape for value in op.operands):
                early.add(op)
        late = [op for op in late if op not in early]
    return late


def _can_move(op: Op, written: frozenset[Value]) -> bool:
    if isinstance(op, Load):
        return op.tensor not in written and bool(op.result.shape)
    return isinstance(op, (Map, Cast, Broadcast, Reshape, Transpose)) and bool(op.results[0].shape)


def _top(op: Op, block: Block) -> Op:
    """The op of a block that an op is, or stands in."""
    while op.parent is not None and op.parent is not block:
        assert op.parent.parent is not None
        op = op.parent.parent
    return op

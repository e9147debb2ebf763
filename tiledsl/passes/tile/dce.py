"""Takes out what nothing comes of (dead code elimination).

    %s = tile.range(%0, %N, [%a, %b]) ... body(%n, %x, %y) {       %s = tile.range(%0, %N, [%a]) ... body(%n, %x) {
      %x1 = tile.map([%x, %v]) {fn = add}                     =>     %x1 = tile.map([%x, %v]) {fn = add}
      %y1 = tile.map([%y, %v]) {fn = mul}                            tile.yield([%x1])
      tile.yield([%x1, %y1])                                       }

where only the first result is read.

Before: any TILE form. After: the same form; every op writes, prints, checks, or is read by what does. Loops are taken
to end: one without effects whose results are not read goes as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir.core import Block, Function, Module, Op, Value
from tiledsl.ir.tile_ops import Empty, For, If, Range, While
from tiledsl.ir.verifier import Form
from tiledsl.passes.manager import PassContext
from tiledsl.passes.tile.loops.carried_values import Loop, carried_arguments, keep_results, keep_yields, yielded


@dataclass(frozen=True)
class EliminateDeadCode:
    """Marks what is needed, from the effects backwards; sweeps the rest."""

    name: ClassVar[str] = "dce"
    requires: ClassVar[Form] = Form.TILE
    gives: ClassVar[Form] = Form.TILE

    def run(self, module: Module, context: PassContext) -> Module:
        for function in module.functions:
            _Marks(function).sweep(function.body)
        return module


class _Marks:
    """The ops and the carried values that are needed."""

    def __init__(self, function: Function) -> None:
        self.ops: set[Op] = set()
        self.values: set[Value] = set()
        self.pending: list[Value] = []
        for op in function.walk():
            # a new tensor is needed only if it is written or returned
            if (op.effect == "write" and not isinstance(op, Empty)) or (op.effect == "terminator" and not _yields(op)):
                self.need_op(op)
        while self.pending:
            self.need_value(self.pending.pop())

    def need_op(self, op: Op) -> None:
        """The op runs, so it needs its operands, and the ops around it need to run."""
        if op in self.ops:
            return
        self.ops.add(op)
        if isinstance(op, (Range, For, While)):
            # carried values are needed one by one
            self.pending += [
                v for name, f in op.fields.items() if name != "initial" and isinstance(f, Value) for v in [f]
            ]
            if isinstance(op, While):
                self.pending += yielded(op.condition)
        else:
            self.pending += op.operands
            if op.effect != "control":  # a combiner is needed as it is
                for body in op.bodies.values():
                    for inner in body.ops:
                        self.need_op(inner)
        if op.parent is not None and op.parent.parent is not None:
            self.need_op(op.parent.parent)

    def need_value(self, value: Value) -> None:
        if value in self.values:
            return
        self.values.add(value)
        if value.op is not None:
            self.need_op(value.op)
            self.need_result(value.op, value)
            return
        block = value.owner
        loop = block.parent if isinstance(block, Block) else None
        if loop is not None:
            self.need_op(loop)
            if isinstance(loop, (Range, For, While)) and isinstance(block, Block):
                carried = carried_arguments(loop, block)
                if value in carried:
                    self.need_carried(loop, carried.index(value))

    def need_result(self, op: Op, value: Value) -> None:
        position = op.results.index(value)
        if isinstance(op, (Range, For, While)):
            self.need_carried(op, position)
        elif isinstance(op, If):
            self.pending += [yielded(body)[position] for body in op.bodies.values()]

    def need_carried(self, loop: Loop, position: int) -> None:
        """One carried value: where it starts, what becomes of it, and the result."""
        self.pending += [loop.initial[position], yielded(loop.body)[position], loop.results[position]]
        self.pending += [carried_arguments(loop, body)[position] for body in loop.bodies.values()]

    def sweep(self, block: Block) -> None:
        """Takes out what is not needed."""
        for op in reversed(list(block.ops)):
            if op not in self.ops and not _yields(op):
                op.erase()
            elif isinstance(op, (Range, For, While, If)):
                keep = [v in self.values for v in op.results]
                keep_yields(op, keep)
                for body in op.bodies.values():
                    self.sweep(body)
                if not all(keep):
                    keep_results(op, keep)
            elif op.effect == "control":
                for body in op.bodies.values():
                    self.sweep(body)


def _yields(op: Op) -> bool:
    return op.effect == "terminator" and op.parent is not None and op.parent.parent is not None

"""Control flow of TILE: grids, loops, branches, and what ends a block. GPU form has all but grids and ranges."""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.ir.core import InvalidIRError, Op, Value
from tiledsl.ir.dtypes import bool_, i64
from tiledsl.ir.op_fields import (
    blocks_attribute,
    body_field,
    flag_attribute,
    int_attribute,
    operand,
    operands,
)
from tiledsl.ir.type_rules import require, require_scalar_integer, tile_type
from tiledsl.ir.types import AxisType, Type, same_but_level, scalar


class Grid(Op):
    """Parallel programs over the blocks of one or more axes from 0 to `stops`.

    The body's arguments are the blocks: an `axis<m>` that declares the extent symbol `m`, or a plain i64 coordinate
    for an axis whose block is 1. Programs may run in any order, at the same time.
    """

    name = "tile.grid"
    effect = "control"
    stops = operands()
    blocks = blocks_attribute()
    body = body_field()

    def infer_types(self) -> tuple[Type, ...]:
        require(len(self.stops) == len(self.blocks), "one block size per axis")
        require(len(self.body.arguments) == len(self.stops), "one body argument per axis")
        for stop, argument in zip(self.stops, self.body.arguments):
            require_scalar_integer(stop)
            require(
                isinstance(argument.type, AxisType) or argument.type == scalar(i64), "grid arguments are axes or i64"
            )
        return ()


class Range(Op):
    """A sequential loop over the blocks of one axis from `start` to `stop`, carrying `initial` values.

    The body's first argument is the block, as in `tile.grid`; the others are the carried values, whose next values it
    yields.
    """

    name = "tile.range"
    effect = "control"
    start = operand()
    stop = operand()
    initial = operands()
    blocks = blocks_attribute()
    num_stages = int_attribute(default=0)
    """Buffers for pipelining; 0 is not yet chosen."""
    body = body_field()

    def infer_types(self) -> tuple[Type, ...]:
        require_scalar_integer(self.start)
        require_scalar_integer(self.stop)
        require(len(self.blocks) == 1, "a range has one block size")
        require(len(self.body.arguments) == 1 + len(self.initial), "the body takes the block and the carried values")
        return _carried_types(self.initial, self.body.arguments[1:])


class For(Op):
    """A sequential loop over integers from `start` up to (not including) `stop` by `step`, carrying values."""

    name = "tile.for"
    effect = "control"
    start = operand()
    stop = operand()
    step = operand()
    initial = operands()
    body = body_field()

    def infer_types(self) -> tuple[Type, ...]:
        for bound in (self.start, self.stop, self.step):
            require_scalar_integer(bound)
        require(len(self.body.arguments) == 1 + len(self.initial), "the body takes the index and the carried values")
        return _carried_types(self.initial, self.body.arguments[1:])


class While(Op):
    """Repeats `body` while `condition`, a block that takes the carried values and yields one bool, says so."""

    name = "tile.while"
    effect = "control"
    initial = operands()
    condition = body_field()
    body = body_field()

    def infer_types(self) -> tuple[Type, ...]:
        for block in (self.condition, self.body):
            require(len(block.arguments) == len(self.initial), "both blocks take the carried values")
        return _carried_types(self.initial, self.body.arguments)


class If(Op):
    """Runs one of two blocks by a bool scalar; both yield the same types. `rare`: hardly ever the first one, so that no
    plan is chosen for what it does."""

    name = "tile.if"
    effect = "control"
    condition = operand()
    rare = flag_attribute()
    then = body_field()
    otherwise = body_field()

    def infer_types(self) -> tuple[Type, ...]:
        require(tile_type(self.condition) == scalar(bool_), "the condition must be a bool scalar")
        yes, no = self.then.terminator, self.otherwise.terminator
        if yes is None or no is None:
            raise InvalidIRError("both branches end in tile.yield")
        require(len(yes.operands) == len(no.operands), "both branches yield as many values")
        for a, b in zip(yes.operands, no.operands):
            require(same_but_level(a.type, b.type), f"branches yield {a.type} and {b.type}")
        return tuple(v.type for v in yes.operands)


def _carried_types(initial: Sequence[Value], arguments: Sequence[Value]) -> tuple[Type, ...]:
    for before, inside in zip(initial, arguments):
        require(
            same_but_level(before.type, inside.type),
            f"%{inside.name} is carried as {inside.type} but starts as {before.type}",
        )
    return tuple(v.type for v in initial)


class Yield(Op):
    """Ends a nested block with its values."""

    name = "tile.yield"
    effect = "terminator"
    values = operands()

    def infer_types(self) -> tuple[Type, ...]:
        return ()


class Return(Op):
    """Ends a function with the tensors that it gives back."""

    name = "tile.return"
    effect = "terminator"
    values = operands()

    def infer_types(self) -> tuple[Type, ...]:
        return ()

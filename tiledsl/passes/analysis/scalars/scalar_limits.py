"""Between which integers the scalars of a tile program are: where blocks start, sizes, what is computed of them."""

from __future__ import annotations

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Value
from tiledsl.passes.analysis.splats import number_of


def most_of(value: Value) -> int | None:
    """The most that a scalar is, which is not below 0; None where that is not known."""
    match value.op:
        case None if isinstance(around := value.op_around, (ops.Grid, ops.Range)):
            number = around.body.arguments.index(value)
            stops = around.stops if isinstance(around, ops.Grid) else (around.stop,)
            return _less_one(most_of(stops[number])) if number < len(stops) else None
        case ops.Constant() | ops.Size() as op:
            return op.value if isinstance(op.value, int) else None
        case ops.Start(axis=Value(owner=Block(parent=ops.Range() as loop))):
            return _less_one(most_of(loop.stop))
        case ops.Map(fn="mod") as op:
            return _less_one(most_of(op.inputs[1]))
        case ops.Map(fn="sub") as op:
            return most_of(op.inputs[0]) if is_natural(op.inputs[1]) else None
        case ops.Map(fn="add" | "mul" | "floordiv" as fn) as op:
            left, right = most_of(op.inputs[0]), most_of(op.inputs[1])
            if left is None or right is None:
                return None
            return left + right if fn == "add" else left * right if fn == "mul" else left // max(right, 1)
        case _:
            return None


def is_natural(value: Value) -> bool:
    """Whether a scalar is known not to be below 0: where a block starts, a multiple, quotient or rest of such, or a
    number less something that is never more."""
    if isinstance(value.op_around, ops.Grid):
        return True  # the number of a block of one
    number = number_of(value)
    if isinstance(number, int):
        return number >= 0
    op = value.op
    if isinstance(op, (ops.Start, ops.Size)):
        return True
    if isinstance(op, ops.Map) and op.fn == "sub":
        number, most = number_of(op.inputs[0]), most_of(op.inputs[1])
        return isinstance(number, int) and most is not None and most <= number and is_natural(op.inputs[1])
    return isinstance(op, ops.Map) and op.fn in ("mul", "floordiv", "mod", "add") and all(map(is_natural, op.inputs))


def _less_one(number: int | None) -> int | None:
    return None if number is None else number - 1

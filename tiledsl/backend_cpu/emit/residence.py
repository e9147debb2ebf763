"""Decides which tiles of a block are kept in scratch; all others are evaluated where they are read.

x = load a[m, :]           lazy: read twice, but a load from cache costs no more than one from scratch
e = exp(x - max(x))        kept: two loops need it (the sum, the division) and it is expensive
store c[m, :], e / sum(e)  nothing to keep
p = a ** n.index           kept if it is multiplied with x[m, n]: each row of a loop over m and n would compute it

Where a block computes so much that one loop of it would be slow to compile, it is cut: what is made before a cut and
read behind it is kept too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tiledsl.backend_cpu.values.expressions import is_lazy, op_cost
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.types import AxisType, Shape, TensorType, TileType

EXPENSIVE = 4
"""An expression that costs at least this (in vector operations) is not evaluated in two loops."""
SPREAD = 8
"""Nor is one that costs this evaluated for each row of a tile whose rows have it in common."""
LONGEST = 400
"""So much (in vector operations) is computed between two cuts. A place in scratch costs next to nothing beside it."""


@dataclass(frozen=True)
class BlockPlan:
    """What becomes of the lazy tiles of a block."""

    kept: frozenset[Value]
    """The tiles that are to be kept where several loops read them."""
    readers: dict[Value, set[Op]]
    """The ops that end up looping over each value: its users, or theirs where a user is lazy itself."""
    cuts: frozenset[Op]
    """The ops behind which no loop is shared with what comes before."""


def plan_block(block: Block, written: frozenset[Value]) -> BlockPlan:
    """For the lazy ops of this block (not of nested ones); `written` are the tensors that the program stores to."""
    cuts, crossing = _cuts(block)
    kept: set[Value] = set()
    sinks: dict[Value, set[Op]] = {}
    for op in reversed(block.ops):
        for value in op.results:
            sinks[value] = _sinks(value, block, sinks, kept)
            if (
                is_lazy(op)
                and isinstance(value.type, TileType)
                and value.type.shape
                and (value in crossing or _must_keep(op, block, sinks, written))
            ):
                kept.add(value)
    return BlockPlan(frozenset(kept), sinks, cuts)


def _cuts(block: Block) -> tuple[frozenset[Op], set[Value]]:
    """Where a block is cut, and the tiles that are to be kept for what comes behind."""
    cuts: list[Op] = []
    pieces: dict[Op, int] = {}
    weight = 0
    for before, op in zip((None, *block.ops), block.ops):
        cost = max(1, op_cost(op)) if _is_lazy_tile(op) else 0
        if before is not None and weight + cost > LONGEST:
            cuts.append(before)
            weight = 0
        weight += cost
        pieces[op] = len(cuts)
    if not cuts:
        return frozenset(), set()
    crossing = {
        source
        for op in block.ops
        for value in op.results
        if any(pieces.get(user, 0) > pieces[op] for user in value.users)
        for source in _computed(value)
    }
    return frozenset(cuts), crossing


def _is_lazy_tile(op: Op) -> bool:
    return is_lazy(op) and bool(op.results[0].shape)


def _computed(value: Value) -> Iterator[Value]:
    """What has to be kept to have a value again without computing anything."""
    while value.op is not None and _is_lazy_tile(value.op):
        match value.op:
            case ops.Broadcast() | ops.Transpose() | ops.Reshape() | ops.Extract() as op:
                value = op.source
            case ops.Map() | ops.Cast() | ops.Random():
                yield value
                return
            case ops.Load() as op:
                if any(isinstance(i, Value) and not isinstance(i.type, AxisType) and i.shape for i in op.indices):
                    yield value
                return
            case _:
                return


def _sinks(value: Value, block: Block, sinks: dict[Value, set[Op]], kept: set[Value]) -> set[Op]:
    """The ops that end up looping over the value: its users, or theirs where a user is lazy itself."""
    found: set[Op] = set()
    for user in value.users:
        if user.parent is not block or not is_lazy(user) or user.result in kept:
            found.add(user)
        else:
            found |= sinks[user.result]
    return found


def _must_keep(op: Op, block: Block, sinks: dict[Value, set[Op]], written: frozenset[Value]) -> bool:
    users = sinks[op.result]
    if isinstance(op, ops.Load) and op.tensor in written:
        return True  # read it before it changes
    if any(user.parent is not block for user in users) and not _is_free(op):
        # a dot in a loop reads an operand from outside of it in packed form only
        return any(user.parent is not block and not _reads_packed(user, op.result) for user in users)
    if len(users) > 1 and _is_expensive(op):
        return True
    return any(_repeats(user, op.result) for user in op.result.users) and _is_expensive(op, SPREAD)


def _repeats(user: Op, value: Value) -> bool:
    """Whether a loop over what the user makes would evaluate the value again and again: it moves with the innermost
    axis, and not with all others; or it says which rows are read of a tensor, which may go in any order."""
    match user:
        case ops.Broadcast():
            wide, narrow = user.shape, value.shape
            return bool(narrow) and narrow[-1] not in (1, 0) and wide[-1] == narrow[-1] and _axes(wide) > _axes(narrow)
        case ops.Load():
            return value in user.indices and bool(value.shape) and _axes(user.result.shape) > _axes(value.shape)
        case ops.Reshape() | ops.Cast() if is_lazy(user):
            return any(_repeats(further, user.result) for further in user.result.users)
        case _:
            return False


def _axes(shape: Shape) -> int:
    """How many axes of a tile have more than one place."""
    return sum(dim != 1 for dim in shape)


def _reads_packed(user: Op, value: Value) -> bool:
    return isinstance(user, ops.Dot) and value is not user.acc


def _is_free(op: Op) -> bool:
    """Whether evaluating it again costs next to nothing wherever it is."""
    if isinstance(op, (ops.Arange, ops.Coordinates)):
        return True
    return isinstance(op, (ops.Broadcast, ops.Reshape, ops.Transpose)) and _is_free_value(op.source)


def _is_free_value(value: Value) -> bool:
    return not value.shape or (value.op is not None and _is_free(value.op))


def _is_expensive(op: Op, limit: int = EXPENSIVE) -> bool:
    total, stack, seen = 0, [op], {op}
    while stack and total < limit:
        here = stack.pop()
        total += op_cost(here)
        for operand in here.operands:
            source = operand.op
            if (
                source is not None
                and source not in seen
                and is_lazy(source)
                and not isinstance(operand.type, TensorType)
            ):
                seen.add(source)
                stack.append(source)
    return total >= limit

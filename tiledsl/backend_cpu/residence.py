"""Decides which tiles of a block are kept in scratch; all others are evaluated where they are read.

x = load a[m, :]           lazy: read twice, but a load from cache costs no more than one from scratch
e = exp(x - max(x))        kept: two loops need it (the sum, the division) and it is expensive
store c[m, :], e / sum(e)  nothing to keep
"""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.backend_cpu.expressions import is_lazy, op_cost
from tiledsl.backend_cpu.sinks import Keep, Sink
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.types import TensorType, TileType

EXPENSIVE = 4
"""An expression that costs at least this (in vector operations) is not evaluated in two loops."""


def kept_values(block: Block, written: frozenset[Value]) -> frozenset[Value]:
    """The tiles made by lazy ops of this block (not of nested ones) that are to be kept in scratch."""
    kept: set[Value] = set()
    sinks: dict[Value, set[Op]] = {}
    for op in reversed(block.ops):
        for value in op.results:
            sinks[value] = _sinks(value, block, sinks, kept)
            if (
                is_lazy(op)
                and isinstance(value.type, TileType)
                and value.type.shape
                and _must_keep(op, block, sinks, written)
            ):
                kept.add(value)
    return frozenset(kept)


def _sinks(value: Value, block: Block, sinks: dict[Value, set[Op]], kept: set[Value]) -> set[Op]:
    """The ops that end up looping over the value: its users, or theirs where a user is lazy itself."""
    found: set[Op] = set()
    for user in value.users:
        if user.parent is not block or not is_lazy(user) or user.result in kept:
            found.add(user)
        else:
            found |= sinks[user.result]
    return found


def all_read(value: Value, sinks: Sequence[Sink]) -> bool:
    """Whether these sinks are all that reads a value: nothing else would find it missing."""
    readers = {sink.reader for sink in sinks}
    copied = {sink.value for sink in sinks if isinstance(sink, Keep)}
    pending, seen = [value], {value}
    while pending:
        for user in pending.pop().users:
            if user in readers or (len(user.results) == 1 and user.results[0] in copied):
                continue
            if user.parent is not _block_of(value) or not is_lazy(user) or not user.result.shape:
                return False
            if user.result not in seen:
                seen.add(user.result)
                pending.append(user.result)
    return True


def _block_of(value: Value) -> Block | None:
    return value.op.parent if value.op is not None else None


def _must_keep(op: Op, block: Block, sinks: dict[Value, set[Op]], written: frozenset[Value]) -> bool:
    users = sinks[op.result]
    if isinstance(op, ops.Load) and op.tensor in written:
        return True  # read it before it changes
    if any(user.parent is not block for user in users) and not _is_free(op):
        # a dot in a loop reads an operand from outside of it in packed form only
        return any(user.parent is not block and not _reads_packed(user, op.result) for user in users)
    return len(users) > 1 and _cost(op) >= EXPENSIVE


def _reads_packed(user: Op, value: Value) -> bool:
    return isinstance(user, ops.Dot) and value is not user.acc


def _is_free(op: Op) -> bool:
    """Whether evaluating it again costs next to nothing wherever it is."""
    if isinstance(op, (ops.Arange, ops.Coordinates)):
        return True
    return isinstance(op, (ops.Broadcast, ops.Reshape, ops.Transpose)) and _is_free_value(op.source)


def _is_free_value(value: Value) -> bool:
    return not value.shape or (value.op is not None and _is_free(value.op))


def _cost(op: Op) -> int:
    total, stack, seen = 0, [op], {op}
    while stack:
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
    return total

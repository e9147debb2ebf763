"""Loads of a loop that could be made before the turn that wants them: what they read does not change, and where, is
known from the number of the turn.

    for t in tile.range(T, block=1):
        h = a[t, m] * h + x[t, m]         # both
        y[t, m] = table[to_index(h)]      # not `table`: where depends on what is carried
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from tiledsl.ir.core import Block, Op, Value


def early_loads(
    body: Block, carried: Iterable[Value], written: Set[Value], loads: tuple[type[Op], ...], late: tuple[type[Op], ...]
) -> list[Op]:
    """Those of the body, each behind what it is subscripted by. `written`: tensors that may change meanwhile; `loads`:
    the kinds of ops that read tensors, and `late` of those that are no better done early."""
    waiting = set(carried)
    for op in body.ops:
        ready = op.effect == "pure" and not isinstance(op, late)
        ready = ready or (isinstance(op, loads) and op.fields["tensor"] not in written)
        if not ready or op.bodies or any(value in waiting for value in op.operands):
            waiting.update(op.results)
    needed: set[Op] = set()
    for op in reversed(body.ops):
        first = isinstance(op, loads) and not any(value in waiting for value in op.results)
        if first or op in needed:
            needed.add(op)
            needed.update(value.op for value in op.operands if value.op is not None and value.op.parent is body)
    return [op for op in body.ops if op in needed]


def depends_on(op: Op, argument: Value) -> bool:
    """Whether an op of a body takes one of the body's arguments, or what is made of it there."""
    work, seen = list(op.operands), set[Value]()
    while work:
        value = work.pop()
        if value is argument:
            return True
        if value not in seen and value.op is not None and value.op.parent is argument.owner:
            seen.add(value)
            work += value.op.operands
    return False

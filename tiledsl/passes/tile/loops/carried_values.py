"""Changes what loops carry and what branches give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.tile_ops import For, If, Range, While, Yield

Loop: TypeAlias = "Range | For | While"


def carried_arguments(loop: Loop, body: Block) -> list[Value]:
    """The arguments of one of the loop's bodies that are carried values."""
    return body.arguments if isinstance(loop, While) else body.arguments[1:]


def yielded(body: Block) -> tuple[Value, ...]:
    """What a body yields; nothing if it has no yield."""
    return body.terminator.operands if isinstance(body.terminator, Yield) else ()


def keep_yields(op: Loop | If, keep: Sequence[bool]) -> None:
    """Lets the bodies of the op yield only the values to keep: the first half of `keep_results`."""
    for name, body in op.bodies.items():
        last = body.terminator
        if isinstance(last, Yield) and not (isinstance(op, While) and name == "condition"):
            last.set_field("values", tuple(v for v, kept in zip(last.values, keep) if kept))


def keep_results(op: Loop | If, keep: Sequence[bool]) -> Op:
    """Replaces the op, after `keep_yields`, by one that carries or gives only the values to keep.

    The results that go, and the arguments of bodies that stand for them, must have no users any more.
    """
    fields: dict[str, Any] = {**op.fields, **op.attributes, **op.bodies}
    if not isinstance(op, If):
        fields["initial"] = tuple(v for v, kept in zip(op.initial, keep) if kept)
        for body in op.bodies.values():
            carried = carried_arguments(op, body)
            for argument, kept in zip(carried, keep):
                assert kept or not argument.users, f"%{argument.name} is still used"
            first = len(body.arguments) - len(carried)
            body.arguments[first:] = [argument for argument, kept in zip(carried, keep) if kept]
    results = [v for v, kept in zip(op.results, keep) if kept]
    assert op.parent is not None
    copy = type(op)(op.location, types=[v.type for v in results], result_names=[v.name for v in results], **fields)
    op.parent.insert_before(op, copy)
    for old, new in zip(results, copy.results):
        old.replace_with(new)
    op.bodies.clear()  # they belong to the copy now
    op.erase()
    return copy

"""Which floats of 32 bits come to nothing but narrower ones, so that code for them is as precise as those are."""

from __future__ import annotations

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.dtypes import DType
from tiledsl.ir.type_rules import tensor_type

_PASSED_ON = (ops.Map, ops.Reduce, ops.Scan, ops.Broadcast, ops.Reshape, ops.Transpose)


def accurate_values(body: Block) -> frozenset[Value]:
    """The values of a block that more is made of than floats of 16 bits or fewer: what the code for their functions may
    be off by."""
    work = [value for op in body.walk() for value in op.operands if _keeps(op, value)]
    found = set(work)
    while work:
        for source in _sources(work.pop()):
            if source not in found:
                found.add(source)
                work.append(source)
    return frozenset(found)


def _keeps(user: Op, value: Value) -> bool:
    """Whether an op makes more of a value than a narrow float."""
    match user:
        case ops.Cast():
            return not user.dtype.is_float or user.dtype.bits > 16
        case ops.Store() | ops.Atomic():
            return value is user.value and not _is_narrow(tensor_type(user.tensor).dtype)
        case ops.Map():
            return not user.result.dtype.is_float
        case ops.Dot():
            return not _is_narrow(user.dtype)
        case ops.Yield():
            return user.parent is None or not isinstance(user.parent.parent, (ops.Range, ops.If))
        case _:
            return not isinstance(user, (*_PASSED_ON, ops.Range, ops.If))


def _is_narrow(dtype: DType) -> bool:
    return dtype.is_float and dtype.bits <= 16


def _sources(value: Value) -> list[Value]:
    """What a value is made of; nothing for a conversion, which rounds anew."""
    op = value.op
    if op is None:
        around = value.op_around
        return list(around.operands) if isinstance(around, ops.Range) else []
    if isinstance(op, ops.Cast):
        return []
    ends = [end for body in op.bodies.values() for end in body.ops[-1:] if isinstance(end, ops.Yield)]
    return [*op.operands, *(yielded for end in ends for yielded in end.operands)]

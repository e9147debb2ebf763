"""What operands of products are computed of: the loads that elementwise ops turn into them.

%x = tile.load(%X, [%m, %k])                    %left is computed of %x, whose axes run along both of its own,
%g = tile.load(%G, [%k])                        and of %g, whose only axis runs along its second one
%left = tile.map([%x, broadcast(%g)])
%acc = tile.dot(%left, %b, %acc)
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.types import Shape


@dataclass(frozen=True)
class Source:
    """A load that an operand is computed of. `axes`: for each axis of the operand the axis of the load that runs along
    it, or -1 where what is loaded is the same all along."""

    load: ops.Load
    axes: tuple[int, ...]


def sources_of(operand: Value) -> tuple[Source, ...]:
    """The loads of an operand, in the order in which they are met; none for what no elementwise ops lead to."""
    found: dict[ops.Load, Source] = {}
    for value, axes in elementwise_inputs(operand):
        if isinstance(value.op, ops.Load) and value.op not in found:
            found[value.op] = Source(value.op, axes)
    return tuple(found.values())


def elementwise_inputs(operand: Value) -> Iterator[tuple[Value, tuple[int, ...]]]:
    """The operand and all tiles that elementwise ops make it of, each with the axes of it that run along the operand's
    (see `Source`)."""
    work: list[tuple[Value, tuple[int, ...]]] = [(operand, tuple(range(len(operand.shape))))]
    seen: set[Value] = set()
    while work:
        value, axes = work.pop()
        if value in seen:
            continue
        seen.add(value)
        yield value, axes
        match value.op:
            case ops.Map() as op:
                work += [(v, axes) for v in reversed(op.inputs) if v.shape]  # the first one first
            case ops.Cast() as op:
                work.append((op.source, axes))
            case ops.Transpose() as op:
                work.append((op.source, tuple(axis if axis < 0 else op.permutation[axis] for axis in axes)))
            case ops.Broadcast() as op if op.source.shape:
                work.append((op.source, _before_broadcast(op, axes)))
            case ops.Reshape() as op if op.source.shape:
                before = _before_reshape(op.source.shape, op.result.shape, axes)
                if before is not None:
                    work.append((op.source, before))
            case _:
                pass


def _before_broadcast(op: ops.Broadcast, axes: Sequence[int]) -> tuple[int, ...]:
    new = len(op.result.shape) - len(op.source.shape)

    def before(axis: int) -> int:
        if axis < new or (op.source.shape[axis - new] == 1 and op.result.shape[axis] != 1):
            return -1
        return axis - new

    return tuple(-1 if axis < 0 else before(axis) for axis in axes)


def _before_reshape(source: Shape, target: Shape, axes: Sequence[int]) -> tuple[int, ...] | None:
    """The same before a reshape that adds or drops axes of size 1; None for others."""
    long = [axis for axis, dim in enumerate(source) if dim != 1]
    targets = [axis for axis, dim in enumerate(target) if dim != 1]
    if [source[axis] for axis in long] != [target[axis] for axis in targets]:
        return None
    to = dict(zip(targets, long))
    return tuple(to.get(axis, -1) for axis in axes)


def depends_on(value: Value, body: Block, reached: Container[Op | Value]) -> bool:
    """Whether a value of a block is made of any of these, by ops of the block."""
    work, seen = [value], {value}
    while work:
        here = work.pop()
        op = here.op
        if here in reached or (op is not None and op in reached):
            return True
        if op is None or op.parent is not body:
            continue
        inner = [v for block in op.bodies.values() for one in block.walk() for v in one.operands]
        for before in (*op.operands, *inner):
            if before not in seen:
                seen.add(before)
                work.append(before)
    return False


def are_independent(dots: Sequence[ops.Dot], body: Block) -> bool:
    """Whether no product of a block takes, within one turn, what another one of it gave."""
    others = set[Op](dots)
    return not any(depends_on(v, body, others - {dot}) for dot in dots for v in dot.operands)

"""Gives the turns of a loop in which no mask does anything a loop of their own, without masks.

    for %n in 1 ... %turns {                               %clean = the number of the first turn that is masked
      %size = minimum(%stop - 64 * %n, 64)                 for %n in 1 ... %clean { %total = reduce(%scores) }
      %limit = minimum(%row, %size - 1)           =>       for %n in %clean ... %turns {
      %seen = where(%column <= %limit, %scores, -inf)        ... as before
      %total = reduce(%seen)                               }
    }

Masks are `tile.where` of a comparison of integers that holds in the first turns, if at all, and `gpu.pad` of a block
that is whole in all turns but the last ones. A comparison that holds from some turn on (the far end of a window) is
left to a third loop, of the turns before, unless it holds in all turns. What depends on data stays where it is. Only
loops that multiply are worth twice the code.

Before and after: GPU form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Module, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.gpu.async_ops import Wgmma
from tiledsl.ir.types import Shape
from tiledsl.ir.verifier import Form
from tiledsl.passes.analysis.sizes import constant_of
from tiledsl.passes.gpu.transforms.turn_bounds import Bound, Sum, TurnBounds
from tiledsl.passes.manager import PassContext

_COMPARED = (
    *(ops.Map, ops.Cast, ops.Broadcast, ops.Reshape, ops.Transpose),
    *(ops.Constant, ops.Size, gpu.Arange, gpu.Convert),
)
"""What is nothing but the way to a mask, once nobody reads it."""


@dataclass(frozen=True)
class PeelMasks:
    """Loops that multiply by `wgmma`, and have masks. `warps`: those by `mma.sync` too, whose code grows by half; what
    they gain is not measured."""

    name: ClassVar[str] = "peel-masks"
    requires: ClassVar[Form] = Form.GPU
    gives: ClassVar[Form] = Form.GPU
    warps: bool = False

    def run(self, module: Module, context: PassContext) -> Module:
        products = (gpu.Mma, Wgmma) if self.warps else Wgmma
        for op in list(module.walk()):
            if isinstance(op, ops.For) and any(isinstance(inner, products) for inner in op.body.ops):
                _peel(op)
        return module


@dataclass(frozen=True)
class _Masks:
    """What a loop does in all turns, and would not have to in the first ones: those in which no sum is positive."""

    wheres: tuple[ops.Map, ...]
    extents: tuple[ops.Map, ...]
    """Of blocks: each is `minimum(left, room)`, and `room` where its block is whole."""
    sums: tuple[Sum, ...]


def _peel(loop: ops.For) -> None:
    if constant_of(loop.step) != 1 or loop.body.arguments[0].dtype != i64:
        return
    _begin_late(loop)
    masks = _masks_of(loop)
    if not masks.sums:
        return
    before = Builder(Block(), loop.location)
    copies: dict[Value, Value] = {}
    body = _first_turns(before, loop, _clean_stop(before, loop, masks.sums), copies)
    for where in masks.wheres:
        seen = where.inputs[1]
        copies[where.result].replace_with(copies.get(seen, seen))
    for extent in masks.extents:
        _make_whole(body, copies[extent.result])
    _erase_unused(body)


def _first_turns(before: Builder, loop: ops.For, stop: Value, copies: dict[Value, Value]) -> Block:
    """Gives the turns up to number `stop`, which `before` computes, a loop of their own; its body. `copies` gets its
    values, by those of the loop."""
    assert loop.parent is not None
    body = loop.body.clone(copies)
    first = before.emit(
        ops.For, types=[result.type for result in loop.results], result_names=[result.name for result in loop.results],
        start=loop.start, stop=stop, step=loop.step, initial=loop.initial, body=body,
    )  # fmt: skip
    for op in before.block.ops:
        loop.parent.insert_before(loop, op)
    loop.set_field("start", stop)
    loop.set_field("initial", first.results)
    return body


def _begin_late(loop: ops.For) -> None:
    """Leaves the comparisons of masks that hold from some turn on to a loop of the turns before; the loop itself begins
    behind these. Where they hold in all turns, they are left out."""
    bounds, first = TurnBounds(loop), constant_of(loop.start)
    if first is None:
        return
    late: list[Sum] = []
    for op in loop.body.ops:
        if isinstance(op, ops.Map) and op.fn == "where" and op.result.shape:
            late += [one for one in _late_sums(bounds, op.inputs[0], first) if one not in late]
    if late:
        before = Builder(Block(), loop.location)
        _first_turns(before, loop, _late_start(before, loop, late), {})

    def holds(value: Value) -> bool:
        found = bounds.unless_positive(value) if value.shape else None
        return found is not None and all(one in late or bounds.is_never_positive(one, first) for one in found)

    for op in [op for op in loop.body.ops if isinstance(op, ops.Map) and op.fn in ("and", "where")]:
        if op.fn == "and":
            others = [other for one, other in zip(op.inputs, op.inputs[::-1]) if holds(one)]
            if others:
                op.result.replace_with(others[0])
        elif op.inputs[1].type == op.result.type and holds(op.inputs[0]):
            op.result.replace_with(op.inputs[1])
    _erase_unused(loop.body)


def _late_sums(bounds: TurnBounds, condition: Value, first: int) -> list[Sum]:
    """The sums of which none is positive from some turn on, so that comparisons of a condition hold; none where nothing
    is known of one of its comparisons."""
    found: list[Sum] = []
    for compared in _anded(condition):
        bound = bounds.unless_positive(compared)
        if bound is None:
            return []
        left = [one for one in bound if not bounds.is_never_positive(one, first)]
        found += left if all(one.turns < 0 for one in left) else []
    return found


def _anded(condition: Value) -> list[Value]:
    op = condition.op
    if isinstance(op, ops.Map) and op.fn == "and":
        return [one for value in op.inputs for one in _anded(value)]
    return [condition]


def _erase_unused(body: Block) -> None:
    for op in reversed(list(body.ops)):
        if isinstance(op, _COMPARED) and not op.result.users:
            op.erase()


def _masks_of(loop: ops.For) -> _Masks:
    bounds = TurnBounds(loop)
    wheres: list[ops.Map] = []
    sums: list[Sum] = []
    for op in loop.body.ops:
        found: list[Sum] = []
        if isinstance(op, ops.Map) and op.fn == "where" and op.result.shape and op.inputs[1].type == op.result.type:
            found = _growing(bounds.unless_positive(op.inputs[0]))
            wheres += [op] if found else []
        elif isinstance(op, gpu.Pad):
            found = [one for extent in op.extents for one in _short(bounds, extent)]
        sums += [one for one in found if one not in sums]
    short = {op: _short(bounds, op.result) for op in loop.body.ops if isinstance(op, ops.Map)}
    extents = [op for op, found in short.items() if found and all(one in sums for one in found)]
    return _Masks(tuple(wheres), tuple(extents), tuple(sums))


def _growing(bound: Bound | None) -> list[Sum]:
    """The sums of a bound that grow from turn to turn; none if others of it may be positive."""
    growing = [one for one in bound or () if one.turns > 0]
    others = [one for one in bound or () if one.turns <= 0]
    return growing if all(one.is_constant and one.constant <= 0 for one in others) else []


def _short(bounds: TurnBounds, extent: Value) -> list[Sum]:
    """Sums of which none is positive in the first turns, where the extent of a block is all that there is room for."""
    room = _room(extent)
    if room is None:
        return []
    assert isinstance(extent.op, ops.Map)
    return _growing(bounds.shortfall(next(v for v in extent.op.inputs if constant_of(v) is None), room))


def _room(extent: Value) -> int | None:
    """What an extent is at most: the number in `minimum(left, number)`; None if it is nothing such."""
    op = extent.op
    if not isinstance(op, ops.Map) or op.fn != "minimum" or extent.shape or extent.dtype != i64:
        return None
    numbers = [constant_of(value) for value in op.inputs]
    return next((n for n in numbers if n is not None), None) if None in numbers else None


def _clean_stop(builder: Builder, loop: ops.For, sums: tuple[Sum, ...]) -> Value:
    """The number of the first turn in which one of the sums is positive, if that is in the loop; else its end."""
    stop: Value = loop.stop
    for one in sums:
        room = _added_scalars(builder, one, -1)  # what is left for the turns before
        turns = builder.map("floordiv", room, builder.constant(one.turns, i64))
        stop = builder.map("minimum", stop, builder.map("add", turns, builder.constant(1, i64)))
    return builder.map("maximum", stop, loop.start)


def _late_start(builder: Builder, loop: ops.For, sums: list[Sum]) -> Value:
    """The number of the first turn from which on none of the sums is positive, if that is in the loop; else its end."""
    start: Value = loop.start
    for one in sums:
        room = _added_scalars(builder, one.plus(Sum(-one.turns - 1)), 1)
        turns = builder.map("floordiv", room, builder.constant(-one.turns, i64))
        start = builder.map("maximum", start, turns)
    return builder.map("minimum", start, loop.stop)


def _added_scalars(builder: Builder, one: Sum, sign: int) -> Value:
    """A sum without its turns, or what it lacks of 0."""
    total = builder.constant(sign * one.constant, i64)
    for value, times in one.scalars.items():
        scalar = builder.size(value.op.value) if isinstance(value.op, ops.Size) else builder.cast(value, i64)
        product = scalar if abs(times) == 1 else builder.map("mul", scalar, builder.constant(abs(times), i64))
        total = builder.map("add" if sign * times > 0 else "sub", total, product)
    return total


def _make_whole(body: Block, extent: Value) -> None:
    """Puts its number in the place of an extent, and takes out what it masked."""
    room = _room(extent)
    assert room is not None
    assert extent.op is not None
    number = ops.Constant(extent.op.location, value=room, dtype=i64)
    body.insert_before(extent.op, number)
    users = list(extent.users)
    extent.replace_with(number.result)
    for user in users:
        match user:
            case gpu.Pad():
                _keep_short(user, "axes", user.source.shape)
                if not user.extents:
                    user.result.replace_with(user.source)
                    user.erase()
            case gpu.Load() | gpu.Copy():
                _keep_short(user, "masked", user.shape)
            case gpu.Store() | gpu.Atomic():
                _keep_short(user, "masked", user.value.shape)
            case _:
                pass


def _keep_short(op: gpu.Pad | gpu.Load | gpu.Copy | gpu.Store | gpu.Atomic, along: str, shape: Shape) -> None:
    """Leaves an op the extents that are less than its tile has room for. `along`: the attribute with their axes."""
    axes: tuple[int, ...] = op.attributes[along]
    kept = [(axis, extent) for axis, extent in zip(axes, op.extents) if constant_of(extent) != shape[axis]]
    op.set_field("extents", tuple(extent for _, extent in kept))
    op.attributes[along] = tuple(axis for axis, _ in kept)

"""How many tiles of a straight run of ops are wanted at the same time: what threads hold in registers, if nothing of it
is computed again.

    %a = load; %b = load; %c = map(%a, %b); store %c          2, behind the second load
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.tile_ops import Broadcast, Stack
from tiledsl.ir.types import Shape, TileType

TileKind = tuple[Shape, int]
"""A shape, and the bytes of an element."""


def live_tiles(block: Block) -> Counter[TileKind]:
    """The tiles that are there behind the op of a block where they are the most: of each kind how many. What is used in
    a body of an op is used by that op; what is broadcast is made where it is wanted."""
    last = _last_uses(block)
    now, most = Counter[TileKind](), Counter[TileKind]()
    number = largest = 0
    ends: dict[int, list[Value]] = {}
    for value, place in last.items():
        ends.setdefault(place, []).append(value)
    for place, op in enumerate(block.ops):
        for value in ends.get(place, ()):
            now[_kind(value)] -= 1
            number -= 1
        for value in op.results:
            if value in last:
                now[_kind(value)] += 1
                number += 1
        if number > largest:
            largest, most = number, +now
    return most


def number_of_live_tiles(ops: Sequence[Op]) -> int:
    """How many tiles are there at most, of those that the ops make, if they ran in this order."""
    places = {op: place for place, op in enumerate(ops)}
    changes = [0] * (len(ops) + 1)
    for place, op in enumerate(ops):
        for value in op.results:
            if _is_held(value):
                changes[place] += 1
                changes[max((places[user] for user in value.users if user in places), default=place + 1)] -= 1
    number = most = 0
    for change in changes:
        number += change
        most = max(most, number)
    return most


def _last_uses(block: Block) -> dict[Value, int]:
    """Where the tiles of a block are used last, by the number of the op."""
    last: dict[Value, int] = {}
    for place, op in enumerate(block.ops):
        for inner in op.walk() if op.bodies else (op,):
            for value in inner.operands:
                if _is_held(value) and value.op is not None and value.op.parent is block:
                    last[value] = place
    return last


def _is_held(value: Value) -> bool:
    return isinstance(value.type, TileType) and bool(value.type.shape) and not isinstance(value.op, (Broadcast, Stack))


def _kind(value: Value) -> TileKind:
    return value.shape, value.dtype.bytes

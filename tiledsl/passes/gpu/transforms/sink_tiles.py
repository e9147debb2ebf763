"""Tiles that nobody wants before a fold are computed behind it, if what they are made of is wanted there anyway.

    %p = tile.map([%far]) {fn = exp}
    %top = gpu.reduce([%y_1], %scratch)           %top = gpu.reduce([%y_1], %scratch)
    ...                                    =>     ...
    %near = tile.map([%far, %q]) {fn = sub}       %p = tile.map([%far]) {fn = exp}
    %r = tile.map([%p, %near]) {fn = mul}         %near = tile.map([%far, %q]) {fn = sub}
                                                  %r = tile.map([%p, %near]) {fn = mul}

Where threads meet, all that is wanted later is held in registers, and rows are held by as few threads as have room for
them: a tile less is often another block on a multiprocessor, which loads while this one computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir.core import Block, Module, Op, Value
from tiledsl.ir.gpu.async_ops import Role
from tiledsl.ir.gpu.gpu_ops import Launch, Reduce, Scan, Sort
from tiledsl.ir.tile_ops import Cast, Map
from tiledsl.ir.types import TileType
from tiledsl.ir.verifier import Form
from tiledsl.passes.manager import PassContext

FEW = 16
"""Registers of a thread that a tile may take anywhere."""


@dataclass(frozen=True)
class SinkTiles:
    """In launches whose threads all do the same."""

    name: ClassVar[str] = "sink-tiles"
    requires: ClassVar[Form] = Form.GPU
    gives: ClassVar[Form] = Form.GPU

    def run(self, module: Module, context: PassContext) -> Module:
        for op in list(module.walk()):
            if isinstance(op, Launch) and not any(isinstance(o, Role) for o in op.walk()):
                _sink(op.body)
        return module


def _sink(block: Block) -> None:
    places = {op: number for number, op in enumerate(block.ops)}
    folds = [number for op, number in places.items() if isinstance(op, (Reduce, Scan, Sort))]
    for op in reversed(list(block.ops)):
        if not isinstance(op, (Map, Cast)) or _words(op.result) <= FEW:
            continue
        users = [places.get(user) for user in op.result.users]
        first = min((place for place in users if place is not None), default=-1)
        last = max((fold for fold in folds if places[op] < fold < first), default=None)
        if None in users or last is None:
            continue
        if all(_is_wanted(value, last, op, places) for value in op.operands):
            user = next(o for o, place in places.items() if place == first)
            del block.ops[block.index(op)]
            block.insert_before(user, op)
            places[op] = first  # in front of it: what it is made of goes no further than that


def _is_wanted(value: Value, fold: int, op: Op, places: dict[Op, int]) -> bool:
    """Whether a value takes little room, or is wanted behind a fold by others than an op."""
    if _words(value) <= FEW:
        return True
    return any(places.get(user, -1) > fold for user in value.users if user is not op)


def _words(value: Value) -> int:
    """Registers of a thread."""
    if not isinstance(value.type, TileType) or not value.shape or value.type.level != "register":
        return 0
    return -(-value.layout.slots * value.dtype.bytes // 4)

"""Gives every tile a memory level.

    %at = tile.load(%a, [%m, %k]) : tile<f32, [m, k]>          ... : tile<f32, [m, k], shared>
    %bt = tile.load(%b, [%k, %n]) : tile<f32, [k, n]>     =>   ... : tile<f32, [k, n], shared>
    %c1 = tile.dot(%at, %bt, %c) : tile<f32, [m, n]>           ... : tile<f32, [m, n], register>

Before: form `tile`. After: form `tile-placed`. Operands of a dot that come from memory, directly or transposed, are
`shared`: each element is read many times. All else is in `register`. A level that the program gives is a contract: it
is kept, and noted where another would be the usual one. A carried value stays at the level at which it starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir.core import Function, Module, Op, Value
from tiledsl.ir.tile_ops import Dot, For, Load, Range, Transpose, While
from tiledsl.ir.types import Level, TileType
from tiledsl.ir.verifier import Form
from tiledsl.passes.manager import PassContext
from tiledsl.passes.tile.loops.carried_values import carried_arguments
from tiledsl.support.errors import fail
from tiledsl.support.location import Location


@dataclass(frozen=True)
class PlaceLevels:
    """Chooses between `register` and `shared` for each tile that has no level. Raises TileResourceError where a given
    level cannot be kept: on a scalar.
    """

    name: ClassVar[str] = "place-levels"
    requires: ClassVar[Form] = Form.TILE
    gives: ClassVar[Form] = Form.TILE_PLACED

    def run(self, module: Module, context: PassContext) -> Module:
        for function in module.functions:
            self._check_given(function, context)
            for op in function.walk():
                self._place(op, context)
        return module

    def _check_given(self, function: Function, context: PassContext) -> None:
        for value, location in _tiles(function):
            level = value.tile.level
            if level is None:
                continue
            if not value.shape:
                fail("pass-level-scalar", location, value=_named(value), level=level)
            usual = usual_level(value)
            if level != usual:
                reason = "an operand of a dot" if usual == "shared" else "no operand of a dot"
                text = f"{_named(value)} stays {level} as asked; {reason} is usually in {usual}"
                context.remark(self.name, location, text)

    def _place(self, op: Op, context: PassContext) -> None:
        if isinstance(op, (Range, For, While)):
            for body in op.bodies.values():
                for initial, argument, result in zip(op.initial, carried_arguments(op, body), op.results):
                    _keep_level(initial, argument)
                    _keep_level(initial, result)
        for value in op.results:
            if isinstance(value.type, TileType) and value.shape and value.type.level is None:
                level = usual_level(value)
                _set_level(value, level)
                if level == "shared" and isinstance(op, Load):
                    context.remark(self.name, op.location, f"{_named(value)} is shared: an operand of a dot")
        for body in op.bodies.values():
            for argument in body.arguments:
                _set_level(argument, "register")


def usual_level(value: Value) -> Level:
    """Where a tile goes unless the program says otherwise."""
    return "shared" if _comes_from_memory(value) and _goes_to_dot(value) else "register"


def _comes_from_memory(value: Value) -> bool:
    op = value.op
    return isinstance(op, Load) or (isinstance(op, Transpose) and _comes_from_memory(op.source))


def _goes_to_dot(value: Value) -> bool:
    return any(
        (isinstance(user, Dot) and value in (user.a, user.b))
        or (isinstance(user, Transpose) and _goes_to_dot(user.result))
        for user in value.users
    )


def _set_level(value: Value, level: Level) -> None:
    if isinstance(value.type, TileType) and value.type.shape and value.type.level is None:
        value.type = TileType(value.type.dtype, value.type.shape, level)


def _named(value: Value) -> str:
    """The source text that made a value where there is any, else its name in the IR."""
    text = value.op.location.source if value.op is not None else ""
    return f"`{text}`" if text else f"%{value.name}"


def _keep_level(before: Value, after: Value) -> None:
    if isinstance(before.type, TileType) and before.type.level is not None:
        _set_level(after, before.type.level)


def _tiles(function: Function) -> Iterator[tuple[Value, Location]]:
    """Every tile and scalar of a function, with a place to point at."""
    for op in function.walk():
        arguments = [argument for body in op.bodies.values() for argument in body.arguments]
        for value in (*op.results, *arguments):
            if isinstance(value.type, TileType):
                yield value, op.location

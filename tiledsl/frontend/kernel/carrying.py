"""The variables that a loop carries from one turn to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from tiledsl.frontend.kernel.frame import Frame
from tiledsl.frontend.language.promotion import Strength
from tiledsl.frontend.source.jumps import printable_name
from tiledsl.frontend.words.merging import is_number, is_same, join, leaves, rebuild
from tiledsl.frontend.words.operands import coerce, shape_of, strength_of
from tiledsl.frontend.words.values import FrontValue, Operand, Tile, Undefined, describe
from tiledsl.ir.core import Block, Value
from tiledsl.ir.tile_ops import Yield
from tiledsl.ir.types import Shape, TileType, Type, format_shape
from tiledsl.support.errors import Label, fail
from tiledsl.support.location import Location


@dataclass
class CarriedVariable:
    """A variable that lived before the loop and is assigned in it. `strengths` are the dtypes of its leaves."""

    name: str
    entry: FrontValue
    entered_at: Location
    strengths: list[Strength]


class Carried:
    """All carried variables of one loop. A loop is lowered again while `widened` finds a dtype that has to change:

    acc = 0.0; for ...: acc = acc + tile.sum(x)      # acc becomes an f32 scalar
    """

    def __init__(self, frame: Frame, assigned: Sequence[str], at: Location) -> None:
        self.frame = frame
        self.at = at
        self.variables: list[CarriedVariable] = []
        self.fixed: dict[str, FrontValue] = {}
        self.local: list[str] = []
        for name in assigned:
            value = frame.scope.get(name)
            if value is None or isinstance(value, Undefined):
                self.local.append(name)
            elif all(map(is_number, leaves(value))):
                strengths = [strength_of(self._operand(leaf, name)) for leaf in leaves(value)]
                entered_at = frame.assigned.get(name, frame.source.definition)
                self.variables.append(CarriedVariable(name, value, entered_at, strengths))
            else:
                self.fixed[name] = value

    def _operand(self, value: FrontValue, name: str) -> Operand:
        return Operand(value, name, self.at)

    def arguments(self) -> list[tuple[Type, str]]:
        """The types and names of the body's carried arguments."""
        found: list[tuple[Type, str]] = []
        for variable in self.variables:
            for leaf, strength in zip(leaves(variable.entry), variable.strengths):
                shape = shape_of(self._operand(leaf, variable.name))
                found.append((TileType(strength.dtype, shape), printable_name(variable.name)))
        return found

    def initial(self) -> list[Value]:
        """The values before the loop, emitted where the builder stands."""
        return [value for variable in self.variables for value in self._coerced(variable, variable.entry)]

    def bind(self, values: Sequence[Value]) -> None:
        """Gives the variables the values of arguments, or of results."""
        rest = iter(values)
        for variable in self.variables:
            tiles: Iterator[FrontValue] = iter([Tile(next(rest), s.weak) for s in variable.strengths])
            self.frame.scope[variable.name] = rebuild(variable.entry, tiles)

    def widened(self) -> bool:
        """After the body: whether a dtype had to change, so that the body must be lowered again.

        Raises TileTypeError or TileShapeError for a variable that changed its type or kind in the body.
        """
        changed = False
        for name, value in self.fixed.items():
            if not is_same(self.frame.low, value, self.frame.scope[name]):
                self._fail(name, value, self.frame.assigned.get(name))
        for variable in self.variables:
            changed |= self._widen(variable)
        return changed

    def _widen(self, variable: CarriedVariable) -> bool:
        low, final = self.frame.low, self.frame.scope[variable.name]
        before, after = list(leaves(variable.entry)), list(leaves(final))
        if len(before) != len(after) or not all(map(is_number, after)):
            self._fail(variable.name, variable.entry, variable.entered_at)
        changed = False
        for i, (old, new) in enumerate(zip(before, after)):
            entry, exit_ = self._operand(old, variable.name), self._operand(new, variable.name)
            first, second = shape_of(entry), shape_of(exit_)
            joined = join(variable.strengths[i], strength_of(exit_))
            same_shape = len(first) == len(second) and all(map(low.sizes.unify, first, second))
            if joined is None or not same_shape:
                self._fail(variable.name, variable.entry, variable.entered_at, first, second)
            if joined != variable.strengths[i]:
                variable.strengths[i] = joined
                changed = True
        return changed

    def _fail(
        self, name: str, before: FrontValue, entered_at: Location | None, first: Shape = (), second: Shape = ()
    ) -> NoReturn:
        final = self.frame.scope[name]
        if isinstance(final, Undefined):
            fail("name-undefined-here", final.location, name=name, reason=final.reason)
        labels = [Label(entered_at, "its value before the loop")] if entered_at is not None else []
        code = "loop-carried-shape" if first != second else "loop-carried-type"
        where = self.frame.assigned.get(name, self.at)
        shapes = {"first": format_shape(first), "second": format_shape(second)}
        fail(code, where, labels=labels, name=name, before=describe(before), after=describe(final), **shapes)

    def final(self) -> list[Value]:
        """The values at the end of the body, emitted where the builder stands."""
        return [v for variable in self.variables for v in self._coerced(variable, self.frame.scope[variable.name])]

    def _coerced(self, variable: CarriedVariable, value: FrontValue) -> list[Value]:
        low = self.frame.low
        pairs = zip(leaves(value), variable.strengths)
        return [coerce(low, self._operand(leaf, variable.name), strength.dtype) for leaf, strength in pairs]

    def lower(self, leading: Sequence[tuple[Type, str]], body: Callable[[Sequence[Value]], None]) -> Block:
        """The body's block. It takes `leading` arguments (the index), which `body` gets, and the carried ones."""
        frame, low = self.frame, self.frame.low
        while True:
            snapshot, extents = dict(frame.scope), low.sizes.extents()
            with low.body([*leading, *self.arguments()]) as block:
                self.bind(block.arguments[len(leading) :])
                frame.run_time_depth += 1
                body(block.arguments[: len(leading)])
                frame.run_time_depth -= 1
                again = self.widened()
                if not again:
                    low.builder.emit(Yield, values=self.final())
            frame.scope = snapshot
            if not again:
                return block
            low.discard(block)
            low.sizes.forget_extents(extents)

    @property
    def names(self) -> list[str]:
        """The names of the results."""
        return [name for _, name in self.arguments()]

    def forget_locals(self, reason: str, extra: Sequence[str] = ()) -> None:
        """After the loop: what only the body assigned has no value."""
        for name in (*self.local, *extra):
            self.frame.scope[name] = Undefined(reason, self.frame.assigned.get(name, self.at))

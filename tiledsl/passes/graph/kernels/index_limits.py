"""Where a condition on coordinates can hold: solved for one axis, over all coordinates of the blocks of the others.

    abs(i - j) < 64                    j from first(i) - 63 to last(i) + 63
    j // 16 <= i // 16                 j to (last(i) // 16) * 16 + 15
    (j < 4) | (j <= i)                 j to max(3, last(i))
    j < lengths[b]                     j to lengths[b] - 1

Both sides are integer expressions. The one with the axis is taken apart, outermost function first, and each function
is undone on the other side, which stands for the least or the greatest that it can be. What cannot be undone limits
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias, Union

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import DType, bool_, i64
from tiledsl.ir.type_rules import tensor_type
from tiledsl.passes.graph.analysis.axes import Axis, GroupAxes
from tiledsl.passes.graph.analysis.shapes import sizes_of

DEEPEST = 50
"""How many functions of functions are looked into; masks that people write have a few."""
MOST_STEPS = 2000
"""How many are looked into in all: what is read twice may be walked twice."""


_ENDLESS = 1 << 70
"""Beyond every dtype."""


class Edge(NamedTuple):
    """The first coordinate of the block of an axis, or the one past its last."""

    axis: Axis
    past: bool


class Combined(NamedTuple):
    """A function of two numbers, as `tile.map` has it."""

    fn: str
    left: Term
    right: Term


Term: TypeAlias = Union[int, Edge, Value, Combined]
"""A number that is known before the loop over the axis begins. A `Value` is one of the group, of one element there."""


class Limits(NamedTuple):
    """Coordinates of the axis lie in [start, end) wherever the condition holds; None is no limit."""

    start: Term | None = None
    end: Term | None = None

    def both(self, other: Limits) -> Limits:
        """Where both hold."""
        return Limits(_either("maximum", self.start, other.start), _either("minimum", self.end, other.end))

    def any(self, other: Limits) -> Limits:
        """Where one of the two holds."""
        start = None if self.start is None or other.start is None else combined("minimum", self.start, other.start)
        end = None if self.end is None or other.end is None else combined("maximum", self.end, other.end)
        return Limits(start, end)


def _either(fn: str, one: Term | None, other: Term | None) -> Term | None:
    return other if one is None else one if other is None else combined(fn, one, other)


_FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "minimum": min,
    "maximum": max,
}


def combined(fn: str, left: Term, right: Term) -> Term:
    """A function of two terms, computed now where both are numbers."""
    if isinstance(left, int) and isinstance(right, int):
        return _FUNCTIONS[fn](left, right)
    if fn == "sub" and isinstance(right, int):
        return combined("add", left, -right)
    if fn == "add" and isinstance(left, int):
        return combined("add", right, left)
    if fn == "add" and isinstance(left, Combined) and left.fn == "add" and isinstance(left.right, int):
        return combined("add", left.left, combined("add", left.right, right))
    if (fn == "add" and right == 0) or (fn in ("minimum", "maximum") and left == right):
        return left
    if fn in ("mul", "floordiv") and right == 1:
        return left
    return Combined(fn, left, right)


_NEGATED = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}
_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


class IndexLimits:
    """Of one axis of a group, over the blocks that stand for the other ones.

    `is_loaded(value)`: whether the value is one number wherever a loop over the axis begins.
    """

    def __init__(self, axis: Axis, axes: GroupAxes, is_loaded: Callable[[Value], bool]) -> None:
        self.axis = axis
        self.axes = axes
        self.is_loaded = is_loaded
        self.depth = 0
        self.steps = 0
        self._follows: dict[Value, bool] = {}

    def where(self, mask: Value, holds: bool = True) -> Limits:
        """The coordinates at which `mask` is what `holds` says, for any coordinates along other axes."""
        op = bare(mask).op
        with self._descent() as far:
            return self._map(op, holds) if isinstance(op, ops.Map) and not far else Limits()

    @contextmanager
    def _descent(self) -> Generator[bool]:
        """One function further in; whether that is too far, so that nothing may be said of it."""
        self.depth += 1
        self.steps += 1
        yield self.depth > DEEPEST or self.steps > MOST_STEPS
        self.depth -= 1

    def _map(self, op: ops.Map, holds: bool) -> Limits:
        match op.fn:
            case "not" if tensor_type(op.inputs[0]).dtype == bool_:
                return self.where(op.inputs[0], not holds)
            case "and" | "or" if tensor_type(op.inputs[0]).dtype == bool_:
                one, other = (self.where(v, holds) for v in op.inputs)
                return one.both(other) if (op.fn == "and") == holds else one.any(other)
            case fn if fn in _NEGATED:
                return self._compared(fn if holds else _NEGATED[fn], *op.inputs)
            case _:
                return Limits()

    def _compared(self, fn: str, left: Value, right: Value) -> Limits:
        if not all(tensor_type(v).dtype.is_integer for v in (left, right)):
            return Limits()
        if self.follows(right):
            left, right, fn = right, left, _MIRRORED[fn]
        if not self.follows(left) or self.follows(right) or fn == "ne":
            return Limits()
        found = Limits()
        if fn in ("lt", "le", "eq") and (most := self.extreme(right, greatest=True)) is not None:
            found = found.both(self.at_most(left, combined("sub", most, 1) if fn == "lt" else most))
        if fn in ("gt", "ge", "eq") and (least := self.extreme(right, greatest=False)) is not None:
            found = found.both(self.at_least(left, combined("add", least, 1) if fn == "gt" else least))
        return found

    def follows(self, value: Value) -> bool:
        """Whether a value differs along the axis."""
        value = bare(value)
        if value not in self._follows:
            op = value.op
            if isinstance(op, (ops.Map, ops.Cast)) and self.axis in self.axes.kept[value]:
                with self._descent() as far:
                    self._follows[value] = far or any(self.follows(v) for v in op.operands)
            else:
                self._follows[value] = self.axis in self.axes.kept[value]
        return self._follows[value]

    # Solving for the axis

    def at_most(self, value: Value, most: Term) -> Limits:
        """Where value <= most."""
        return self._solved(value, most, upper=True)

    def at_least(self, value: Value, least: Term) -> Limits:
        """Where value >= least."""
        return self._solved(value, least, upper=False)

    def _solved(self, value: Value, bound: Term, *, upper: bool) -> Limits:
        value = bare(value)
        op = value.op
        with self._descent() as far:
            if far or not isinstance(op, (ops.Iota, ops.Map, ops.Cast)) or not self._is_exact(value):
                return Limits()
            return self._solved_op(op, bound, upper)

    def _solved_op(self, op: ops.Iota | ops.Map | ops.Cast, bound: Term, upper: bool) -> Limits:
        match op:
            case ops.Iota():
                return Limits(end=combined("add", bound, 1)) if upper else Limits(start=bound)
            case ops.Cast():
                return self._solved(op.source, bound, upper=upper)
            case ops.Map(fn="neg"):
                return self._solved(op.inputs[0], combined("sub", 0, bound), upper=not upper)
            case ops.Map(fn="abs") if upper:
                below = self._solved(op.inputs[0], bound, upper=True)
                return below.both(self._solved(op.inputs[0], combined("sub", 0, bound), upper=False))
            case ops.Map(fn="minimum" | "maximum") if (op.fn == "maximum") == upper:
                one, other = (self._solved(v, bound, upper=upper) if self.follows(v) else Limits() for v in op.inputs)
                return one.both(other)
            case ops.Map(fn="add" | "sub" | "mul" | "floordiv"):
                return self._undone(op, bound, upper)
            case _:
                return Limits()

    def _undone(self, op: ops.Map, bound: Term, upper: bool) -> Limits:
        """Limits from x + y <= bound and the like, where one of the two follows the axis."""
        left, right = op.inputs
        if op.fn in ("add", "mul") and self.follows(right):
            left, right = right, left
        if self.follows(left) and self.follows(right):
            return Limits()
        if op.fn == "sub" and self.follows(right):
            # y - x <= b: x >= y - b
            other = self.extreme(left, greatest=not upper)
            return Limits() if other is None else self._solved(right, combined("sub", other, bound), upper=not upper)
        if op.fn in ("add", "sub"):
            # x + y <= b: x <= b - y
            other = self.extreme(right, greatest=upper == (op.fn == "sub"))
            back = "sub" if op.fn == "add" else "add"
            return Limits() if other is None else self._solved(left, combined(back, bound, other), upper=upper)
        number = _number(right)
        if number is None or number < 1:
            return Limits()
        if op.fn == "mul":
            # x * n <= b: x <= b // n;  x * n >= b: x >= (b + n - 1) // n
            rounded = bound if upper else combined("add", bound, number - 1)
            return self._solved(left, combined("floordiv", rounded, number), upper=upper)
        # x // n <= b: x <= b * n + n - 1;  x // n >= b: x >= b * n
        scaled = combined("mul", bound, number)
        return self._solved(left, combined("add", scaled, number - 1) if upper else scaled, upper=upper)

    # What does not follow the axis

    def extreme(self, value: Value, *, greatest: bool) -> Term | None:
        """The least or the greatest that a value is over the blocks at hand."""
        value = bare(value)
        if (number := _number(value)) is not None:
            return number
        op = value.op
        if isinstance(op, (ops.Iota, ops.Map, ops.Cast)):
            with self._descent() as far:
                found = None if far or not self._is_exact(value) else self._extreme(op, greatest)
            if found is not None:
                return found
        dtype = tensor_type(value).dtype
        return value if dtype.is_integer and self.is_loaded(value) else None

    def _extreme(self, op: ops.Iota | ops.Map | ops.Cast, greatest: bool) -> Term | None:
        match op:
            case ops.Iota():
                axis = iota_axis(op, self.axes)
                if axis is None:
                    return 0
                edge = Edge(axis, past=greatest)
                return combined("sub", edge, 1) if greatest else edge
            case ops.Cast():
                return self.extreme(op.source, greatest=greatest)
            case ops.Map(fn="neg"):
                return _of_two("sub", 0, self.extreme(op.inputs[0], greatest=not greatest))
            case ops.Map(fn="add" | "minimum" | "maximum"):
                return _of_two(op.fn, *(self.extreme(v, greatest=greatest) for v in op.inputs))
            case ops.Map(fn="sub"):
                left, right = op.inputs
                return _of_two("sub", self.extreme(left, greatest=greatest), self.extreme(right, greatest=not greatest))
            case ops.Map(fn="mul" | "floordiv"):
                left, right = op.inputs
                if op.fn == "mul" and _number(right) is None:
                    left, right = right, left
                number = _number(right)
                return None if (number or 0) < 1 else _of_two(op.fn, self.extreme(left, greatest=greatest), number)
            case _:
                return None

    def _is_exact(self, value: Value) -> bool:
        """Whether a value is what its formula says: it fits its dtype. 64 bits are enough for all coordinates."""
        dtype = tensor_type(value).dtype
        return dtype == i64 or (dtype.is_integer and _fits(self._range(value), dtype))

    def _range(self, value: Value) -> tuple[int, int]:
        """Between which numbers an integer lies, at least as its formula says."""
        value = bare(value)
        dtype = tensor_type(value).dtype
        whole = _limits_of(dtype)
        if (number := _number(value)) is not None:
            return number, number
        op = value.op
        if isinstance(op, ops.Iota):
            return 0, sizes_of(value)[op.axis] - 1
        if not isinstance(op, (ops.Cast, ops.Map)) or not all(tensor_type(v).dtype.is_integer for v in op.operands):
            return whole
        with self._descent() as far:
            if far:
                return -_ENDLESS, _ENDLESS
            ranges = [self._range(v) for v in op.operands]
        match op:
            case ops.Cast():
                return ranges[0]
            case ops.Map(fn="neg"):
                return -ranges[0][1], -ranges[0][0]
            case ops.Map(fn="abs"):
                return 0, max(abs(end) for end in ranges[0])
            case ops.Map(fn="add" | "sub" | "mul" | "minimum" | "maximum"):
                found = [_FUNCTIONS[op.fn](a, b) for a in ranges[0] for b in ranges[1]]
                return max(min(found), -_ENDLESS), min(max(found), _ENDLESS)
            case _:
                return whole


def bare(value: Value) -> Value:
    """What a value repeats or reindexes."""
    while isinstance(value.op, (ops.Broadcast, ops.Reshape, ops.Transpose)):
        value = value.op.source
    return value


def iota_axis(op: ops.Iota, axes: GroupAxes) -> Axis | None:
    """The axis that an iota counts; None if it has one coordinate."""
    if op.shape[op.axis] == 1:
        return None
    return axes.kept[op.result][sum(1 for dim in op.shape[: op.axis] if dim != 1)]


def _of_two(fn: str, left: Term | None, right: Term | None) -> Term | None:
    return None if left is None or right is None else combined(fn, left, right)


def _number(value: Value) -> int | None:
    op = bare(value).op
    match op:
        case ops.Constant() if op.dtype.is_integer:
            return int(op.value)
        case ops.Size() if isinstance(op.value, int):
            return op.value
        case _:
            return None


def _limits_of(dtype: DType) -> tuple[int, int]:
    if dtype.is_signed:
        return -(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1
    return 0, (1 << dtype.bits) - 1


def _fits(spread: tuple[int, int], dtype: DType) -> bool:
    low, high = _limits_of(dtype)
    return low <= spread[0] and spread[1] <= high

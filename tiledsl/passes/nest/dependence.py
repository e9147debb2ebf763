"""On which axes of a nest an integer depends, and whether on values in memory.

x[m.start * 2 + i, rows[m]]     the first subscript on m and i, the second one on m and on data
"""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.types import AxisType


@dataclass(frozen=True)
class Dependence:
    """`axes`: blocks of grids and ranges, indices of loops. `on_data`: on what is loaded, or carried by a loop."""

    axes: frozenset[Value] = frozenset()
    on_data: bool = False

    def __or__(self, other: Dependence) -> Dependence:
        return Dependence(self.axes | other.axes, self.on_data or other.on_data)


NOTHING = Dependence()
DATA = Dependence(on_data=True)


class AxisDependence:
    """Asked for one value after the other; each is looked at once."""

    def __init__(self) -> None:
        self._known: dict[Value, Dependence] = {}

    def of(self, value: Value) -> Dependence:
        """The dependence of a scalar, a tile or a block."""
        pending = [value]
        while pending:
            last = pending[-1]
            if last in self._known:
                pending.pop()
                continue
            needed = [v for v in _reads(last) if v not in self._known]
            if needed:
                pending += needed
                continue
            self._known[last] = self._combined(last)
            pending.pop()
        return self._known[value]

    def _combined(self, value: Value) -> Dependence:
        if value.op is None:
            return _of_argument(value)
        found = DATA if _is_data(value.op) else NOTHING
        for operand in _reads(value):
            found |= self._known[operand]
        return found


def _reads(value: Value) -> list[Value]:
    """What a value is computed from, if that is to be looked at."""
    if value.op is None or (_is_data(value.op) and not isinstance(value.op, ops.Load)):
        return []
    return _operands(value.op)


def _operands(op: Op) -> list[Value]:
    if isinstance(op, ops.Load):
        return [index for index in op.indices if isinstance(index, Value)]
    return list(op.operands)


def _is_data(op: Op) -> bool:
    """Whether results of an op are known only when it runs: loads, and what control flow carries."""
    return op.effect in ("read", "write", "control") or bool(op.bodies)


def _of_argument(value: Value) -> Dependence:
    """A parameter, a block, the index of a loop, or what a loop carries."""
    if isinstance(value.type, AxisType):
        return Dependence(frozenset([value]))
    owner = value.op_around
    match owner:
        case ops.Grid():
            return Dependence(frozenset([value]))
        case ops.Range() | ops.For() if value is owner.body.arguments[0]:
            return Dependence(frozenset([value]))
        case ops.Range() | ops.For() | ops.While():
            return DATA
        case _:
            return DATA  # a scalar parameter: known at the call only


def slope(value: Value, axis: Value) -> int | None:
    """Which way a scalar goes when a block moves along its axis: 1, 0 or -1; None where that is not known."""
    match value.op:
        case None:
            return int(value is axis)
        case ops.Start() | ops.Extent() as op:
            return int(op.axis is axis and isinstance(op, ops.Start))
        case ops.Constant() | ops.Size():
            return 0
        case ops.Cast() as op:
            return slope(op.source, axis)
        case ops.Map(fn="add" | "minimum" | "maximum") as op:
            return _agreed([slope(v, axis) for v in op.inputs])
        case ops.Map(fn="sub") as op:
            right = slope(op.inputs[1], axis)
            return _agreed([slope(op.inputs[0], axis), None if right is None else -right])
        case ops.Map(fn="mul" | "floordiv") as op:
            # sizes and what divides are taken to be positive
            return slope(op.inputs[0], axis) if slope(op.inputs[1], axis) == 0 else None
        case _:
            return None


def _agreed(slopes: list[int | None]) -> int | None:
    """Of a sum: all of one sign."""
    if any(s is None for s in slopes):
        return None
    signs = {s for s in slopes if s}
    return 0 if not signs else signs.pop() if len(signs) == 1 else None

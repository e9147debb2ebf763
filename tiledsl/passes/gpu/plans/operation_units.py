"""Which units of a multiprocessor an elementwise operation keeps busy, and for how many instructions per element."""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops


@dataclass(frozen=True)
class UnitCounts:
    """Instructions of threads: `arithmetic` on the main pipes, `special` on the slow unit (`ex2`, `rsqrt`, ...)."""

    arithmetic: float = 0.0
    special: float = 0.0

    def __add__(self, other: UnitCounts) -> UnitCounts:
        return UnitCounts(self.arithmetic + other.arithmetic, self.special + other.special)

    def times(self, count: float) -> UnitCounts:
        """For so many elements."""
        return UnitCounts(self.arithmetic * count, self.special * count)


FUNCTIONS = {
    "exp": UnitCounts(2, 1), "exp2": UnitCounts(1, 1), "log": UnitCounts(12, 0), "log2": UnitCounts(12, 0),
    "sqrt": UnitCounts(4, 1), "rsqrt": UnitCounts(1, 1), "div": UnitCounts(6, 1), "sigmoid": UnitCounts(3, 2),
    "tanh": UnitCounts(14, 2), "erf": UnitCounts(14, 1), "pow": UnitCounts(24, 2), "sin": UnitCounts(20, 0),
    "cos": UnitCounts(20, 0), "floordiv": UnitCounts(20, 1), "mod": UnitCounts(22, 1), "round": UnitCounts(0, 1),
    "floor": UnitCounts(0, 1), "ceil": UnitCounts(0, 1),
}  # fmt: skip
"""Of scalar functions in f32; those that are not here take one instruction."""
RANDOM = UnitCounts(45, 0)
"""Philox, for one of the four numbers that it gives."""
COMBINED = UnitCounts(1, 0)
"""One step of a fold or a scan."""
PLACED = UnitCounts(6, 0)
"""One step of a fold that tells where an extreme stands: the extreme itself and a comparison with it, on pipes that
are half as wide."""
WIDE = 2
"""How many times as long operations on 64 bits take."""


def units_of(op: ops.Map | ops.Cast | ops.Reduce | ops.Scan | ops.Random) -> UnitCounts:
    """For each element that the op goes through."""
    match op:
        case ops.Map():
            counts = FUNCTIONS.get(op.fn, UnitCounts(1, 0))
            return counts.times(WIDE) if op.result.dtype.bytes == 8 else counts
        case ops.Cast():
            return UnitCounts(1, 1 if op.source.dtype.is_float and not op.dtype.is_float else 0)
        case ops.Random():
            return RANDOM
        case ops.Reduce() if op.fn in ("argmax", "argmin"):
            return PLACED
        case ops.Reduce() | ops.Scan():
            return COMBINED

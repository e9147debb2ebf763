"""Which units of a multiprocessor an elementwise operation keeps busy, and for how many instructions per element."""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import DType, f32, f64
from tiledsl.passes.gpu.plans.facts.computed_in_pairs import is_computed_in_pairs

Elementwise = ops.Map | ops.Cast | ops.Reduce | ops.Scan | ops.Sort | ops.Random


@dataclass(frozen=True)
class UnitCounts:
    """Instructions of threads: `arithmetic` on the main pipes, `special` on the slow unit (`ex2`, `rsqrt`, ...),
    `doubles` on that of f64."""

    arithmetic: float = 0.0
    special: float = 0.0
    doubles: float = 0.0

    def __add__(self, other: UnitCounts) -> UnitCounts:
        return UnitCounts(
            self.arithmetic + other.arithmetic, self.special + other.special, self.doubles + other.doubles
        )

    def times(self, count: float) -> UnitCounts:
        """For so many elements."""
        return UnitCounts(self.arithmetic * count, self.special * count, self.doubles * count)


FUNCTIONS = {
    "exp": UnitCounts(2, 1), "exp2": UnitCounts(1, 1), "log": UnitCounts(12, 0), "log2": UnitCounts(12, 0),
    "sqrt": UnitCounts(4, 1), "rsqrt": UnitCounts(1, 1), "div": UnitCounts(6, 1), "sigmoid": UnitCounts(3, 2),
    "sigmoid2": UnitCounts(3, 2),
    "tanh": UnitCounts(14, 2), "erf": UnitCounts(14, 1), "pow": UnitCounts(24, 2), "sin": UnitCounts(20, 0),
    "cos": UnitCounts(20, 0), "floordiv": UnitCounts(20, 1), "mod": UnitCounts(22, 1), "round": UnitCounts(0, 1),
    "nibble": UnitCounts(0.25), "floor": UnitCounts(0, 1), "ceil": UnitCounts(0, 1),
}  # fmt: skip
"""Of scalar functions; those that are not here take one instruction."""
ACCURATE = {
    "exp": UnitCounts(8, 1), "log": UnitCounts(25, 0), "log2": UnitCounts(27, 0), "sqrt": UnitCounts(12, 1),
    "rsqrt": UnitCounts(4, 1), "div": UnitCounts(17, 1), "sigmoid": UnitCounts(9, 2), "tanh": UnitCounts(15, 2),
    "erf": UnitCounts(20, 1), "pow": UnitCounts(89, 5), "sin": UnitCounts(37, 0), "cos": UnitCounts(38, 0),
    "floordiv": UnitCounts(117, 7), "mod": UnitCounts(79, 4),
}  # fmt: skip
"""The same of f32 of which more is made than floats of 16 bits, counted in machine code."""
SHARED_DIVISION = UnitCounts(8, 0)
"""Of these, by what many elements are divided by."""
SMALL_BITS = 16
"""Of integers all of which are tried before they are divided so."""
KNOWN_DIVISION = UnitCounts(3, 0)
"""Of these, of integers of few bits by a known number."""
SHIFTED = UnitCounts(1, 0)
"""A quotient or a remainder by a power of two."""
RANDOM = UnitCounts(45, 0)
"""Philox, for one of the four numbers that it gives."""
COMBINED = UnitCounts(1, 0)
"""One step of a fold or a scan."""
PLACED = UnitCounts(6, 0)
"""One step of a fold that tells where an extreme stands: the extreme itself and a comparison with it, on pipes that
are half as wide."""
WIDE = 2
"""How many times as long integer operations on 64 bits take."""
SPECIAL_DOUBLES = 16
"""Instructions in f64 that stand for one of the slow unit, which knows no f64: steps of Newton's, a polynomial."""


F8_INSTRUCTIONS = 89
"""The capability from which on there are conversions of f8, of pairs."""


def conversion(source: DType, target: DType, capability: int) -> UnitCounts:
    """For each element, as counted in machine code. Bytes are put from their words into
    the digits of a float by one permutation each, and lose an offset."""
    if f64 in (source, target):
        return UnitCounts(0, 1)
    if source.is_float and source.bytes == 1 and target.is_float:
        return UnitCounts(2.5 if target.bytes == 2 else 2) if capability >= F8_INSTRUCTIONS else UnitCounts(7)
    if target.is_float and target.bytes == 1:
        return UnitCounts(1.5) if capability >= F8_INSTRUCTIONS else UnitCounts(13)
    if source.is_integer and source.bytes == 1:
        if not target.is_float:
            return UnitCounts(1.5)
        return UnitCounts(2.25 + (target.bytes == 2) / 2)
    if source.is_float and target.is_integer:
        return UnitCounts(1 + (target.bytes == 1), 1)
    return UnitCounts(1, 1 if source.is_float and not target.is_float else 0)


def _is_shift(op: ops.Map) -> bool:
    """Whether integers are divided by a known power of two."""
    if op.fn not in ("floordiv", "mod") or not op.result.dtype.is_integer:
        return False
    divisor = op.inputs[1].op
    divisor = divisor.source.op if isinstance(divisor, ops.Broadcast) else divisor
    number = int(divisor.value) if isinstance(divisor, ops.Constant) else 0
    return number > 0 and number & (number - 1) == 0


def units_of(op: Elementwise, capability: int = 90, *, accurate: bool = False) -> UnitCounts:
    """For each element that the op goes through, on an architecture. `accurate`: of a function in f32, that it is no
    approximation for narrower floats."""
    if accurate and isinstance(op, ops.Map) and op.fn in ACCURATE:
        if op.fn == "div" and _is_known_division(op):
            return KNOWN_DIVISION
        return SHARED_DIVISION if op.fn == "div" and _is_shared(op.inputs[1]) else ACCURATE[op.fn]
    counts = _units_of_one(op, capability)
    return counts.times(0.5) if is_computed_in_pairs(op) else counts


def combiner_units(op: ops.Reduce | ops.Scan, capability: int = 90) -> UnitCounts:
    """Of one step of a fold that has a combiner of its own."""
    total = UnitCounts()
    for inner in op.combiner.ops:
        if isinstance(inner, ops.Map):
            total += units_of(inner, capability, accurate=inner.result.dtype == f32)
        elif isinstance(inner, ops.Cast):
            total += units_of(inner, capability)
    return total


def _is_known_division(op: ops.Map) -> bool:
    """Whether what was an integer of few bits is divided by a known number (`div_by_known` of `backend_cuda`)."""
    made, divisor = op.inputs[0].op, op.inputs[1].op
    number = divisor.source.op if isinstance(divisor, ops.Broadcast) else divisor
    small = isinstance(made, ops.Cast) and made.source.dtype.is_integer and made.source.dtype.bits <= SMALL_BITS
    return small and isinstance(number, ops.Constant)


def _is_shared(divisor: Value) -> bool:
    """Whether a divisor is that of several elements."""
    return not divisor.shape or isinstance(divisor.op, ops.Broadcast)


def _units_of_one(op: Elementwise, capability: int) -> UnitCounts:
    match op:
        case ops.Map():
            counts = SHIFTED if _is_shift(op) else FUNCTIONS.get(op.fn, UnitCounts(1, 0))
            wide = max(op.result.dtype, *(v.dtype for v in op.inputs), key=lambda dtype: dtype.bytes)
            if wide == f64:
                return UnitCounts(counts.special, 0, counts.arithmetic + SPECIAL_DOUBLES * counts.special)
            return counts.times(WIDE) if wide.bytes == 8 else counts
        case ops.Cast():
            return conversion(op.source.dtype, op.dtype, capability)
        case ops.Random():
            return RANDOM
        case ops.Sort():
            return UnitCounts()  # depends on how threads share it: see `costs/exchanges.py`
        case ops.Reduce() if op.fn in ("argmax", "argmin"):
            return PLACED
        case ops.Scan() if op.has_body("combiner"):  # within the run of a thread, and once more for what is before it
            return combiner_units(op, capability).times(2)
        case ops.Reduce() if op.has_body("combiner"):
            return combiner_units(op, capability)
        case ops.Reduce() | ops.Scan():
            return UnitCounts(0, 0, 1) if op.sources[0].dtype == f64 else COMBINED

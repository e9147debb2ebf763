"""What is provable about sizes: divisibility, bounds, equality, order.

Every answer is sound: True means always, False means not known. Cheap reasoning on the canonical form comes first; the
solver (sympy) is asked only where `//` or `%` stand in the way and no small example speaks against the claim.

>>> M, K = symbol("M"), symbol("K")
>>> facts = Facts([Fact(K, 16)], {"M": (1, 4096)})
>>> facts.divisible(2 * K + 32, 32), facts.bounds(M // 8 + 1), facts.less_equal(M, M * K + 5 * M)
(True, (1, 513), True)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from tiledsl.ir import symbolic_solver
from tiledsl.ir.core import Fact, Function
from tiledsl.ir.symbolic import (
    Atom,
    Dim,
    Expr,
    Monomial,
    Opaque,
    Symbol,
    evaluate,
    substitute,
    symbol,
    symbol_name,
    symbols_of,
)
from tiledsl.ir.tile_ops import Grid, Range
from tiledsl.ir.types import AxisType

Bounds: TypeAlias = "tuple[int | None, int | None]"
"""The least and the greatest value, both included; None where there is none."""
Interval: TypeAlias = "tuple[float, float]"
"""As Bounds, with infinities in place of None. Finite ends are ints, so that nothing is rounded."""

_ANY: Interval = (-math.inf, math.inf)
_SIZE: Interval = (0, math.inf)
_MOST_EXAMPLES = 24


class Facts:
    """What is known of the symbols: promises of divisibility, and ranges (0 and up, for a symbol without one).

    Sizes that something is divided by are taken to be positive.
    """

    def __init__(self, promises: Iterable[Fact] = (), ranges: Mapping[str, Bounds] | None = None) -> None:
        self.promises = tuple(promises)
        self._ranges: dict[str, Interval] = {
            name: (0 if low is None else low, math.inf if high is None else high)
            for name, (low, high) in (ranges or {}).items()
        }
        self._multiples: dict[str, int] = {}
        for promise in self.promises:
            if name := symbol_name(promise.dim):
                self._multiples[name] = math.lcm(self._multiples.get(name, 1), promise.divisor)
        # A symbol that is at least 3 can be written 3 + s: so M * N - M loses its minus if N is at least 1.
        self._least: dict[str, Dim] = {
            name: symbol(name) + int(low) for name, (low, _) in self._ranges.items() if low > 0
        }
        self._above_least: dict[str, Interval] = {
            name: (0, high - max(low, 0)) for name, (low, high) in self._ranges.items()
        }

    def divisible(self, dim: Dim, n: int) -> bool:
        """Whether `dim % n == 0` always, for a positive `n`."""
        if _multiple(dim, self._multiples) % n == 0:
            return True
        # x + y is a multiple if x is promised to be one, and y is one
        return any(p.divisor % n == 0 and _multiple(dim - p.dim, self._multiples) % n == 0 for p in self.promises)

    def bounds(self, dim: Dim) -> Bounds:
        """The least and the greatest value that `dim` can have, as far as interval arithmetic tells."""
        low, high = self._interval(dim)
        return (None if low == -math.inf else int(low), None if high == math.inf else int(high))

    def equal(self, left: Dim, right: Dim) -> bool:
        """Whether two sizes are always the same."""
        difference = left - right
        # K % 16 == 0 lets K be written 16 * K; the canonical form then does most of the reasoning
        scaled = substitute(difference, {name: n * symbol(name) for name, n in self._multiples.items()})
        if isinstance(scaled, int):
            return scaled == 0
        if not _has_division(scaled) or any(value != 0 for value in self._examples(difference)):
            return False
        return symbolic_solver.simplify(scaled) == 0

    def less_equal(self, left: Dim, right: Dim) -> bool:
        """Whether `left <= right` always."""
        difference = right - left
        if self._nonnegative(difference):
            return True
        if not _has_division(difference) or any(value < 0 for value in self._examples(difference)):
            return False
        return self._nonnegative(symbolic_solver.simplify(difference))

    def _interval(self, dim: Dim) -> Interval:
        low, high = _interval(dim, self._ranges)
        if self._least and (low == -math.inf or high == math.inf):
            moved_low, moved_high = _interval(substitute(dim, self._least), self._above_least)
            return (max(low, moved_low), min(high, moved_high))
        return (low, high)

    def _nonnegative(self, dim: Dim) -> bool:
        if self._interval(dim)[0] >= 0:
            return True
        if not isinstance(dim, Expr):
            return False
        for monomial, coefficient in dim.terms:
            if len(monomial) == 1 and isinstance(monomial[0], Opaque):
                atom, rest = monomial[0], dim - coefficient * Expr(((monomial, 1),))
                match atom.operation:
                    case "min" | "max":
                        choices = (rest + coefficient * atom.left, rest + coefficient * atom.right)
                        # -min(x, y) is no less than -x, nor than -y: one of them is enough. As is one of x, y for max.
                        either = (coefficient < 0) == (atom.operation == "min")
                        return (any if either else all)(map(self._nonnegative, choices))
                    case "mod":
                        # -(x % y) is no less than 1 - y
                        if coefficient < 0 and self._nonnegative(rest + coefficient * (atom.right - 1)):
                            return self._interval(atom.right)[0] >= 0
                    case "floordiv":
                        pass
        multiplied = _without_division(dim)
        return multiplied != dim and self._nonnegative(multiplied)

    def _examples(self, dim: Dim) -> Iterator[int]:
        """Values of `dim` for some small sizes that keep the promises: a claim about it may be wrong at one of them."""
        # Symbols outside `dim` matter where a promise ties them to one in it.
        names = sorted(symbols_of(dim).union(*(symbols_of(p.dim) for p in self.promises)))
        for example in range(_MOST_EXAMPLES):
            sizes: dict[str, int] = {}
            for position, name in enumerate(names):
                low, high = self._ranges.get(name, _SIZE)
                n = self._multiples.get(name, 1)
                first = -(-max(int(low), 1) // n) * n  # division by a size of 0 would prove nothing
                # Steps that differ from symbol to symbol: all equal, all small, far apart; and some large sizes.
                step = example * (2 * position + 1) % (7 + example) * (1 if example % 3 else 389)
                sizes[name] = int(min(first + n * step, high))
            if all(evaluate(p.dim, sizes) % p.divisor == 0 for p in self.promises):
                yield evaluate(dim, sizes)


def facts_of(function: Function) -> Facts:
    """What a function promises of its sizes, and what its grids and ranges say of the extents of their blocks.

    A program with an empty block never runs, so an extent is at least 1.
    """
    ranges: dict[str, Bounds] = {}
    for op in function.walk():
        if isinstance(op, (Grid, Range)):
            for block, argument in zip(op.blocks, op.body.arguments):
                name = symbol_name(argument.type.extent) if isinstance(argument.type, AxisType) else None
                if name is not None:
                    ranges[name] = (1, None if block.kind == "auto" else block.size)
    return Facts(function.facts, ranges)


def _has_division(dim: Dim) -> bool:
    if isinstance(dim, int):
        return False
    opaque = [atom for monomial, _ in dim.terms for atom in monomial if isinstance(atom, Opaque)]
    return any(a.operation in ("floordiv", "mod") or _has_division(a.left) or _has_division(a.right) for a in opaque)


def _without_division(dim: Expr) -> Dim:
    """A positive multiple of `dim` in which quotients are written as remainders, as far as they can be.

    # 2*x - 2*(x // 2) => x + x % 2
    """
    scale = 1
    for monomial, coefficient in dim.terms:
        for atom in monomial:
            if isinstance(atom, Opaque) and atom.operation == "floordiv" and isinstance(atom.right, int):
                scale = math.lcm(scale, atom.right // math.gcd(atom.right, coefficient))
    result: Dim = 0
    for monomial, coefficient in dim.terms:
        result = result + _without_quotient(monomial, scale * coefficient)
    return result


def _without_quotient(monomial: Monomial, coefficient: int) -> Dim:
    for position, atom in enumerate(monomial):
        if isinstance(atom, Opaque) and atom.operation == "floordiv":
            others = _product_of(monomial[:position] + monomial[position + 1 :])
            whole = atom.left - atom.left % atom.right
            if isinstance(atom.right, int) and coefficient % atom.right == 0:  # c * (x // c) => x - x % c
                return coefficient // atom.right * others * whole
            if others == atom.right:  # y * (x // y) => x - x % y
                return coefficient * whole
    return coefficient * _product_of(monomial)


def _product_of(monomial: Monomial) -> Dim:
    """The product of some atoms; 1 for none."""
    return Expr(((monomial, 1),)) if monomial else 1


def _multiple(dim: Dim, multiples: Mapping[str, int]) -> int:
    """The greatest n of which every term of `dim` is known to be a multiple; 0 for 0, which every n divides."""
    if isinstance(dim, int):
        return abs(dim)
    result = 0
    for monomial, coefficient in dim.terms:
        result = math.gcd(result, coefficient * math.prod(_atom_multiple(atom, multiples) for atom in monomial))
    return result


def _atom_multiple(atom: Atom, multiples: Mapping[str, int]) -> int:
    if isinstance(atom, Symbol):
        return multiples.get(atom.name, 1)
    left = _multiple(atom.left, multiples)
    match atom.operation:
        case "floordiv":
            exact = isinstance(atom.right, int) and atom.right > 0 and left % atom.right == 0
            return left // atom.right if exact and isinstance(atom.right, int) else 1
        case "mod" | "min" | "max":
            return math.gcd(left, _multiple(atom.right, multiples))


def _interval(dim: Dim, ranges: Mapping[str, Interval]) -> Interval:
    """Interval arithmetic over the terms of `dim`."""
    if isinstance(dim, int):
        return (dim, dim)
    low: float = 0
    high: float = 0
    for monomial, coefficient in dim.terms:
        term: Interval = (coefficient, coefficient)
        for atom in monomial:
            term = _product(term, _atom_interval(atom, ranges))
        low, high = low + term[0], high + term[1]
    return (low, high)


def _product(left: Interval, right: Interval) -> Interval:
    products = [0 if a == 0 or b == 0 else a * b for a in left for b in right]  # 0 times no bound is 0, not NaN
    return (min(products), max(products))


def _atom_interval(atom: Atom, ranges: Mapping[str, Interval]) -> Interval:
    if isinstance(atom, Symbol):
        return ranges.get(atom.name, _SIZE)
    left, right = _interval(atom.left, ranges), _interval(atom.right, ranges)
    match atom.operation:
        case "min":
            return (min(left[0], right[0]), min(left[1], right[1]))
        case "max":
            return (max(left[0], right[0]), max(left[1], right[1]))
        case "floordiv":
            if right[0] < 0:
                return _ANY
            quotients = [_quotient(a, max(b, 1)) for a in left for b in right]
            return (min(quotients), max(quotients))
        case "mod":
            if right[0] < 0:
                return _ANY
            return left if left[0] >= 0 and left[1] < right[0] else (0, max(right[1] - 1, 0))


def _quotient(a: float, b: float) -> float:
    if b == math.inf:
        return -1 if a < 0 else 0  # rounded down, the quotient of a negative number never comes up to 0
    return a if a in (-math.inf, math.inf) else a // b

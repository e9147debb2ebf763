"""Sizes that are known only at the call: integer expressions over named symbols, in one canonical form.

A `Dim` is an int or an `Expr`. An `Expr` is a sum of products of atoms with integer coefficients; an atom is a symbol
or an opaque operation (floor division, modulo, min, max). It is canonical from construction on, so that equal
polynomials are equal objects to `==`, and no simplifier has to run in the ordinary course of a compilation.

>>> M, K = symbol("M"), symbol("K")
>>> str(2 * (M + K) - M - 2 * K + 3)
'M + 3'
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, Union

Operation = Literal["floordiv", "mod", "min", "max"]


@dataclass(frozen=True)
class Symbol:
    """A named, non-negative, unknown integer."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Opaque:
    """An operation that does not distribute over sums; kept whole as an atom."""

    operation: Operation
    left: Dim
    right: Dim

    def __str__(self) -> str:
        match self.operation:
            case "floordiv":
                return f"{_factor(self.left)} // {_factor(self.right)}"
            case "mod":
                return f"{_factor(self.left)} % {_factor(self.right)}"
            case "min" | "max":
                return f"{self.operation}({self.left}, {self.right})"


Atom: TypeAlias = Union[Symbol, Opaque]
Monomial: TypeAlias = "tuple[Atom, ...]"


class Expr:
    """A canonical integer polynomial over atoms. Immutable; supports + - * // % with ints and other Exprs."""

    __slots__ = ("_hash", "_symbols", "_text", "terms")
    terms: tuple[tuple[Monomial, int], ...]
    """(product of atoms, coefficient) pairs, in order of their text, constant last; no coefficient is 0."""

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms
        self._hash = hash(terms)
        self._text: str | None = None
        self._symbols: frozenset[str] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and self._hash == other._hash and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: Dim) -> Dim:
        return _sum([(1, self), (1, other)])

    __radd__ = __add__

    def __sub__(self, other: Dim) -> Dim:
        return _sum([(1, self), (-1, other)])

    def __rsub__(self, other: Dim) -> Dim:
        return _sum([(-1, self), (1, other)])

    def __neg__(self) -> Dim:
        return _sum([(-1, self)])

    def __mul__(self, other: Dim) -> Dim:
        if isinstance(other, int):
            return _sum([(other, self)])
        collected: dict[Monomial, int] = {}
        for left, p in self.terms:
            for right, q in other.terms:
                product = tuple(sorted(left + right, key=_atom_key))
                collected[product] = collected.get(product, 0) + p * q
        return _canonical(collected)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floordiv(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return mod(self, other)

    def __rmod__(self, other: Dim) -> Dim:
        return mod(other, self)

    @property
    def symbols(self) -> frozenset[str]:
        """The names of all symbols in it."""
        if self._symbols is None:
            atoms = [atom for monomial, _ in self.terms for atom in monomial]
            self._symbols = frozenset[str]().union(*map(_symbols_of_atom, atoms))
        return self._symbols

    def __str__(self) -> str:
        if self._text is None:
            self._text = _text(self)
        return self._text

    def __repr__(self) -> str:
        return f"Expr({self})"


Dim: TypeAlias = Union[int, Expr]
"""A size: known (int) or symbolic (Expr). An Expr is never a bare constant."""


def symbol(name: str) -> Expr:
    """The expression that is one symbol."""
    return Expr((((Symbol(name),), 1),))


def symbol_name(dim: Dim) -> str | None:
    """The name, if `dim` is one bare symbol; else None."""
    if isinstance(dim, Expr) and len(dim.terms) == 1:
        monomial, coefficient = dim.terms[0]
        if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], Symbol):
            return monomial[0].name
    return None


def floordiv(left: Dim, right: Dim) -> Dim:
    """`left // right` with Python's meaning; 0 if `right` is 0.

    # (c*x + r) // c => x + r // c
    """
    if right == 0:
        return 0  # as the scalar function: a size of 0 can come in at a call
    if isinstance(left, int) and isinstance(right, int):
        return left // right
    if right == 1:
        return left
    if left == right:
        return 1  # sizes that are divided by are positive
    if isinstance(left, Expr) and isinstance(right, int) and right > 0:
        whole = {m: c // right for m, c in left.terms if c % right == 0}
        rest = {m: c for m, c in left.terms if c % right != 0}
        if whole:
            return _canonical(whole) + floordiv(_canonical(rest), right)
    if left == 0:
        return 0
    return _atom(Opaque("floordiv", left, right))


def mod(left: Dim, right: Dim) -> Dim:
    """`left % right` with Python's meaning; 0 if `right` is 0.

    # (c*x + r) % c => r % c
    """
    if right == 0:
        return 0
    if isinstance(left, int) and isinstance(right, int):
        return left % right
    if right == 1 or left == right or left == 0:
        return 0
    if isinstance(left, Expr) and isinstance(right, int) and right > 0:
        rest = {m: c % right for m, c in left.terms if c % right != 0}
        if len(rest) < len(left.terms) or any(c != rest[m] for m, c in left.terms):
            return mod(_canonical(rest), right)
    return _atom(Opaque("mod", left, right))


def ceildiv(left: Dim, right: Dim) -> Dim:
    """The number of blocks of `right` that cover `left`."""
    return floordiv(left + right - 1, right)


def exact_quotient(total: Dim, known: Dim) -> Dim:
    """total // known, where every term of the one has the only term of the other as a factor.

    # (2*M*N) // (2*N) => M
    """
    if not isinstance(total, Expr) or not isinstance(known, Expr) or len(known.terms) != 1:
        return floordiv(total, known)
    atoms, divisor = known.terms[0]
    quotient: Dim = 0
    for monomial, coefficient in total.terms:
        rest = list(monomial)
        for atom in atoms:
            if atom not in rest:
                return floordiv(total, known)
            rest.remove(atom)
        if coefficient % divisor:
            return floordiv(total, known)
        product: Dim = coefficient // divisor
        for atom in rest:
            product = product * _atom(atom)
        quotient = quotient + product
    return quotient


def minimum(left: Dim, right: Dim) -> Dim:
    """The smaller of two sizes."""
    return _extremum("min", left, right)


def maximum(left: Dim, right: Dim) -> Dim:
    """The larger of two sizes."""
    return _extremum("max", left, right)


def _extremum(operation: Literal["min", "max"], left: Dim, right: Dim) -> Dim:
    difference = left - right
    if isinstance(difference, int):
        take_left = difference <= 0 if operation == "min" else difference >= 0
        return left if take_left else right
    first, second = sorted((left, right), key=str)  # min(a, b) => min(b, a)
    return _atom(Opaque(operation, first, second))


def symbols_of(dim: Dim) -> frozenset[str]:
    """The names of all symbols in `dim`."""
    return _NO_SYMBOLS if isinstance(dim, int) else dim.symbols


_NO_SYMBOLS: frozenset[str] = frozenset()


def _symbols_of_atom(atom: Atom) -> frozenset[str]:
    if isinstance(atom, Symbol):
        return frozenset((atom.name,))
    return symbols_of(atom.left) | symbols_of(atom.right)


def dim_from_text(text: str) -> Dim:
    """The inverse of `str` for sizes. ValueError for a text that is no size."""
    return _dim_of_node(ast.parse(text, mode="eval").body)


def _dim_of_node(node: ast.expr) -> Dim:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_dim_of_node(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _PYTHON_OPERATORS:
            return _PYTHON_OPERATORS[type(op)](_dim_of_node(left), _dim_of_node(right))
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=[left, right]):
            return OPERATIONS["min" if name == "min" else "max"](_dim_of_node(left), _dim_of_node(right))
        case _:
            raise ValueError(f"{ast.unparse(node)} is no size")


def substitute(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """`dim` with the named symbols replaced; the others stay."""
    if isinstance(dim, int) or not values or symbols_of(dim).isdisjoint(values):
        return dim
    total: Dim = 0
    for monomial, coefficient in dim.terms:
        product: Dim = coefficient
        for atom in monomial:
            product = product * _substitute_atom(atom, values)
        total = total + product
    return total


def _substitute_atom(atom: Atom, values: Mapping[str, Dim]) -> Dim:
    if isinstance(atom, Symbol):
        return values[atom.name] if atom.name in values else symbol(atom.name)
    return OPERATIONS[atom.operation](substitute(atom.left, values), substitute(atom.right, values))


def evaluate(dim: Dim, values: Mapping[str, int]) -> int:
    """The integer that `dim` is, given all of its symbols. KeyError names one that is missing."""
    if isinstance(dim, int):
        return dim
    total = 0
    for monomial, coefficient in dim.terms:
        for atom in monomial:
            if isinstance(atom, Symbol):
                coefficient *= values[atom.name]
            else:
                result = OPERATIONS[atom.operation](evaluate(atom.left, values), evaluate(atom.right, values))
                assert isinstance(result, int)
                coefficient *= result
        total += coefficient
    return total


RESERVED = frozenset(("min", "max", "auto", "upto"))
"""Words that mean something else where IR text expects a size."""

OPERATIONS: dict[Operation, Callable[[Dim, Dim], Dim]] = {
    "floordiv": floordiv,
    "mod": mod,
    "min": minimum,
    "max": maximum,
}


_PYTHON_OPERATORS: dict[type[ast.operator], Callable[[Dim, Dim], Dim]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: floordiv,
    ast.Mod: mod,
}


def _atom(atom: Atom) -> Expr:
    return Expr((((atom,), 1),))


def _atom_key(atom: Atom) -> str:
    return str(atom)


def _monomial_key(item: tuple[Monomial, int]) -> tuple[bool, tuple[str, ...]]:
    return (not item[0], tuple(map(str, item[0])))


def _canonical(collected: Mapping[Monomial, int]) -> Dim:
    terms = sorted(((m, c) for m, c in collected.items() if c != 0), key=_monomial_key)
    if not terms:
        return 0
    if len(terms) == 1 and not terms[0][0]:
        return terms[0][1]
    return Expr(tuple(terms))


def _sum(parts: Iterable[tuple[int, Dim]]) -> Dim:
    collected: dict[Monomial, int] = {}
    for scale, part in parts:
        terms = (((), part),) if isinstance(part, int) else part.terms
        for monomial, coefficient in terms:
            collected[monomial] = collected.get(monomial, 0) + scale * coefficient
    return _canonical(collected)


def _factor(dim: Dim) -> str:
    """`dim` as an operand: in parentheses unless it is a literal or a single atom that reads as one word."""
    if isinstance(dim, Expr) and len(dim.terms) == 1 and dim.terms[0][1] == 1 and len(dim.terms[0][0]) == 1:
        return _factor_atom(dim.terms[0][0][0])
    return str(dim) if isinstance(dim, int) and dim >= 0 else f"({dim})"


def _factor_atom(atom: Atom) -> str:
    reads_as_word = isinstance(atom, Symbol) or atom.operation in ("min", "max")
    return str(atom) if reads_as_word else f"({atom})"


def _text(expr: Expr) -> str:
    parts: list[str] = []
    for monomial, coefficient in expr.terms:
        magnitude = abs(coefficient)
        factors = [_factor_atom(atom) for atom in monomial]
        if len(factors) == 1 and coefficient == 1 and len(expr.terms) == 1:
            factors = [str(monomial[0])]  # no parentheses around the whole
        if magnitude != 1 or not monomial:
            factors.insert(0, str(magnitude))
        product = " * ".join(factors)
        if not parts:
            parts.append(product if coefficient > 0 else f"-{product}")
        else:
            parts.append(f"+ {product}" if coefficient > 0 else f"- {product}")
    return " ".join(parts)

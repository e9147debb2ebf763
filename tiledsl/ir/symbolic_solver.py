"""Identities of sizes with `//` and `%` that the canonical form does not see: what sympy is for, and nothing else.

>>> x, y = symbol("x"), symbol("y")
>>> simplify((x * y + x % y) // y - x)
0
"""

# sympy's annotations are partial
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from tiledsl.ir.symbolic import Atom, Dim, Symbol, floordiv, maximum, minimum, symbol

if TYPE_CHECKING:
    import sympy


@cache
def simplify(dim: Dim) -> Dim:
    """`dim` in another form that is equal where all divisors are positive: every `x % y` becomes `x - y * (x // y)`.

    The form is 0 for what follows from taking whole parts out of a quotient, cancelling factors, and dividing twice.
    """
    return _from_sympy(_to_sympy(dim).expand())


def _to_sympy(dim: Dim) -> sympy.Expr:
    import sympy  # here, not above: it takes half a second, and hardly any program needs it

    if isinstance(dim, int):
        return sympy.Integer(dim)
    return sympy.Add(*(coefficient * sympy.Mul(*map(_atom_to_sympy, monomial)) for monomial, coefficient in dim.terms))


def _atom_to_sympy(atom: Atom) -> sympy.Expr:
    import sympy  # see above

    if isinstance(atom, Symbol):
        return sympy.Symbol(atom.name, integer=True, nonnegative=True)
    left, right = _to_sympy(atom.left), _to_sympy(atom.right)
    match atom.operation:
        case "floordiv":
            return _quotient(left, right)
        case "mod":
            return left - right * _quotient(left, right)
        case "min":
            return sympy.Min(left, right)
        case "max":
            return sympy.Max(left, right)


def _quotient(left: sympy.Expr, right: sympy.Expr) -> sympy.Expr:
    """`floor(left / right)`, with whatever is whole taken out of it."""
    import sympy  # see above

    terms = sympy.Add.make_args(left.expand())
    inner = [term for term in terms if isinstance(term, sympy.floor)]
    if len(inner) == 1:  # floor((floor(a) + n) / c) => floor((a + n) / c)
        terms = [term for term in terms if term is not inner[0]] + list(inner[0].args)
    terms = sympy.Add.make_args((sympy.Add(*terms) / right).expand())
    whole = [term for term in terms if _is_whole(term)]
    rest = [term for term in terms if not _is_whole(term)]
    return sympy.Add(*whole, sympy.floor(sympy.Add(*rest)))


def _is_whole(term: sympy.Expr) -> bool:
    import sympy  # see above

    # sympy would not call floor(x / y) an integer: y might be 0 for all that it knows
    return all(factor.is_integer or isinstance(factor, sympy.floor) for factor in sympy.Mul.make_args(term))


def _from_sympy(term: sympy.Basic) -> Dim:
    import sympy  # see above

    if isinstance(term, sympy.Integer):
        return int(term)
    if isinstance(term, sympy.Symbol):
        return symbol(term.name)
    if isinstance(term, sympy.floor):
        numerator, denominator = sympy.fraction(sympy.together(term.args[0]))
        return floordiv(_from_sympy(numerator), _from_sympy(denominator))
    if isinstance(term, sympy.Pow):
        base, exponent = term.args
        assert isinstance(exponent, sympy.Integer)
        assert exponent > 0, f"{term} is no polynomial"
        return _product([_from_sympy(base)] * int(exponent))
    dims = [_from_sympy(argument) for argument in term.args]
    if isinstance(term, sympy.Add):
        return _sum(dims)
    if isinstance(term, sympy.Mul):
        return _product(dims)
    assert isinstance(term, (sympy.Min, sympy.Max)), f"sympy made {term}"
    result = dims[0]
    for dim in dims[1:]:
        result = minimum(result, dim) if isinstance(term, sympy.Min) else maximum(result, dim)
    return result


def _sum(dims: list[Dim]) -> Dim:
    result: Dim = 0
    for dim in dims:
        result = result + dim
    return result


def _product(dims: list[Dim]) -> Dim:
    result: Dim = 1
    for dim in dims:
        result = result * dim
    return result

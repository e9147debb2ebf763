"""What is known of the order of two sizes whatever their symbols are."""

from __future__ import annotations

from collections.abc import Collection

from tiledsl.ir.symbolic import Dim, Expr, Opaque, substitute, symbol, symbols_of


def known_at_most(a: Dim, b: Dim) -> bool:
    """Whether `a <= b` for all values of the symbols, as far as the signs of `b - a` tell: sizes are 0 or more."""
    for dim, is_left in ((a, True), (b, False)):
        extremum = _extremum(dim)
        if extremum is not None:
            sides = (extremum.left, extremum.right)
            known = [known_at_most(side, b) if is_left else known_at_most(a, side) for side in sides]
            return all(known) if (extremum.operation == "max") == is_left else any(known)
    difference = _without_quotients(b - a)
    if isinstance(difference, int):
        return difference >= 0
    plain = all(not isinstance(atom, Opaque) for monomial, _ in difference.terms for atom in monomial)
    return plain and all(coefficient >= 0 for _, coefficient in difference.terms)


def known_inside(coordinate: Dim, dim: Dim, positive: Collection[str] = ()) -> bool:
    """Whether `0 <= coordinate < dim` for all values of the symbols, of which `positive` are 1 or more.

    # 0 is inside of a block m, which has elements, but not of an axis N, which may have none; 1 may be outside of both
    """
    above = {name: symbol(name) + 1 for name in symbols_of(coordinate) | symbols_of(dim) if name in positive}
    coordinate, dim = substitute(coordinate, above), substitute(dim, above)
    return known_at_most(0, coordinate) and known_at_most(coordinate + 1, dim)


def _without_quotients(difference: Dim) -> Dim:
    """A multiple of what is at most `difference`, without its quotients by known numbers; the same where there is none.

    # N - N // 2: twice that is at least 2 * N - N
    """
    if not isinstance(difference, Expr):
        return difference
    for monomial, coefficient in difference.terms:
        atom = monomial[0] if len(monomial) == 1 else None
        if isinstance(atom, Opaque) and atom.operation == "floordiv" and isinstance(atom.right, int) and atom.right > 0:
            rest = difference - coefficient * Expr((((atom,), 1),))
            bound = atom.left if coefficient < 0 else atom.left - (atom.right - 1)
            return _without_quotients(atom.right * rest + coefficient * bound)
    return difference


def _extremum(dim: Dim) -> Opaque | None:
    """The maximum or minimum that a size is, if it is one."""
    if isinstance(dim, Expr) and len(dim.terms) == 1:
        monomial, coefficient = dim.terms[0]
        if coefficient == 1 and len(monomial) == 1:
            atom = monomial[0]
            return atom if isinstance(atom, Opaque) and atom.operation in ("min", "max") else None
    return None

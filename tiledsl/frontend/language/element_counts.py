"""How many elements shapes have, and whether those of one fill another."""

from __future__ import annotations

from tiledsl.ir import symbolic
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.types import Shape


def element_count(shape: Shape) -> Dim:
    """The number of elements in a shape."""
    count: Dim = 1
    for dim in shape:
        count = count * dim
    return count


def filled_hole(before: Shape, after: Shape) -> Shape:
    """A shape for the elements of `before` with its one -1 replaced by what is left, if that is a whole number."""
    if -1 not in after:
        return after
    at = after.index(-1)
    rest = element_count((*after[:at], *after[at + 1 :]))
    total = element_count(before)
    missing = 0 if rest == 0 else symbolic.exact_quotient(total, rest)
    return (*after[:at], missing, *after[at + 1 :]) if missing * rest == total else after


def counts_differ(before: Shape, after: Shape) -> str:
    """Why the elements of one shape do not fill another, in which one -1 may be left; nothing if they do."""
    total, wanted = element_count(before), element_count(tuple(1 if dim == -1 else dim for dim in after))
    if -1 not in after and total == wanted:
        return ""
    known = "" if isinstance(total, int) and isinstance(wanted, int) else "known to be "
    return f"{total} elements are not {known}{'a multiple of ' if -1 in after else ''}{wanted}"

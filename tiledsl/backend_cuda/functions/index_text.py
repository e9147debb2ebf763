"""Index arithmetic as C: coordinates of threads and slots, tables of numbers, and sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tiledsl.ir.layouts.layout import Digit
from tiledsl.ir.symbolic import Atom, Dim, Opaque, Symbol


def thread_text(digits: Sequence[Digit], axis: int | None, variable: str) -> str:
    """The thread's part of the coordinate along `axis`, from the digits of a layout; `0` if there is none.

    >>> thread_text([Digit(8, 0, 1), Digit(4, 1, 2)], 1, "thread")
    'thread % 4 * 2'
    """
    terms: list[str] = []
    divisor = 1
    for position, digit in enumerate(reversed(digits)):
        if digit.axis == axis:
            outermost = position == len(digits) - 1
            terms.append(_digit_text(variable, divisor, 0 if outermost else digit.size, digit.stride))
        divisor *= digit.size
    return " + ".join(reversed(terms)) or "0"


def _digit_text(variable: str, divisor: int, size: int, factor: int) -> str:
    """`variable / divisor % size * factor`; a size of 0 is none."""
    text = variable
    if divisor != 1:
        text += f" / {divisor}"
    if size:
        text += f" % {size}"
    return text if factor == 1 else f"{text} * {factor}"


def table_text(table: Sequence[int], variable: str) -> str:
    """A C expression that is `table[variable]`, for 0 <= variable < len(table). `variable` is a name or a number.

    The tables that layouts give are sums of digits times strides, perhaps the first part of one. ValueError for any
    other.

    >>> table_text([0, 1, 8, 9], "s")
    's / 2 * 8 + s % 2'
    """
    if variable.isdigit():
        return str(table[int(variable)])
    terms: list[str] = []
    divisor, rest = 1, list(table)
    while len(rest) > 1:
        step = rest[1] - rest[0]
        run = _run(rest, step)
        if step:
            terms.append(_digit_text(variable, divisor, 0 if run == len(rest) else run, step))
        divisor *= run
        rest = rest[::run]
    if rest[0]:
        terms.insert(0, str(rest[0]))
    return " + ".join(reversed(terms)) or "0"


def is_sum(table: Sequence[int]) -> bool:
    """Whether a table can be written so."""
    try:
        table_text(table, "w")
    except ValueError:
        return False
    return True


def _run(table: Sequence[int], step: int) -> int:
    """The size of the innermost digit, which counts in `step`s: the largest that fits all of the table.

    One that divides the length comes first; the last run of others is cut off.
    """
    count = len(table)
    for run in sorted(range(count, 1, -1), key=lambda run: count % run != 0):
        if all(table[i] == table[i - i % run] + i % run * step for i in range(count)):
            return run
    raise ValueError(f"{list(table)} is no sum of digits")


def sum_text(*terms: str) -> str:
    """The sum of C expressions that need no parentheses in a sum; zeros are left out."""
    return " + ".join(term for term in terms if term != "0") or "0"


def is_word(text: str) -> bool:
    """Whether a C expression needs no parentheses anywhere."""
    return text.isidentifier() or text.isdigit()


def operand_text(text: str) -> str:
    """In parentheses unless it is one word."""
    return text if is_word(text) else f"({text})"


def dim_text(dim: Dim, symbol: Callable[[str], str], function: Callable[[str], str]) -> str:
    """A size as a C expression of long long. `symbol` names the variable of a size symbol, `function` the helper that
    divides or takes an extremum (`floor_div`, `floor_mod`, `smaller`, `larger`)."""
    if isinstance(dim, int):
        return f"{dim}LL" if abs(dim) > 0x7FFF_FFFF else str(dim)
    terms: list[str] = []
    for atoms, coefficient in dim.terms:
        factors = [_atom_text(atom, symbol, function) for atom in atoms]
        if not factors:
            factors = [str(abs(coefficient))]
        elif abs(coefficient) != 1:
            factors.insert(0, str(abs(coefficient)))
        sign = ("-" if coefficient < 0 else "") if not terms else (" - " if coefficient < 0 else " + ")
        terms.append(sign + " * ".join(factors))
    return "".join(terms)


_FUNCTIONS = {"floordiv": "floor_div", "mod": "floor_mod", "min": "smaller", "max": "larger"}


def _atom_text(atom: Atom, symbol: Callable[[str], str], function: Callable[[str], str]) -> str:
    if isinstance(atom, Symbol):
        return symbol(atom.name)
    assert isinstance(atom, Opaque)
    left, right = dim_text(atom.left, symbol, function), dim_text(atom.right, symbol, function)
    return f"{function(_FUNCTIONS[atom.operation])}({left}, {right})"

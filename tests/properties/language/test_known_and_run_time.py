"""An expression of scalars has one value, whether they are known when compiling or only when running: Python's.

The same text is lowered twice, with its names as compile-time constants and as run-time arguments, and evaluated by
Python. Where Python fails, or needs more than 64 bits on the way, nothing is asked.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.kernels.lowered_kernels import kernel_from_text, run_kernel

INTEGERS, FLOATS, BOOLS = "abc", "pqr", "st"
VALUES = st.fixed_dictionaries(
    {name: st.integers(-9, 9) for name in INTEGERS}
    | {name: st.sampled_from([-2.5, -1.0, -0.5, 0.0, 0.25, 1.5, 3.0, math.inf, math.nan]) for name in FLOATS}
    | {name: st.booleans() for name in BOOLS}
)
LINE = np.arange(10, 15)


def larger(numbers: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions whose parts are `numbers`."""
    operator = st.sampled_from(["+", "-", "*", "/", "//", "%", "<", "<=", ">", ">=", "==", "!=", "and", "or"])
    function = st.sampled_from(["min", "max", "tile.minimum", "tile.maximum"])
    single = st.sampled_from(["-{}", "+{}", "not {}", "abs({})", "tile.abs({})", "int({})", "float({})", "bool({})"])
    choice = st.sampled_from(["{} if {} else {}", "tile.where({1}, {0}, {2})"])
    return st.one_of(
        st.tuples(numbers, operator, numbers).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(function, numbers, numbers).map(lambda p: f"{p[0]}({p[1]}, {p[2]})"),
        st.tuples(single, numbers).map(lambda p: f"({p[0].format(p[1])})"),
        st.tuples(choice, numbers, numbers, numbers).map(lambda p: f"({p[0].format(*p[1:])})"),
        st.tuples(numbers, st.sampled_from(["** 0", "** 1", "** 2", "** 3", "** 2.0"])).map(
            lambda p: f"({p[0]} {p[1]})"
        ),
    )


def larger_integer(numbers: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions of integers: bits, shifts, elements of a tensor and of a tile."""
    operator = st.sampled_from(["+", "-", "*", "//", "%", "&", "|", "^"])
    shift = st.tuples(numbers, st.sampled_from(["<<", ">>"]), st.sampled_from(["0", "3", "40", "abs(a)", "max(b, 0)"]))
    return st.one_of(
        st.tuples(numbers, operator, numbers).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        shift.map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        numbers.map(lambda p: f"(~{p})"),
        numbers.map(lambda p: f"(- {p})"),
        st.tuples(st.sampled_from(["line", "row"]), numbers).map(lambda p: f"int({p[0]}[{p[1]} + 0])"),
    )


NUMBERS = st.sampled_from([*INTEGERS, *FLOATS, *BOOLS, "2", "-3", "0.5", "True"])
EXPRESSIONS = st.one_of(
    st.recursive(NUMBERS, larger, max_leaves=6),
    st.recursive(st.sampled_from([*INTEGERS, "2", "-3"]), larger_integer, max_leaves=6),
)


class Line:
    """A line of numbers that is 0 outside, as tensors and tiles are."""

    def __getitem__(self, index: int) -> int:
        return int(LINE[index]) if 0 <= index < len(LINE) else 0


def extremum(pick: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def of_two(x: Any, y: Any) -> Any:
        return math.nan if x != x or y != y else pick(x, y)

    return of_two


def choose(condition: Any, yes: Any, no: Any) -> Any:
    return yes if condition else no


WORDS: dict[str, Any] = {
    "tile": SimpleNamespace(minimum=extremum(min), maximum=extremum(max), abs=abs, where=choose),
    "min": extremum(min), "max": extremum(max), "line": Line(), "row": Line(),
}  # fmt: skip


def python_value(text: str, values: dict[str, Any]) -> Any:
    """What Python makes of an expression, if all of its parts, and itself, are numbers of 64 bits; else None."""
    value: Any = None
    for node in reversed(list(ast.walk(ast.parse(text, mode="eval").body))):
        if not isinstance(node, ast.expr) or isinstance(node, (ast.Name, ast.Attribute)):
            continue
        try:
            value = eval(ast.unparse(node), {**WORDS, **values})
        except (ArithmeticError, ValueError, TypeError):
            return None
        if isinstance(value, complex) or (isinstance(value, int) and abs(value) >= 1 << 53):
            return None
    return eval(text, {**WORDS, **values})


def both(text: str, values: dict[str, Any]) -> tuple[float, float]:
    """The expression's value with its names known when compiling, and known when running."""
    names = ", ".join(values)
    kernel = kernel_from_text(f"""
        def kernel(x, {names}):
            N = x.shape[0]
            out = tile.empty(1, tile.f64)
            for _ in tile.grid(1, block=1):
                line, row = x, x[:]
                out[0] = {text}
            return out
    """)
    known = run_kernel(kernel, LINE, constants=dict(values))[0]
    return float(known[0]), float(run_kernel(kernel, LINE, *values.values())[0][0])


@given(EXPRESSIONS, VALUES)
def test_known_and_run_time_scalars_compute_alike(text: str, values: dict[str, Any]) -> None:
    expected = python_value(text, values)
    assume(expected is not None)
    np.testing.assert_equal(both(text, values), (float(expected), float(expected)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("line[a - 1]", 0),  # outside, not the last
        ("row[a - 1]", 0),
        ("line[b]", 0),
        ("row[b]", 0),
        ("line[-1] + row[-1]", 28),  # literals count from the end
        ("~s", 0),
        ("~s + ~s", 0),
        ("s + s", 2),
        ("(b > 0) + (b > 3)", 2),
        ("b and 5 or 7", 5),
        ("a or b", 5),
        ("max(p, 1.0)", math.nan),
        ("min(1.0, p)", math.nan),
        ("7 // c + 7 % c", -5),
        ("-b >> 70", -1),
        ("1 if p else 0", 1),
    ],
)
def test_where_the_two_could_differ(text: str, expected: float) -> None:
    values = {"a": 0, "b": 5, "c": -2, "p": math.nan, "s": True}
    np.testing.assert_equal(both(text, values), (expected, expected))


@given(*[st.integers(-9, 9)] * 2, st.integers(-4, 4).filter(bool))
def test_ranges_run_alike(start: int, stop: int, step: int) -> None:
    kernel = kernel_from_text(f"""
        def kernel(start, stop):
            out = tile.empty(1, tile.i64)
            for _ in tile.grid(1, block=1):
                total = 1
                for i in range(start, stop, {step}):
                    total = total * 3 + i
                out[0] = total
            return out
    """)
    total = 1
    for i in range(start, stop, step):
        total = total * 3 + i
    known = run_kernel(kernel, constants={"start": start, "stop": stop})[0]
    assert [known[0], run_kernel(kernel, start, stop)[0][0]] == [total, total]

"""Expressions mean in a kernel what they mean in NumPy: values and dtypes, for generated expressions.

The same text is evaluated twice: in a kernel, on blocks, by the reference executor; and by Python, on whole arrays.
All operations used here round correctly, so the results are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.kernels.lowered_kernels import kernel_from_text, run_kernel
from tiledsl.ir.dtypes import from_numpy

RNG = np.random.default_rng(3)
ARRAYS: dict[str, Any] = {
    "x": RNG.integers(-9, 10, (5, 7)).astype(np.float32) / 4,
    "h": RNG.integers(-9, 10, (5, 7)).astype(np.float16) / 2,
    "i": RNG.integers(-9, 10, (5, 7)).astype(np.int32),
    "u": RNG.integers(0, 9, (5, 7)).astype(np.uint8),
    "b": RNG.integers(0, 2, (5, 7)).astype(np.bool_),
    "r": RNG.integers(-9, 10, 7).astype(np.float32),
}


def on_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's function, refusing Python numbers alone: NumPy makes strong scalars of them, the language does not."""

    def checked(*values: Any) -> Any:
        if not any(isinstance(value, np.ndarray) for value in values[-2:]):
            raise TypeError
        return function(*values)

    return checked


NUMPY = SimpleNamespace(
    where=on_arrays(np.where), minimum=on_arrays(np.minimum), maximum=on_arrays(np.maximum), abs=abs
)
"""What `tile` stands for when Python evaluates an expression."""

NUMBERS = st.sampled_from([*"xhixr", "2", "-3", "0.5", "N"])
BOOLS = st.just("b")


def larger_number(numbers: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(numbers, st.sampled_from(["+", "-", "*", "//", "%"]), numbers)
    bounds = st.tuples(st.sampled_from(["minimum", "maximum"]), numbers, numbers)
    choice = st.tuples(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), numbers, numbers, numbers)
    return st.one_of(
        pair.map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        bounds.map(lambda p: f"tile.{p[0]}({p[1]}, {p[2]})"),
        choice.map(lambda p: f"tile.where({p[1]} {p[0]} {p[2]}, {p[3]}, {p[1]})"),
        numbers.map(lambda p: f"(-{p})"),
        numbers.map(lambda p: f"tile.abs({p})"),
    )


def larger_integer(integers: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>"])
    return st.tuples(integers, operators, integers).map(lambda p: f"({p[0]} {p[1]} {p[2]})")


EXPRESSIONS = st.one_of(
    st.recursive(NUMBERS, larger_number, max_leaves=6),
    st.recursive(st.sampled_from(["i", "u", "3", "b"]), larger_integer, max_leaves=4),
)


def evaluate(text: str) -> Any:
    """The value of an expression on whole arrays, or None where NumPy rejects it."""
    with np.errstate(all="ignore"):
        try:
            value = eval(text, {"tile": NUMPY, "N": 7, **ARRAYS})
        except (TypeError, OverflowError, ZeroDivisionError, ValueError):
            return None
    return cast(Any, value) if isinstance(value, np.ndarray) else None


@given(EXPRESSIONS, st.sampled_from([1, 3, 8]))
def test_expressions_are_those_of_numpy(text: str, block: int) -> None:
    expected = evaluate(text)
    if expected is None:
        return
    result = from_numpy(expected.dtype)
    kernel = kernel_from_text(f"""
        def kernel(x_, h_, i_, u_, b_, r_, result):
            M, N = x_.shape
            out = tile.empty((M, N), result)
            for m, n in tile.grid(M, N, block=({block + 1}, {block + 1})):
                x, h, i, u, b, r = x_[m, n], h_[m, n], i_[m, n], u_[m, n], b_[m, n], r_[n]
                value = {text}
                tile.static_assert(value.dtype == result)
                out[m, n] = value
            return out
    """)
    got = run_kernel(kernel, *ARRAYS.values(), constants={"result": result})[0]
    np.testing.assert_array_equal(got, np.broadcast_to(expected, (5, 7)))

"""What remains of scalars: of what ops say, nothing that is not so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.gpu.remainders import remainder
from tiledsl.ir.types import scalar
from tiledsl.support.location import BUILTIN

NUMBERS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "minimum": min,
    "maximum": max,
    "floordiv": lambda a, b: a // b if b else 0,
}


@dataclass(frozen=True)
class Scalar:
    """A scalar, what it is where parameters are 5, and how far it is known."""

    value: Value
    number: int


@st.composite
def scalars(draw: st.DrawFn) -> Scalar:
    """Made of constants and parameters."""
    body = Block()
    builder = Builder(body, BUILTIN)
    pool = [Scalar(body.add_argument(scalar(i64), "x"), 5)]
    for _ in range(draw(st.integers(1, 6))):
        if draw(st.booleans()):
            number = draw(st.integers(-20, 40))
            pool.append(Scalar(builder.constant(number, i64), number))
        else:
            fn = draw(st.sampled_from(sorted(NUMBERS)))
            left, right = (draw(st.sampled_from(pool)) for _ in range(2))
            pool.append(Scalar(builder.map(fn, left.value, right.value), NUMBERS[fn](left.number, right.number)))
    return pool[-1]


@given(one=scalars(), divisor=st.sampled_from([1, 2, 8, 16, 12]))
def test_what_is_known_is_so(one: Scalar, divisor: int) -> None:
    found = remainder(one.value, divisor)
    assert divisor % found.divisor == 0
    assert one.number % found.divisor == found.rest


@pytest.mark.parametrize(
    ("fn", "left", "right", "expected"),
    [("add", "x", 3, (1, 0)), ("mul", "x", 4, (4, 0)), ("mul", 6, 3, (8, 2)), ("sub", 3, 4, (8, 7))],
)
def test_what_is_known(fn: str, left: int | str, right: int, expected: tuple[int, int]) -> None:
    body = Block()
    builder = Builder(body, BUILTIN)
    first = body.add_argument(scalar(i64), "x") if isinstance(left, str) else builder.constant(left, i64)
    assert remainder(builder.map(fn, first, builder.constant(right, i64)), 8) == expected


def test_a_sum_of_a_product() -> None:
    body = Block()
    builder = Builder(body, BUILTIN)
    product = builder.map("mul", body.add_argument(scalar(i64), "x"), builder.constant(24, i64))
    assert remainder(builder.map("add", product, builder.constant(3, i64)), 8) == (8, 3)

"""Folding against the reference executor: whatever is folded is what a run would give."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tiledsl.backend_ref.scalar_functions import apply, cast, constant
from tiledsl.ir.core import Number
from tiledsl.ir.dtypes import ALL, BY_NAME, DType, bool_, i4, u4
from tiledsl.ir.scalar_functions import SCALAR_FUNCTIONS
from tiledsl.passes.analysis.scalars.fold_constants import fold, fold_cast

DTYPES = [dtype for dtype in ALL if dtype not in (i4, u4)]
NUMBERS: tuple[Number, ...] = (0, 1, -1, 7, 3, 200, -0.0, 0.1, 2.5, -3.7, 1e30, math.inf, math.nan)


def numbers(dtype: DType) -> list[Number]:
    if dtype == bool_:
        return [False, True]
    return [n for n in NUMBERS if dtype.is_float or isinstance(n, int)]


@pytest.mark.parametrize("name", SCALAR_FUNCTIONS)
def test_functions(name: str) -> None:
    function = SCALAR_FUNCTIONS[name]
    folded = 0
    for dtype in filter(function.accepts, DTYPES):
        values = numbers(dtype)[:7] if function.arity > 1 else numbers(dtype)
        dtypes = (bool_, dtype, dtype) if name == "where" else (dtype,) * function.arity
        choices = [[True, False] if d == bool_ else values for d in dtypes]
        for chosen in itertools.product(*choices):
            found = fold(name, list(zip(chosen, dtypes)))
            if found is not None:
                expected = apply(name, *(constant(v, d) for v, d in zip(chosen, dtypes)))
                given = constant(found, function.result(dtype))
                assert given.tobytes() == expected.tobytes(), (name, dtype, chosen)
                folded += 1
    assert (folded == 0) == (function.cost > 8 or name in ("rsqrt", "fma", "pow") or name.startswith("plane"))


@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_casts(source: DType) -> None:
    for dtype, number in itertools.product(DTYPES, numbers(source)):
        found = fold_cast(number, source, dtype)
        if found is not None:
            with np.errstate(all="ignore"):
                expected = cast(constant(number, source), dtype)
            assert constant(found, dtype).tobytes() == expected.tobytes(), (dtype, number)


@pytest.mark.parametrize(
    ("number", "source", "dtype"),
    [(math.nan, "f32", "i32"), (300.0, "f32", "u8"), (-1.0, "f32", "u64"), (1, "i4", "i8")],
)
def test_casts_that_are_not_specified_are_left(number: Number, source: str, dtype: str) -> None:
    assert fold_cast(number, BY_NAME[source], BY_NAME[dtype]) is None

"""Batched products on the CPU against the reference executor, with extents of 1 in every position."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.compare import assert_close
from tests.support.cpu_programs import run_on_cpu
from tests.support.generators.random_dots import BatchedDot, Extent, batched_dots
from tests.support.tile_programs import run


def check(program: BatchedDot, block: int) -> None:
    arguments = program.arguments()
    (expected,) = run(program.text, *arguments, block=block)
    (actual,) = run_on_cpu(program.text, *arguments, block=block)
    try:
        assert_close(actual, expected)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{program.text}") from error


@pytest.mark.parametrize("units", [*itertools.product([True, False], repeat=3)], ids=str)
def test_matrices_with_axes_of_one_element(units: tuple[bool, bool, bool]) -> None:
    m, k, n = (Extent(1, True) if unit else Extent(5, False) for unit in units)
    check(BatchedDot((Extent(4, False),), m, k, n), block=3)
    check(BatchedDot((Extent(2, False), Extent(19, True)), m, k, n, transposed=True), block=2)


@given(program=batched_dots(), block=st.sampled_from([1, 3, 16]))
@settings(max_examples=8)
def test_batched_dots(program: BatchedDot, block: int) -> None:
    check(program, block)


def test_the_reference_multiplies_as_numpy() -> None:
    program = BatchedDot((Extent(4, False),), Extent(1, True), Extent(1, True), Extent(5, False))
    x, y, c = program.arguments()
    assert_close(run(program.text, x, y, c, block=3)[0], np.matmul(x, y))

"""A reference that is run in part: what it did not come to has to be as the model's pick has it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from gemm import gemm
from softmax import softmax
from tiledsl import tile
from tiledsl.autotune.measuring import wide_reference
from tiledsl.autotune.measuring.cases import Case, given_case
from tiledsl.autotune.measuring.verify import Oracle, arrays_of, complete, verify
from tiledsl.autotune.measuring.wide_reference import Sample, can_be_sampled, run_by_reference
from tiledsl.backend_ref.execution import AxisBlock
from tiledsl.ir.core import Function
from tiledsl.ir.text.parser import parse_module
from tiledsl.runtime.arrays.arrays import Array, row_major

A: Any = np.random.default_rng(0).standard_normal((64, 48)).astype(np.float32)
B: Any = np.random.default_rng(1).standard_normal((48, 80)).astype(np.float32)


def prepared(kernel: Any, *arrays: Any) -> tuple[Function, Case]:
    compiled = kernel.compile(*arrays)
    function = parse_module(compiled.ir(stage="front")).entry
    sizes = compiled.sizes_of(list(arrays))
    given = [array.shape for array in arrays]
    made = [tuple(sizes[str(dim)] for dim in new.shape) for new in compiled.interface.new_tensors]
    strides = [row_major(shape) for shape in (*given, *made)]
    return function, given_case(compiled.interface, sizes, strides, list(arrays), [])


def test_a_sample_is_what_there_is_time_for_and_the_last_one_is_in_it() -> None:
    programs = [(AxisBlock(n, 1),) for n in range(10)]
    now = iter(range(100))
    sample = Sample(4, clock=lambda: float(next(now)))
    ran = list(sample(programs))
    assert ran[0] == programs[-1]
    assert len(ran) == len(set(ran)) == 4
    assert not sample.complete
    every = Sample(1e9)
    assert sorted(every(programs)) == programs
    assert every.complete


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide_reference, "INNER", 16)


def wrong_in_a_corner(function: Function, case: Case, arrays: list[Array]) -> None:
    run_by_reference(function, case, arrays, 1e9)
    arrays[2][0, 0] += 1


def in_part(function: Function, case: Case, arrays: list[Array]) -> bool:
    return run_by_reference(function, case, arrays, 0.0)


def right(function: Function, case: Case, arrays: list[Array]) -> None:
    run_by_reference(function, case, arrays, 1e9)


def oracle_of(function: Function) -> Oracle:
    return Oracle(partial(in_part, function))


def test_one_program_and_the_pick_say_what_is_right(small_blocks: None) -> None:
    function, case = prepared(gemm, A, B)
    oracle = oracle_of(function)
    (wanted,) = oracle.expected(case)
    assert wanted.partial
    assert int(np.isnan(wanted.expected).sum()) == 64 * 80 - 16 * 16
    assert complete([case], partial(right, function), oracle) is None
    np.testing.assert_allclose(wanted.expected, A @ B, rtol=1e-4, atol=1e-4)
    assert verify([case], partial(right, function), oracle).state == "ok"
    found = verify([case], partial(wrong_in_a_corner, function), oracle)
    assert found.state == "wrong", "no program of the reference was run there, but the pick was"
    assert "first at [0, 0]" in found.reason


def in_the_last_block(function: Function, case: Case, arrays: list[Array]) -> None:
    run_by_reference(function, case, arrays, 1e9)
    arrays[2][-1, -1] += 1


def test_a_pick_that_is_wrong_where_the_reference_was_run_is_said(small_blocks: None) -> None:
    function, case = prepared(gemm, A, B)
    oracle = oracle_of(function)
    found = complete([case], partial(in_the_last_block, function), oracle)
    assert found is not None
    assert found.state == "wrong"
    assert "`c` of the model's pick differs from the reference" in found.reason
    assert oracle.expected(case)[0].partial, "nothing is taken from it"


@tile.kernel
def doubled_in_place(x: tile.Tensor) -> None:
    """Changes what it is given."""
    for n in tile.grid(x.shape[0]):
        x[n] = 2 * x[n]


@tile.kernel
def filled(x: tile.Tensor) -> tile.Tensor:
    """Makes a result that is 0 where nothing is stored."""
    y = tile.zeros(x.shape, x.dtype)
    for n in tile.grid(x.shape[0]):
        tile.atomic_add(y[n], x[n])
    return y


@tile.kernel
def large(x: tile.Tensor) -> tile.Tensor:
    """Makes bits, which have no value that says that nobody wrote them."""
    y = tile.empty(x.shape, tile.bool)
    for n in tile.grid(x.shape[0]):
        y[n] = x[n] > 1
    return y


V: Any = A[:, 0].copy()
KINDS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], bool]] = {
    "product": (gemm, (A, B), True),
    "softmax": (softmax, (A,), True),
    "in place": (doubled_in_place, (V,), False),
    "filled": (filled, (V,), False),
    "bits": (large, (V,), False),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_can_be_run_in_part(small_blocks: None, kind: str) -> None:
    kernel, arrays, expected = KINDS[kind]
    function, case = prepared(kernel, *arrays)
    assert can_be_sampled(function, case) == expected
    arrays_, again = arrays_of(case), arrays_of(case)
    assert run_by_reference(function, case, arrays_, 0.0) is not expected
    assert run_by_reference(function, case, again, 1e9)

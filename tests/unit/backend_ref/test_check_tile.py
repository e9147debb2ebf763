from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support.gpu_cases.gpu_cases import Case
from tests.support.gpu_cases.gpu_example_cases import EXAMPLE_CASES
from tests.support.gpu_cases.gpu_language_cases import LANGUAGE_CASES
from tests.support.kernels.kernels_racy import INTEGERS, RACY, RANKS, SOUND
from tests.support.kernels.lowered_kernels import argument_for, kernel_from_text, lower
from tiledsl.backend_ref.check_tile import Checked, check
from tiledsl.frontend.kernel.arguments import ConstantArgument
from tiledsl.frontend.kernel.lower import lower_kernel
from tiledsl.frontend.source.kernel_source import KernelSource

Array = np.ndarray[Any, np.dtype[Any]]


def checked(function: Callable[..., Any], *arguments: Any) -> Checked:
    names = KernelSource(function).signature.parameters
    module = lower(function, **{name: argument_for(value) for name, value in zip(names, arguments)})
    return check(module.entry, arguments)


def arguments_for(ranks: dict[str, int]) -> list[Any]:
    random = np.random.default_rng(0)
    made: list[Any] = []
    for name, rank in ranks.items():
        drawn: Array = random.standard_normal((12,) * rank) + 2
        made.append(random.permutation(12) if name in INTEGERS else drawn.astype(np.float32) if rank else 1)
    return made


@pytest.mark.parametrize("function", RACY, ids=lambda f: f.__name__)
def test_what_is_refused_goes_wrong(function: Callable[..., Any]) -> None:
    found = checked(function, *arguments_for(RANKS[function])).findings
    codes = {error.code for error in found.errors}
    kinds = {
        "race-atomic": "check-race-atomic",
        "uninitialised": "check-uninitialised",
        "race-store": "check-race-store",
    }
    expected = kinds.get(RACY[function][0], "check-race")
    assert any(code.startswith(expected) for code in codes)


@pytest.mark.parametrize("function", SOUND, ids=lambda f: f.__name__)
def test_sound_kernels_are_so(function: Callable[..., Any]) -> None:
    found = checked(function, *arguments_for(SOUND[function]))
    assert [error.message for error in found.findings.errors] == []


def test_results_are_those_of_a_run() -> None:
    function = next(f for f in SOUND if f.__name__ == "counted")
    x = np.outer(np.arange(5), np.arange(10)).astype(np.float32)
    (y,) = checked(function, x).results
    assert np.array_equal(y, x.sum(axis=1))


def test_parameters_are_stored_to_once() -> None:
    function = next(f for f in SOUND if f.__name__ == "in_place")
    a = np.ones((5, 6), np.float32)
    checked(function, a)
    assert np.allclose(a, np.exp(1) + 1)


def test_what_is_read_in_vain_is_noted() -> None:
    function = next(f for f in SOUND if f.__name__ == "red_and_black")
    found = checked(function, np.random.default_rng(0).standard_normal((9, 9)))
    assert not found.findings
    assert len(found.notes) > 1
    assert all("no result depends on it" in note for note in found.notes)


def test_what_is_returned_and_not_stored_is_noted() -> None:
    function = kernel_from_text("""
        def f(x):
            N = x.shape[0]
            y = tile.empty(N, x.dtype)
            for n in tile.grid(N - 2):
                y[n + 1] = x[n]
            return y
    """)
    found = checked(function, np.ones(9))
    assert not found.findings
    assert found.notes == ("2 of the 9 elements of `y`, which the kernel returns, are not stored to, the first at [0]",)


def test_updates_in_any_order_are_found_though_each_order_gives_the_same() -> None:
    function = kernel_from_text("""
        def f(x, rows):
            N = x.shape[0]
            y = tile.zeros(3, x.dtype)
            for n in tile.grid(N, block=1):
                y[rows[n]] += x[n]
            return y
    """)
    x = np.ones(9, np.int64)
    assert {e.code for e in checked(function, x, np.arange(9) % 3).findings.errors} >= {"check-race-read"}
    assert not checked(function, x[:3], np.arange(3)).findings


@pytest.mark.parametrize(("beyond", "found"), [("N", False), ("N + 1", True)])
def test_stores_at_the_size_that_a_where_chooses_are_meant(beyond: str, found: bool) -> None:
    """`y[tile.where(mine, at, N)]` stores what is mine; any other place outside is a mistake."""
    function = kernel_from_text(f"""
        def f(x, at):
            N = x.shape[0]
            N = at.shape[0]
            y = tile.zeros(N, x.dtype)
            for n in tile.grid(N):
                y[tile.where(at[n] >= 0, at[n], {beyond})] = x[n]
            return y
    """)
    findings = checked(function, np.ones(9), np.array([0, -1, 2, 3, -1, 5, 6, 7, 8])).findings
    assert ("check-outside" in findings.codes) == found


def test_subscripts_that_are_computed_alone_may_lie_outside() -> None:
    function = kernel_from_text("""
        def f(x, first, rows):
            N = x.shape[0]
            y = tile.zeros(N, x.dtype)
            for n in tile.grid(N, block=1):
                y[n] = x[n - 1] + x[n + 1]
                y[n] += x[first + n]
                y[n] += tile.load(x[rows[n]], other=7)
            return y
    """)
    x, rows = np.ones(9), np.full(9, 99)
    assert not checked(function, x[:9], -1000, rows[:9]).findings.codes - {"check-outside"}
    found = checked(function, x, 1, rows).findings.errors
    assert [error.message for error in found] == ["program (n = 8) reads `x` at 9 along axis 0, whose size is 9"]


def test_stores_of_what_is_there_change_nothing() -> None:
    function = kernel_from_text("""
        def f(x, rows):
            N = x.shape[0]
            for n in tile.grid(N):
                x[rows[n]] = 3
    """)
    assert not checked(function, np.zeros(9), np.zeros(9, np.int64)).findings


def test_narrow_floats_and_scalars() -> None:
    function = kernel_from_text("""
        def f(x, total):
            N = x.shape[0]
            for n in tile.grid(N):
                x[n] = x[n] * 2
            for n in tile.grid(1, block=1):
                total[()] = tile.sum(x[:]).to(total.dtype)
    """)
    from tiledsl.ir.dtypes import bf16, to_numpy

    found = checked(function, np.ones(9, to_numpy(bf16)), np.zeros((), np.float64))
    assert not found.findings


ONE_OF_EACH: dict[object, Case] = {
    (case.kernel.__name__, str(case.constants)): case for case in (*EXAMPLE_CASES, *LANGUAGE_CASES)
}


@pytest.mark.parametrize("case", ONE_OF_EACH.values(), ids=str)
def test_kernels_of_the_tests_are_sound(case: Case) -> None:
    """But for coordinates that are meant to lie outside."""
    arguments = case.arguments()
    source = KernelSource(case.kernel.__wrapped__)
    names = [name for name in source.signature.parameters if name not in case.constants]
    given: dict[str, Any] = {name: argument_for(value) for name, value in zip(names, arguments)}
    given |= {name: ConstantArgument(value) for name, value in case.constants.items()}
    found = check(lower_kernel(source, given).entry, arguments, output=lambda line: None).findings
    assert [str(error) for error in found.errors if error.code != "check-outside"] == []

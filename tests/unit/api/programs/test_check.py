from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from tests.support.compare import assert_close
from tests.support.kernels import kernels_racy
from tiledsl import Kernel, TileRaceError, TileRuntimeError, TileShapeError, fuse, ops, tile, trace
from tiledsl.api.programs.checked_programs import CheckReport
from tiledsl.support.errors import TileTypeError

RAMP: Any = np.arange(12, dtype=np.float32)
SOME = np.arange(12)
TWICE = np.arange(12) // 2


def kernel_of(function: Any) -> Kernel:
    return Kernel(function)


@pytest.fixture
def checking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEDSL_CHECK", "1")


def test_sound() -> None:
    report = kernel_of(kernels_racy.permuted).check(RAMP, 11 - SOME)
    assert report.ok
    assert report
    assert np.array_equal(report.result, RAMP[::-1])
    assert repr(report) == "<check: ok>"
    assert str(report) == "nothing wrong was found"
    report.raise_if_any()


def test_findings() -> None:
    report = kernel_of(kernels_racy.permuted).check(RAMP, TWICE % 3)
    assert not report.ok
    assert not report
    assert {error.code for error in report.errors} == {"check-race-within", "check-race-store"}
    assert repr(report) == "<check: 2 errors>"
    assert all(error.message in str(report) for error in report.errors)
    with pytest.raises(TileRaceError, match="1 more: race: ") as caught:
        report.raise_if_any()
    assert caught.value is report.errors[0]


def test_notes() -> None:
    report = CheckReport(None, (), ("something",))
    assert report.ok
    assert str(report) == "nothing wrong was found\n\nnote: something"


def test_arguments_and_outputs_are_those_of_a_call() -> None:
    x, out = RAMP.copy(), np.empty_like(RAMP)
    kernel = kernel_of(kernels_racy.in_place)
    a = np.zeros((4, 5), np.float32)
    assert kernel.check(a=a).result is None
    assert (a == 2).all()
    assert kernel_of(kernels_racy.permuted).check(x, order=SOME, out=out).result is out
    assert np.array_equal(out, x)
    with pytest.raises(TileTypeError):
        kernel.check(a, a)
    with pytest.raises(TileShapeError):
        kernel_of(kernels_racy.permuted).check(x, SOME[:5])


def test_what_is_refused_when_compiling_is_refused() -> None:
    with pytest.raises(TileRaceError, match="along `n`"):
        kernel_of(kernels_racy.update).check(np.ones((3, 4), np.float32))


def test_failed_assertions_are_raised() -> None:
    @tile.kernel
    def positive(x: tile.Tensor) -> None:
        N = x.shape[0]
        for n in tile.grid(N):
            tile.assert_(x[n] > 0)

    with pytest.raises(TileRuntimeError, match="assertion failed"):
        positive.check(RAMP)


def test_formulas() -> None:
    @tile.kernel
    def formula(x: Any, rows: Any) -> Any:
        return tile.softmax(tile.take(x, rows) @ x.T)

    x = np.outer(RAMP, RAMP[:5]) / 60
    report = formula.check(x, SOME)
    assert report.ok, report
    assert_close(report.result, formula(x, SOME), relative=1e-5)
    (error,) = formula.check(x, SOME + 1).errors
    assert error.code == "check-outside"
    assert "at 12 along axis 0, whose size is 12" in error.message
    assert error.location is not None
    assert error.location.file == __file__


def test_formulas_that_call_kernels() -> None:
    permuted = kernel_of(kernels_racy.permuted)

    @tile.kernel
    def formula(x: Any, rows: Any) -> Any:
        return permuted(x, rows) + 1

    assert formula.check(RAMP, SOME).ok
    assert formula.check(RAMP, TWICE).errors[0].code == "check-race-within"


def test_ops_are_sound() -> None:
    x = np.random.default_rng(0).standard_normal((2, 20, 16), np.float32)

    @tile.kernel
    def formula(x: Any) -> Any:
        return ops.attention(x, x, x)

    report = formula.check(x)
    assert report.ok, report


@pytest.mark.usefixtures("checking")
def test_calls_are_checked_if_the_environment_says_so() -> None:
    permuted, x = kernel_of(kernels_racy.permuted), RAMP.copy()
    assert np.array_equal(permuted(x, SOME), x)
    with pytest.raises(TileRaceError, match="several values"):
        permuted(x, TWICE)
    assert np.array_equal(permuted(x, SOME), x)


@pytest.mark.usefixtures("checking")
def test_nothing_is_written_where_a_check_fails() -> None:
    x = RAMP.copy()
    with pytest.raises(TileRaceError):
        kernel_of(kernels_racy.neighbours_by_choice)(x)
    assert np.array_equal(x, RAMP)
    a = np.zeros((4, 5), np.float32)
    kernel_of(kernels_racy.in_place)(a)
    assert (a == 2).all()  # once


@pytest.mark.usefixtures("checking")
def test_formulas_and_modules_are_checked_if_the_environment_says_so() -> None:
    permuted = kernel_of(kernels_racy.permuted)

    def formula(x: Any, rows: Any) -> Any:
        return permuted(x, rows) + 1

    for run in (
        Kernel(formula),
        fuse(trace(formula, RAMP, SOME)).build(),
        fuse(trace(formula, RAMP, SOME)).build("cpu"),
    ):
        assert np.array_equal(run(RAMP, SOME), RAMP + 1)
        with pytest.raises(TileRaceError, match="several values"):
            run(RAMP, TWICE)


@pytest.mark.usefixtures("checking")
def test_what_is_defined_is_only_logged_then(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="tiledsl"):
        kernel_of(kernels_racy.permuted)(RAMP, SOME + 1)
    assert "stores to `y` at 12 along axis 0" in caplog.text

"""`tiledsl verify`, in process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.kernels import call_kernels
from tiledsl import tile
from tiledsl.cli.main import main
from tiledsl.cli.verify_kernel import LAYOUTS, VALUES, Trial, arguments, verify_kernel
from tiledsl.ir.dtypes import f16
from tiledsl.support.errors import make_error

FILE = Path(call_kernels.__file__)
X = tile.spec(("M", "N"), tile.f32)


@pytest.mark.parametrize(
    ("name", "specs"),
    [
        ("gemm", ["f32[M,K]", "f32[K,9]"]),
        ("scale", ["f32[M]", "float", "int"]),
        ("accumulate", ["f32[M]", "f32[M]"]),
    ],
)
def test_kernels_that_are_right(name: str, specs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    given = [word for spec in specs for word in ("--spec", spec)]
    assert main(["verify", f"{FILE}:{name}", *given, "--runs", "5", "--dtype", "f32", "f16"]) == 0
    assert capsys.readouterr().out == "5 calls agree with the reference\n"


class Doubled:
    """A kernel and its reference; the kernel does what `fault` does besides."""

    def __init__(self, fault: Callable[[Any, Any], object]) -> None:
        self.fault = fault

    def __call__(self, x: Any) -> Any:
        y = x + x
        self.fault(x, y)
        return y

    def compile(self, *specs: object, arch: str) -> Any:
        assert arch == "reference"
        del specs
        return lambda x: x + x  # pyright: ignore[reportUnknownLambdaType, reportUnknownVariableType]


def verified(fault: Callable[[Any, Any], object], runs: int = 60) -> str:
    kernel: Any = Doubled(fault)
    return str(verify_kernel(kernel, [X], {}, [None], runs, 0))


def test_what_differs_is_made_smaller() -> None:
    def long_rows(x: Any, y: Any) -> None:
        if x.shape[1] > 6:
            y[0, 6] += 1

    text = verified(long_rows)
    assert "M=1, N=7; normal values, lying in rows" in text
    assert "result 0 differs from the reference in 1 of 7 elements, first at [0, 6]" in text


def test_faults_of_layouts_and_values_are_found() -> None:
    def gaps(x: Any, y: Any) -> None:
        if x.shape[0] > 1 and not x.flags.c_contiguous and not x.flags.f_contiguous:
            y[-1] = 0

    def nothing_at_zero(x: Any, y: Any) -> None:
        if not x.any():
            y[...] = 1

    assert "lying in gaps" in verified(gaps)
    assert "zeros values" in verified(nothing_at_zero)


def test_arguments_that_are_changed() -> None:
    def changed(x: Any, y: Any) -> None:
        x[0, 0] = 7

    assert "argument 0 differs from the reference" in verified(changed)


def test_who_refuses_alone_is_wrong_and_both_together_are_counted() -> None:
    def refuses(x: Any, y: Any) -> None:
        if x.shape[0] == 1:
            raise make_error("tuning-nowhere", None)

    assert "only the call refuses it" in verified(refuses)
    both: Any = Doubled(refuses)
    both.compile = lambda *specs, arch: both  # pyright: ignore[reportUnknownLambdaType]
    assert "were refused by both" in str(verify_kernel(both, [X], {}, [None], 60, 0))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("values", VALUES)
def test_equal_trials_have_equal_arguments(layout: str, values: str) -> None:
    trial = Trial({"M": 5, "N": 7}, layout, values, f16, 3)
    (one,), (other,) = (arguments([X], trial) for _ in range(2))
    assert one.dtype == np.float16
    assert one.tobytes() == other.tobytes()
    assert one.strides == other.strides

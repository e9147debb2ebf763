"""Every feature of the language on the device against the reference."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.compare import assert_close
from tests.support.gpu_cases.gpu_cases import Case, expected
from tests.support.gpu_cases.gpu_language_cases import LANGUAGE_CASES, kernel
from tests.support.gpu_cases.run_on_gpu import check, on_device
from tests.support.gpu_code.cuda_arrays import Framework
from tests.support.kernels import kernels_control as control
from tiledsl import TileRuntimeError


@pytest.mark.parametrize("case", LANGUAGE_CASES, ids=str)
def test_language(case: Case, cuda: Framework) -> None:
    check(case, cuda)


def speaking_case(values: list[int]) -> Case:
    return Case("speaking", kernel(control.speaking), lambda random: [np.array(values, np.int32)])


def test_prints(cuda: Framework, capfd: pytest.CaptureFixture[str]) -> None:
    on_device(speaking_case([1, 2, 3]), cuda)
    lines = capfd.readouterr().out.splitlines()
    assert sum(line.startswith("block of 03") for line in lines) >= 2


def test_assertions(cuda: Framework) -> None:
    def call_again() -> None:  # a fault is reported at the latest by the call after the device has been waited for
        on_device(speaking_case([1, 20]), cuda)
        on_device(speaking_case([1, 2]), cuda)

    with pytest.raises(TileRuntimeError, match="below ten"):
        call_again()


def test_results_do_not_change_between_runs(cuda: Framework) -> None:
    case = next(case for case in LANGUAGE_CASES if case.name == "attention of 5 and 11")
    first = on_device(case, cuda)
    for _ in range(20):
        again = on_device(case, cuda)
        assert (first.returned[0] == again.returned[0]).all()
    assert_close(first.returned[0], expected(case).returned[0], terms=case.terms)

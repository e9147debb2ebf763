"""Runs a GPU case on the device and holds it against the reference executor."""

from __future__ import annotations

from tests.support.gpu_cases.gpu_cases import Case, Outcome, assert_same, expected, outcome
from tests.support.gpu_code.cuda_arrays import Framework


def on_device(case: Case, framework: Framework) -> Outcome:
    """What the case leaves when its arrays are the framework's."""
    arguments = case.arguments(framework.put)
    returned = case.kernel(*arguments, **case.constants)
    framework.synchronise()
    return outcome(returned, arguments, framework.is_tensor, framework.take)


def check(case: Case, framework: Framework) -> None:
    """Fails unless device and reference agree."""
    assert_same(case, on_device(case, framework), expected(case))

"""Launches on a CPU by plans that somebody else has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gemm import gemm
from tests.support.fakes.plan_sources import Fixed
from tiledsl.backend_cpu.calls.program import BoundDescription, CpuProgram
from tiledsl.runtime.programs.plan_source import Answer

A: Any = np.random.default_rng(0).standard_normal((50, 70)).astype(np.float32)
SIZES = {"M": 50, "K": 70, "N": 50}


def bound(source: Fixed) -> Any:
    program = gemm.compile(A, A.T).program
    assert isinstance(program, CpuProgram)
    return program.load_with(source).bind(SIZES, [(70, 1), (1, 70), (50, 1)], 2)


def test_the_plan_is_taken_and_the_result_is_the_same() -> None:
    source = Fixed(Answer("m=16, n=32, k=24, 2 threads"))
    program = bound(source)
    described = program.description
    assert isinstance(described, BoundDescription)
    assert (described.blocks, described.threads) == ({"m": 16, "n": 32, "k": 24}, (2,))
    made: Any = np.full((50, 50), np.nan, np.float32)
    b = A.T
    program([A.ctypes.data, b.ctypes.data, made.ctypes.data], [])
    np.testing.assert_allclose(made, A @ b, rtol=1e-4, atol=1e-4)
    assert source.refusals == []


def test_the_question_has_all_that_matters() -> None:
    source = Fixed()
    bound(source)
    (question,) = source.asked
    assert question.target == "cpu"
    assert dict(question.sizes) == SIZES
    assert question.strides == ((70, 1), (1, 70), (50, 1))
    assert question.threads == 2
    assert question.device
    assert question.program


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        ("m=17, n=32, k=24, 2 threads", "`m=17` is no multiple of 8"),
        ("m=16, n=32, 2 threads", "blocks of k, m, n, and the plan of m, n"),
        ("m=16, n=32, k=24, 3 threads", "there are 2 threads"),
        ("nonsense", "`nonsense` is nothing that a plan"),
    ],
)
def test_a_plan_that_does_not_fit_is_left(plan: str, reason: str) -> None:
    source = Fixed(Answer(plan))
    assert bound(source).description == bound(Fixed()).description
    (told,) = source.refusals
    assert reason in told

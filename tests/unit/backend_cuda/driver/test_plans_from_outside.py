"""Code for GPUs by plans that somebody else has."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from gemm import gemm
from tests.support.fakes.plan_sources import Fixed
from tiledsl import tile
from tiledsl.backend_cuda.program import CudaProgram, code_digest, digest_of_source
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module
from tiledsl.passes.gpu.plan import parse_plan
from tiledsl.passes.gpu.plans.choose_plans import ranked_plans
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.runtime.programs.plan_source import Answer, PlansFor

SIZES = {"M": 256, "K": 128, "N": 256}
ALIGNMENT, LYING = (16, 16, 16), (16, 16, 16)


@cache
def program() -> CudaProgram:
    a: Any = np.empty((256, 128), np.float16)
    b: Any = np.empty((128, 256), np.float16)
    made = gemm.compile(a, b, arch="sm_90").program
    assert isinstance(made, CudaProgram)
    return made


@cache
def plans() -> list[str]:
    found = ranked_plans(program().module.entry, gpu_machine("sm_90"), SIZES, ALIGNMENT, laid=LYING)
    return [str(one.plan) for one in found]


def planned(source: Fixed | None) -> str:
    asked = None if source is None else PlansFor(source)
    made = program().planned(SIZES, ALIGNMENT, LYING, chained=False, plans=asked)
    return str(made.variant.plan)


def test_the_plan_is_taken() -> None:
    source = Fixed(Answer(plans()[1]))
    assert planned(source) == plans()[1] != planned(None)
    (question,) = source.asked
    assert (question.target, question.alignment, dict(question.sizes)) == ("sm_90", ALIGNMENT, SIZES)


def test_a_plan_for_the_code_that_was_measured() -> None:
    source = Fixed(Answer(plans()[1]))
    made = program().planned(SIZES, ALIGNMENT, LYING, chained=False, plans=PlansFor(source))
    assert planned(Fixed(Answer(plans()[1], code_digest(made.variant)))) == plans()[1]
    other = Fixed(Answer(plans()[1], "0" * 40))
    assert planned(other) == planned(None)
    assert other.refusals == ["its code is another one than that which was measured"]


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        ("m=64, 128 threads, K:=64, aligned to 16/16/16", "it is for K = 64, and that is 128"),
        ("m=64, 128 threads, M%512=0, aligned to 16/16/16", "a multiple of 512, and that is 256"),
        ("m=64, K<=64, 128 threads, aligned to 16/16/16", "K of at most 64, and that is 128"),
        ("m=64, 128 threads, aligned to 16/16", "it is for 2 tensors, and there are 3"),
        ("m=64, 128 fingers", "`128 fingers` is nothing that a plan says"),
    ],
)
def test_a_plan_that_does_not_fit_is_left(plan: str, reason: str) -> None:
    source = Fixed(Answer(plan))
    assert planned(source) == planned(None)
    (told,) = source.refusals
    assert reason in told


def test_rows_that_are_less_aligned_than_the_plan_wants() -> None:
    source = Fixed(Answer(plans()[0]))
    made = program().planned(SIZES, (16, 2, 16), LYING, chained=False, plans=PlansFor(source))
    assert "rows of tensor 1 at multiples of 16 bytes, and they are at those of 2" in source.refusals[0]
    assert made.variant.plan.alignment == (16, 2, 16)


def test_names_and_lines_of_the_user_do_not_count() -> None:
    @tile.kernel
    def other(left: tile.Tensor, right: tile.Tensor) -> tile.Tensor:
        M, K = left.shape

        K, N = right.shape
        result = tile.empty((M, N), left.dtype)
        for m, n in tile.grid(M, N):
            total = tile.zeros((m, n), tile.f32)

            for k in tile.range(K):
                total = tile.dot(left[m, k], right[k, n], total)
            result[m, n] = total
        return result

    a: Any = np.empty((256, 128), np.float16)
    b: Any = np.empty((128, 256), np.float16)
    made = other.compile(a, b, arch="sm_90").program
    assert isinstance(made, CudaProgram)
    assert made.identity == program().identity
    ours, theirs = (one.planned(SIZES, ALIGNMENT, LYING, chained=False).variant for one in (program(), made))
    assert ours.source != theirs.source
    assert code_digest(ours) == code_digest(theirs)
    halves = other.compile(a, b.astype(np.float32), arch="sm_90").program
    assert isinstance(halves, CudaProgram)
    assert halves.identity != made.identity


def test_where_in_a_file_code_is_from_does_not_count() -> None:
    """Also where that is not known, as of text that a database has: then no line says it."""
    made = program()
    text = CudaProgram(parse_module(print_module(made.module)), "sm_90")
    ours, theirs = (one.variant([parse_plan(plans()[0])]) for one in (made, text))
    assert ours.source != theirs.source
    assert code_digest(ours) == code_digest(theirs)
    assert digest_of_source("a_ = b_;\n") == digest_of_source("// file.py:3\n  \n  x_ = y_;  // file.py:4\n\n")
    assert digest_of_source("a_ = b_;\n") != digest_of_source("a_ = a_;\n")


def test_other_code_counts() -> None:
    digests = {code_digest(program().variant([parse_plan(plan)])) for plan in plans()[:4]}
    assert len(digests) == 4

"""Plans for GPUs as candidates, and their code, made in other processes without a GPU."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from gemm import gemm
from softmax import softmax
from tiledsl.autotune.candidates.cuda_candidates import CudaSpace, cuda_candidates, family_of, neighbours
from tiledsl.backend_cuda.program import CudaProgram
from tiledsl.passes.gpu.plan import parse_plan

DEVICE = "NVIDIA H100, 132 multiprocessors"


def space_of(kernel: Any, *arrays: Any, tensors: int) -> CudaSpace:
    compiled = kernel.compile(*arrays, arch="sm_90")
    assert isinstance(compiled.program, CudaProgram)
    question = compiled.program.question(compiled.sizes_of(arrays), [16] * tensors, [16] * tensors, DEVICE)
    return CudaSpace(compiled.program, question)


@cache
def product() -> CudaSpace:
    a: Any = np.empty((512, 256), ml_dtypes.bfloat16)
    b: Any = np.empty((256, 512), ml_dtypes.bfloat16)
    return space_of(gemm, a, b, tensors=3)


def test_the_pick_is_what_calls_take() -> None:
    assert product().pick.plan == product().ranked()[0].plan
    assert product().pick.predicted is not None


def test_candidates_are_legal_plans_each_once_and_read_back() -> None:
    pick = product().pick
    found = cuda_candidates(product(), [], 20)
    plans = [candidate.plan for candidate in found]
    assert len(plans) == len(set(plans)) == 20
    assert pick.plan not in plans
    assert all(product().is_legal(plan) and str(parse_plan(plan)) == plan for plan in plans)


def test_the_best_of_each_family_is_among_them() -> None:
    families = {family_of(parse_plan(one.plan)) for one in product().ranked()}
    found = cuda_candidates(product(), [], 20)
    assert {family_of(parse_plan(one.plan)) for one in (product().pick, *found)} == families
    assert len(families) > 1


def test_a_winner_at_other_sizes_is_tried_where_it_is_legal() -> None:
    other = product().ranked()[7].plan
    found = cuda_candidates(product(), [other, "m=64, 128 threads, M%1024=0, aligned to 16/16/16"], 5)
    assert (found[0].plan, found[0].why) == (other, "the winner at other sizes")
    assert all("1024" not in one.plan for one in found)


@pytest.mark.parametrize("most", [1, 3])
def test_plans_of_folds(most: int) -> None:
    x: Any = np.empty((4096, 1024), np.float16)
    space = space_of(softmax, x, tensors=2)
    found = cuda_candidates(space, [], most)
    assert 1 <= len(found) <= most
    assert all(space.is_legal(one.plan) for one in found)


def test_neighbours_of_a_fold_differ_by_one_decision_and_promise_what_is_true() -> None:
    x: Any = np.empty((4096, 1024), np.float16)
    space = space_of(softmax, x, tensors=2)
    plan = parse_plan(space.pick.plan)
    found = neighbours(plan, space.sizes)
    assert any("threads" in one.why for one in found)
    for candidate in found:
        other = parse_plan(candidate.plan)
        assert other != plan
        assert all(space.sizes.get(name, by) % by == 0 for name, by in other.divisors)


def test_plans_with_roles_have_no_neighbours() -> None:
    plan = parse_plan(product().pick.plan)
    assert plan.grids[0].roles
    assert neighbours(plan, product().sizes) == []

"""The zoo without a GPU: formulas mean what NumPy says, compile for sm_90, and a cliff is listed or it is a failure."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from benchmarks.zoo.case import ZooCase
from benchmarks.zoo.cases import CASES
from benchmarks.zoo.known import BROKEN, CLIFF, KNOWN
from tests.support.gpu_cases.shares import share
from tests.support.gpu_cases.zoo_programs import furthest, gpu_programs, off_by
from tiledsl import TileError
from tiledsl.runtime.calls.outputs import as_tuple

ROUNDED = 1e-2
"""How far results may be off, by the largest: inputs and results are rounded to narrow floats."""
COMPILED = tuple(case for case in CASES if case.name not in BROKEN)


def name_of(value: object) -> str:
    return value.name if isinstance(value, ZooCase) else str(value)


def test_names_are_unique_and_listed_ones_exist() -> None:
    names = Counter(case.name for case in CASES)
    assert max(names.values()) == 1
    assert set(KNOWN) | set(BROKEN) <= set(names)
    assert not set(KNOWN) & set(BROKEN)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_formulas_mean_what_numpy_says(case: ZooCase) -> None:
    assert off_by(case, compiled=False) < ROUNDED


@pytest.mark.parametrize("case", share(CASES, 14), ids=name_of)
def test_small_ones_on_the_cpu(case: ZooCase) -> None:
    assert off_by(case, compiled=True) < ROUNDED


@pytest.mark.parametrize("case", share(COMPILED, 5), ids=name_of)
def test_predicted_beside_the_floor(case: ZooCase) -> None:
    audit = case.audit("sm_90")
    share_of_products = audit.tensor_core_share
    outside = share_of_products is not None and share_of_products < 1 and case.narrow
    is_cliff = audit.ratio > CLIFF or outside
    assert is_cliff == (case.name in KNOWN), f"{audit}\nlisted: {KNOWN.get(case.name, 'no')}"
    assert audit.predicted >= 0.99 * audit.floor


@pytest.mark.parametrize("case", share(COMPILED, 7), ids=name_of)
def test_each_kernel_becomes_gpu_ir(case: ZooCase) -> None:
    assert list(gpu_programs(case, "sm_90"))


@pytest.mark.parametrize("case", [case for case in CASES if case.name in BROKEN], ids=name_of)
def test_what_is_broken_says_so(case: ZooCase) -> None:
    with pytest.raises(TileError):
        list(gpu_programs(case, "sm_90"))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_pytorch_does_the_same(case: ZooCase) -> None:
    """In f32, on the CPU: what is measured beside has to compute the same."""
    torch: Any = pytest.importorskip("torch")
    sizes = case.small
    tensors = case.tensors(torch, sizes, "cpu")
    wide = [t.float() if arg.dtype.is_float else t for t, arg in zip(tensors, case.arguments)]
    with np.errstate(all="ignore"):
        expected = case.reference([t.numpy() for t in wide], sizes)
    given: Any = as_tuple(case.expected(torch, *wide, *case.extras(sizes)))
    assert furthest(tuple(t.double().numpy() for t in given), as_tuple(expected)) < ROUNDED

"""The zoo is audited without a GPU: a cliff is listed with its reason, or it is a failure."""

from __future__ import annotations

from collections import Counter

import pytest

import tiledsl
from benchmarks.zoo.case import ZooCase
from benchmarks.zoo.cases import CLIFF, KNOWN, cases
from tiledsl.ir.dtypes import f32

EVERY = cases()


def test_names_are_unique_and_listed_ones_exist() -> None:
    names = Counter(case.name for case in EVERY)
    assert max(names.values()) == 1
    assert set(KNOWN) <= set(names)


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
def test_predicted_beside_the_floor(case: ZooCase) -> None:
    audit = tiledsl.fuse(tiledsl.trace(case.formula, *case.specs())).audit("sm_90")
    outside = audit.tensor_core_share is not None and audit.tensor_core_share < 1 and case.dtype != f32
    is_cliff = audit.ratio > CLIFF or outside
    assert is_cliff == (case.name in KNOWN), f"{audit}\nlisted: {KNOWN.get(case.name, 'no')}"
    assert audit.predicted >= 0.99 * audit.floor

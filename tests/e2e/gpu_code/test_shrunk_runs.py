"""Plans of full sizes run in the emulator on a few blocks, and give what the reference gives."""

from __future__ import annotations

import pytest

from benchmarks.zoo.case import ZooCase
from benchmarks.zoo.cases import CASES
from tests.support.gpu_cases.zoo_programs import planned_programs
from tests.support.gpu_code.shrunk_runs import shrunk

FAMILIES = ("products", "fused products", "attention", "neighbours", "norms", "folds", "scans", "blocks", "losses")
"""Those whose kernels are small enough for the emulator when a few blocks are left of them."""
SAMPLE = 12
"""Every so many cases are run each time."""
CHOSEN = [case for case in CASES if case.family in FAMILIES]
FEW = [case for case in CHOSEN if case.family != "blocks"]
"""Those of few kernels: a layer is made of kernels like them."""


def check(case: ZooCase) -> None:
    for placed, plans, sizes in planned_programs(case, "sm_90"):
        one = shrunk(placed, plans[0], sizes)
        differs = one.differs_by(seed=0)
        assert differs is None or differs <= 1.0, f"{plans[0]}, {dict(one.sizes)}"


@pytest.mark.parametrize("case", FEW[::SAMPLE], ids=lambda case: case.name)
def test_some(case: ZooCase) -> None:
    check(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.name)
def test_all(case: ZooCase) -> None:
    check(case)

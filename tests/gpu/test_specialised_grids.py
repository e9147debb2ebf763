"""Grids whose blocks have roles, on a device: each of the plans, launched several times."""

from __future__ import annotations

from typing import Any

import pytest

from gemm import gemm
from tests.e2e.gpu_code.test_gpu_plans import module_of
from tests.support.gpu_cases.fused_cases import FUSED_CASES
from tests.support.gpu_cases.gpu_cases import Outcome, assert_same, expected
from tests.support.gpu_cases.specialised_cases import SPECIALISED_CASES, PlannedCase
from tests.support.gpu_code.gpu_lowering import lowered, plans_for
from tests.support.gpu_code.run_gpu_ir import CompiledIr
from tests.support.hopper.hopper_text import arrays_of

LAUNCHES = 3


@pytest.mark.parametrize("planned", [*SPECIALISED_CASES, *FUSED_CASES], ids=str)
def test_specialised_grid(planned: PlannedCase) -> None:
    case = planned.case
    arguments = case.arguments()
    placed, _ = plans_for(module_of(case, arguments), arguments)
    returned = CompiledIr(lowered(placed, planned.plan)).run(arguments, LAUNCHES)
    assert_same(case, Outcome(tuple(returned), tuple(arrays_of(arguments))), expected(case))


@pytest.mark.parametrize("captured", [False, True])
def test_calls_that_overlap(monkeypatch: pytest.MonkeyPatch, *, captured: bool) -> None:
    """Each of many products takes what the one before gave, and the first what a kernel of PyTorch gives."""
    monkeypatch.setenv("TILEDSL_OVERLAP", "1")
    torch: Any = pytest.importorskip("torch")
    size = 1352 + 8 * captured  # of no other test: what is prepared for sizes is kept
    a, turn = torch.zeros((size, size), device="cuda", dtype=torch.bfloat16), torch.eye(size, device="cuda")
    turn = turn.roll(1, 0).to(torch.bfloat16)
    outs = [torch.empty_like(a) for _ in range(8)]
    source = torch.randn((size, size), device="cuda").to(torch.bfloat16)

    def chain() -> None:
        a.copy_(source)
        for before, out in zip([a, *outs], outs):
            gemm(before, turn, out=out)
        outs[-1].add_(0)  # a plain kernel comes after all of them

    chain()
    act: Any = chain
    if captured:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            chain()
        act = graph.replay
    for _ in range(20):
        source.normal_()
        for out in outs:
            out.zero_()
        act()
        assert torch.equal(outs[-1], source.roll(-8, 1))

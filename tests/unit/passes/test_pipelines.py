"""The CPU pipeline as a whole."""

from __future__ import annotations

import pytest

from tests.support.tile_programs import GEMM, SOFTMAX
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.verifier import Form, verify
from tiledsl.passes.machine import MACHINES
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import cpu_pipeline


@pytest.mark.parametrize("text", [GEMM, SOFTMAX])
@pytest.mark.parametrize("machine", MACHINES)
def test_it_leads_to_the_form_of_the_back_end(text: str, machine: str) -> None:
    verify(PassManager(cpu_pipeline()).run(parse_module(text), PassContext(MACHINES[machine])), Form.TILE_TILED)


def test_every_access_of_a_gemm_is_proved() -> None:
    context = PassContext()
    PassManager(cpu_pipeline()).run(parse_module(GEMM), context)
    assert "3 of 3 accesses proved in bounds" in [remark.text for remark in context.remarks]


def test_known_sizes_can_be_given() -> None:
    module = PassManager(cpu_pipeline(sizes=(("M", 64), ("K", 32)))).run(parse_module(GEMM))
    assert print_module(module).startswith("func @gemm(%a: tensor<f32, [64, 32], unit=1>, %b: tensor<f32, [32, N]")

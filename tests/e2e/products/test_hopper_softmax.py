"""Attention by hand for Hopper, in each schedule that was tried: right in the emulator, and code worth running."""

from __future__ import annotations

import pytest

from tests.support.gpu_code.run_gpu_ir import CompiledIr
from tests.support.hopper.hopper_softmax import Attention
from tiledsl.backend_cuda.build.gate import refusals
from tiledsl.backend_ref.emulator.emulate import emulate
from tiledsl.ir.text.parser import parse_module

SMALL = [
    (Attention(64, 64, 3, causal=True), (2, 256, 256)),
    (Attention(64, 64, apart=True, causal=True, programs=2, own_out=True, query_stages=2, section=2), (4, 256, 256)),
    (Attention(64, 64, 3, apart=True, turns=True, programs=2, own_out=True), (3, 192, 192)),
    (Attention(128, 48, programs=2, back_and_forth=True), (3, 256, 144)),
    (Attention(64, 64, apart=True, turns=True, causal=True, programs=2, own_out=True, section=2), (4, 300, 400)),
    (Attention(64, 64, stages=3), (1, 128, 200)),
]
LARGE = [Attention(64, 128, 3), Attention(128, 176), Attention(256, 80), Attention(128, 128, causal=True, section=8)]


@pytest.mark.parametrize(("spec", "sizes"), SMALL, ids=str)
@pytest.mark.parametrize("seed", [None, 1])
def test_in_the_emulator(spec: Attention, sizes: tuple[int, int, int], seed: int | None) -> None:
    spec.program(*sizes).check(lambda function, arguments: emulate(function, arguments, seed=seed).results)


@pytest.mark.parametrize("spec", LARGE, ids=str)
def test_compiles(spec: Attention) -> None:
    assert refusals(CompiledIr(parse_module(spec.text)).cubin) == []

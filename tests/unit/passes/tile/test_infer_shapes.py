"""Known sizes in place of symbols."""

from __future__ import annotations

import pytest

from tests.support.pass_runs import run_passes
from tests.support.tile_programs import GEMM
from tiledsl.ir.symbolic import symbol
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.tile.infer_shapes import InferShapes
from tiledsl.passes.tile.place_levels import PlaceLevels


def test_nothing_known_changes_nothing() -> None:
    assert print_module(run_passes("infer-shapes", GEMM)) == print_module(parse_module(GEMM))


@pytest.mark.parametrize(
    ("sizes", "shape"), [("M=N,N=64", "[64, K]"), ("N=64,M=N", "[64, K]"), ("M=N,N=M", "[N, K]"), ("M=K,K=M", "[K, K]")]
)
def test_chains_and_circles_of_names(sizes: str, shape: str) -> None:
    assert f"%a: tensor<f32, {shape}" in print_module(run_passes(f"infer-shapes{{{sizes}}}", GEMM))


def test_levels_stay() -> None:
    manager = PassManager([PlaceLevels(), InferShapes(sizes=(("K", 32), ("M", 2 * symbol("N"))))])
    text = print_module(manager.run(parse_module(GEMM), PassContext()))
    assert "tile<f32, [m, k], shared>" in text
    assert "tensor<f32, [2 * N, 32], unit=1>" in text

"""tanh of softplus by one exponential: where, how precisely, and where not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tiledsl.backend_ref.execute_tile import execute
from tiledsl.ir.core import Module
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.tile_ops import Map
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipeline_text import parse_pipeline

GOLDEN = (Path(__file__).parents[3] / "golden/near-functions/mish.tir").read_text(encoding="utf-8")
TEXT = GOLDEN[GOLDEN.index("func @") : GOLDEN.index("# expected")]


def rewritten(text: str) -> Module:
    return PassManager(parse_pipeline("near-functions,dce")).run(parse_module(text), PassContext())


def tanhs(module: Module) -> int:
    return sum(isinstance(op, Map) and op.fn == "tanh" for op in module.walk())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("fn = gt", "fn = ge"),
        ("tile.map([%x_1, %most]) {fn = gt}", "tile.map([%most, %x_1]) {fn = gt}"),
        ("value = 20.0", "value = 45.0"),  # its square is infinite
        ("value = 20.0", "value = 5.0"),  # the tanh of 5 is less than 1
        ("value = 1.0", "value = 2.0"),
        ("[%far, %x_1, %log]", "[%far, %most, %log]"),
        ("tile.map([%low]) {fn = exp}", "tile.map([%low]) {fn = exp2}"),
    ],
)
def test_others_stay(before: str, after: str) -> None:
    assert before in TEXT
    assert tanhs(rewritten(TEXT)) == 1
    assert tanhs(rewritten(TEXT.replace(before, after))) == 2


def test_comparisons_either_way() -> None:
    turned = "tile.map([%most, %x_1]) {fn = lt}"
    assert tanhs(rewritten(TEXT.replace("tile.map([%x_1, %most]) {fn = gt}", turned))) == 1


def test_as_precise_as_f32_everywhere() -> None:
    text = TEXT.replace("tile.store(%y, [%n], %z)", "tile.store(%y, [%n], %tanh)")
    edges = [-np.inf, -200.0, -90.0, 0.0, -0.0, 19.99, 20.0, 20.01, 1e30, np.inf, np.nan]
    x = np.concatenate([np.linspace(-80, 30, 20001), edges]).astype(np.float32)
    y = np.zeros_like(x)
    execute(rewritten(text).entry, [x, y])
    with np.errstate(over="ignore", invalid="ignore"):
        exact = np.tanh(np.logaddexp(0.0, x.astype(np.float64)))
    assert np.isnan(y[-1])
    assert np.all(np.abs(y[:-1] - exact[:-1]) <= 4 * np.spacing(exact[:-1].astype(np.float32)))

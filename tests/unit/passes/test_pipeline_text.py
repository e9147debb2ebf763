"""Pipelines as text; the errors are in tests/unit/errors/test_passes.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pytest

from tiledsl.ir.core import Module
from tiledsl.ir.symbolic import symbol
from tiledsl.ir.verifier import Form
from tiledsl.passes.gpu.plan import GridPlan, Plan
from tiledsl.passes.manager import PassContext
from tiledsl.passes.pipeline_text import option_types, parse_pipeline, required_options
from tiledsl.passes.registry import PASSES
from tiledsl.passes.tile.cse import EliminateCommonSubexpressions
from tiledsl.passes.tile.infer_shapes import InferShapes
from tiledsl.passes.tile.infer_tiling import InferTiling
from tiledsl.passes.tile.loops.split_sums import SplitSums
from tiledsl.support.errors import TileError


@dataclass(frozen=True)
class Configured:
    """A pass with an option of every type."""

    name: ClassVar[str] = "configured"
    requires: ClassVar[Form] = Form.TILE
    gives: ClassVar[Form] = Form.TILE
    count: int = 0
    deep: bool = False
    mode: Literal["slow", "fast"] = "slow"
    label: str = ""

    def run(self, module: Module, context: PassContext) -> Module:
        del context
        return module


@pytest.fixture(autouse=True)
def with_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PASSES, Configured.name, Configured)


def test_nothing() -> None:
    assert parse_pipeline("") == []
    assert parse_pipeline("  ") == []


def test_steps_and_options() -> None:
    passes = parse_pipeline(" cse, infer-shapes{M=1024, K = N},infer-tiling{arch=avx2},cse{} ")
    assert passes == [
        EliminateCommonSubexpressions(),
        InferShapes(sizes=(("M", 1024), ("K", symbol("N")))),
        InferTiling(arch="avx2"),
        EliminateCommonSubexpressions(),
    ]


def test_every_type_of_option() -> None:
    assert parse_pipeline("configured{count=-3,deep=true,mode=fast,label=a-b}") == [Configured(-3, True, "fast", "a-b")]
    assert parse_pipeline('configured{label="a, {b}=c",count=2}') == [Configured(2, label="a, {b}=c")]
    assert parse_pipeline('configured{label=""}') == [Configured()]


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("cse,", 5, "expected the name of a pass, found the end"),
        ("cse,,dce", 5, "expected the name of a pass, found `,`"),
        ("cse{", 5, "expected the name of an option, or `}`, found the end"),
        ("configured{count}", 17, "expected `=`, found `}`"),
        ("configured{count=}", 18, "expected the value of the option, found `}`"),
        ("configured{count=1 deep=true}", 20, "expected `,` or `}`, found `deep`"),
        ("configured{count=1} cse", 21, "expected `,`, found `cse`"),
        ("configured{count=two}", 18, "option `count` of the pass `configured` must be an integer, not `two`"),
        ("configured{deep=1}", 17, "option `deep` of the pass `configured` must be true or false, not `1`"),
        ("configured{mode=quick}", 17, "option `mode` of the pass `configured` must be one of slow, fast, not `quick`"),
        ("cse{deep=true}", 5, "the pass `cse` has no option `deep`"),
    ],
)
def test_errors_point_at_the_word(text: str, column: int, message: str) -> None:
    with pytest.raises(TileError) as caught:
        parse_pipeline(text)
    assert caught.value.message == message
    assert caught.value.location is not None
    assert caught.value.location.column == column


REQUIRED: dict[str, tuple[str, Any]] = {"plan": ("64 threads", Plan((GridPlan(64),)))}


def test_every_registered_pass_is_made_with_no_options_but_required_ones() -> None:
    for name, kind in PASSES.items():
        needed = sorted(required_options(kind))
        text = ",".join(f'{option}="{REQUIRED[option][0]}"' for option in needed)
        made: Any = kind
        assert parse_pipeline(f"{name}{{{text}}}") == [made(**{option: REQUIRED[option][1] for option in needed})]
        assert kind.__doc__
        assert set(option_types(kind).values()) <= {bool, int, str, Plan, tuple[int, ...], Literal["slow", "fast"]}


def test_several_integers_are_one_option() -> None:
    assert parse_pipeline("split-sums{parts=4/1, unit=16}") == [SplitSums((4, 1), 16)]
    with pytest.raises(TileError, match="must be integers with `/` between them, not `4/x`"):
        parse_pipeline("split-sums{parts=4/x}")


def test_what_a_plan_must_be() -> None:
    with pytest.raises(TileError) as caught:
        parse_pipeline('apply-plan{plan="64 treads"}')
    assert caught.value.message == (
        "option `plan` of the pass `apply-plan` must be a plan (`64 treads` is nothing that a plan says),"
        " not `64 treads`"
    )

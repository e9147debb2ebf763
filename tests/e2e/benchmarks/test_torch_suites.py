"""A sample of PyTorch's own tests of operators and modules: `tests/suites/torch_opinfo.py` has all of them."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest")
from tests.suites import torch_opinfo as suite

SAMPLE = r"^(add|softmax|nn\.functional\.conv2d|index_put|cumsum|std_mean)$"
DIFFERENTIATED = r"^(addmm|nn\.functional\.layer_norm|index_select|where)$"


def test_a_sample_of_operators() -> None:
    outcomes = suite.run_all(suite.operators(SAMPLE), 1)
    assert len(outcomes) >= 6
    assert {outcome.kind for outcome in outcomes} == {"right"}, suite.table(outcomes)


def test_a_sample_of_gradients() -> None:
    outcomes = suite.run_all(suite.operators(DIFFERENTIATED), 1, gradients=True)
    assert len(outcomes) >= 4
    assert {outcome.kind for outcome in outcomes} == {"right"}, suite.table(outcomes)


@pytest.mark.slow
def test_all_operators() -> None:
    outcomes = suite.run_all(suite.operators(""), 1)
    inside = [outcome for outcome in outcomes if outcome.kind != "outside"]
    right = [outcome for outcome in inside if outcome.kind == "right"]
    assert all(outcome.kind in ("right", "fallback") for outcome in inside), suite.table(outcomes)
    assert len(right) >= 0.95 * len(inside), suite.table(outcomes)


@pytest.mark.slow
def test_all_modules() -> None:
    outcomes = suite.run_all(suite.modules(""), 1)
    assert all(outcome.kind in ("right", "fallback", "outside") for outcome in outcomes), suite.table(outcomes)

"""Weights go into compiled graphs as they are at the call, though how they are passed is found once."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")
from tiledsl.importers.torch import kept_weights  # noqa: E402 - needs torch
from tiledsl.importers.torch.kept_weights import KeptWeights  # noqa: E402


def test_a_parameter_is_converted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    weights, parameter, x = KeptWeights(), torch.nn.Parameter(torch.ones(3)), torch.ones(3)
    first = weights.passed([parameter, x], False)
    monkeypatch.setattr(kept_weights, "to_numpy_array", type)
    second = weights.passed([parameter, x], False)
    assert second[0] is first[0]
    assert second[1] is torch.Tensor
    detached = KeptWeights().passed([parameter], True)[0]
    assert not detached.requires_grad
    assert detached.data_ptr() == parameter.data_ptr()


def test_other_memory_and_other_parameters_are_seen() -> None:
    weights, parameter = KeptWeights(), torch.nn.Parameter(torch.ones(3))
    weights.passed([parameter], False)
    with torch.no_grad():
        parameter.mul_(2)
    np.testing.assert_array_equal(weights.passed([parameter], False)[0], [2, 2, 2])
    parameter.data = torch.full((3,), 5.0)
    np.testing.assert_array_equal(weights.passed([parameter], False)[0], [5, 5, 5])
    other = torch.nn.Parameter(torch.full((3,), 7.0))
    np.testing.assert_array_equal(weights.passed([other], False)[0], [7, 7, 7])


def test_nothing_is_kept_of_parameters_that_are_gone() -> None:
    weights, parameter = KeptWeights(), torch.nn.Parameter(torch.ones(3))
    weights.passed([parameter], False)
    assert len(vars(weights)["_kept"]) == 1
    del parameter
    gc.collect()
    assert vars(weights)["_kept"] == {}


@pytest.mark.parametrize("replaced", [False, True])
def test_a_compiled_model_uses_the_weights_of_the_moment(replaced: bool) -> None:
    model = torch.nn.Linear(4, 3).eval()
    compiled, x = torch.compile(model, backend="tiledsl"), torch.randn(2, 4)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
        if replaced:
            model.weight.data = torch.randn(3, 4)
        else:
            model.weight.add_(1)
        torch.testing.assert_close(compiled(x), model(x))

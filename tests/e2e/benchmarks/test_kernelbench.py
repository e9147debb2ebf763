"""The comparison of KernelBench's runner: what counts as right, near and wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
import torch

from benchmarks.kernelbench.nearness import Distance, distance, in_f64, is_as_near
from benchmarks.kernelbench.on_cpu import _outcome  # pyright: ignore[reportPrivateUsage]

CANCELLING = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.exp(x.sum(-1) - 16384)

rows = 4096

def get_init_inputs():
    return []

def get_inputs():
    return [64 + 0.1 * torch.randn(rows, 256)]
"""


def test_elements_are_counted_by_how_far_they_are_off() -> None:
    exact = torch.tensor([0.0, 1.0, 1.0, 1.0, 1.0, torch.inf, torch.nan], dtype=torch.float64)
    result = torch.tensor([0.0, 1.0, 1.0005, 1.005, torch.nan, torch.inf, torch.nan])
    assert distance([result], [exact], 1e-4) == Distance(off=(3, 2, 1), lost=1)
    assert distance([exact.float()], [exact], 1e-4) == Distance(off=(0, 0, 0), lost=0)


@pytest.mark.parametrize(
    ("ours", "eager", "near"),
    [
        (Distance((1, 0, 0), 0), Distance((0, 0, 0), 0), False),  # eager PyTorch is right: so must we be
        (Distance((150, 9, 0), 0), Distance((100, 8, 0), 0), True),
        (Distance((250, 8, 0), 0), Distance((100, 8, 0), 0), False),
        (Distance((100, 8, 9), 0), Distance((100, 8, 0), 0), False),  # as many are off, some by more
        (Distance((100, 8, 1), 1), Distance((100, 8, 0), 0), False),  # a number is lost
    ],
)
def test_near_is_no_further_off_than_eager_pytorch(ours: Distance, eager: Distance, near: bool) -> None:
    assert is_as_near(ours, eager) == near


def test_models_run_in_f64_with_what_they_make() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x @ torch.ones(3, 3) + 1e-12

    (value, *_) = in_f64(Model(), [torch.zeros(1, 3)])[0]
    assert value.dtype == torch.float64
    assert value.item() == 1e-12
    assert torch.get_default_dtype() == torch.float32


def test_a_formula_that_loses_digits_is_near(tmp_path: Path) -> None:
    program = tmp_path / "1_cancelling.py"
    program.write_text(CANCELLING, encoding="utf-8")
    kind, why = _outcome(program, 4096)
    assert kind == "near", why
    assert "off f64: ours" in why

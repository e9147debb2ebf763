"""The benchmark of whole networks without a GPU: what is checked, and what a row says."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from benchmarks.gpu import models
from benchmarks.gpu.timing import State

torch: Any = pytest.importorskip("torch")


class Clock:
    """Every call takes 10 us, the first contender's 5."""

    def __init__(self) -> None:
        self.first: Callable[[], object] | None = None

    def time(self, call: Callable[[], object], calls: int, *, state: State = "clean") -> list[float]:
        del state
        self.first = self.first or call
        return [5e-6 if call is self.first else 1e-5] * calls


def _measured(monkeypatch: pytest.MonkeyPatch, model: Any, batch: int) -> models.Outcome:
    def captured(module: Any, call: Callable[[], object]) -> Callable[[], object]:
        del module
        return lambda: call()

    def compiled(module: Any, **_: object) -> Any:
        return module

    monkeypatch.setattr(models, "_captured", captured)
    monkeypatch.setattr(torch, "compile", compiled)
    given = torch.randn(batch, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    return models.outcome(torch, f"small, batch {batch}", model, given, batch, Clock(), nullcontext())


@pytest.mark.parametrize(("batch", "bar"), [(1, 1.3), (2, 1.1)])
def test_a_row(batch: int, bar: float, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    found = _measured(monkeypatch, torch.nn.Conv2d(3, 16, 3).eval(), batch)
    assert not found.problem
    assert found.cells[0] == f"small, batch {batch}"
    assert found.cells[1] == "5.00"
    assert found.cells[-5:] == ["10.00", "10.00", "2.00", str(bar), "met"]
    assert found.numbers["peer"] == 2.0
    assert len(found.cells) == len(models.COLUMNS)


class Wrong(torch.nn.Module):
    """In f16 it is what it is not in f32, for our eyes alone."""

    def forward(self, x: Any) -> Any:
        return x.sum() + (0 if x.dtype == torch.float32 or not torch.compiler.is_exporting() else 1)


def test_a_wrong_network_has_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _measured(monkeypatch, Wrong().eval(), 2)
    assert "away from f32" in found.problem
    assert not found.cells

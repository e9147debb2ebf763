"""Building and auditing large models say how far they are."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import tiledsl
from tiledsl import tile
from tiledsl.support.progress import Progress


def sums_after_sums(x: Any) -> Any:
    """Folds that cannot be one kernel: each needs all of the one before."""
    for factor in range(3):
        x = x * (tile.sum(x) + factor)
    return x


@pytest.fixture
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute passes whenever somebody looks."""
    now = itertools.count(step=60)
    defaults = Progress.__init__.__defaults__
    assert defaults is not None
    monkeypatch.setattr(Progress.__init__, "__defaults__", (defaults[0], lambda: next(now)))


@pytest.mark.usefixtures("slow_clock")
@pytest.mark.parametrize(
    ("arch", "said"), [("cpu", "compiling kernels for cpu: 1 of"), ("sm_90", "compiling the plans of")]
)
def test_building(arch: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    built = tiledsl.fuse(tiledsl.trace(sums_after_sums, tile.spec((4096, 4096), tile.f32))).build(arch)
    assert len(built.kernels) > 1
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("slow_clock")
def test_auditing(capsys: pytest.CaptureFixture[str]) -> None:
    audit = tiledsl.fuse(tiledsl.trace(sums_after_sums, tile.spec((4096, 4096), tile.f32))).audit("sm_90")
    assert len(audit.kernels) > 1
    assert "auditing the launches of sums_after_sums: 1 of" in capsys.readouterr().err

"""A runner for real tasks on the CPU, without a machine: plans with small blocks of `m` are fastest, by far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fakes.fake_runner import FakeRunner
from tiledsl.autotune.measuring.staff import Staff


class TableRunner(FakeRunner):
    """In place of a crew."""

    def __init__(self, workload: object) -> None:
        super().__init__({})
        self.workload = workload

    def _sample(self, plan: str) -> float:
        block = int(plan.split(",")[0].removeprefix("m="))
        self.now += 1e-3
        return block * 1e-6


def crews_by(monkeypatch: pytest.MonkeyPatch, start: Callable[[Any], FakeRunner]) -> None:
    """Has searches run plans by what `start` makes of their workload, in place of processes."""

    def crew(staff: object, workload: object, size: int, *, on_gpu: bool = False) -> FakeRunner:
        del staff, size, on_gpu
        return start(workload)

    monkeypatch.setattr(Staff, "crew", crew)


def started_by_searches(monkeypatch: pytest.MonkeyPatch) -> list[TableRunner]:
    """Those that searches start from now on, in place of processes."""
    started: list[TableRunner] = []

    def start(workload: object) -> TableRunner:
        started.append(TableRunner(workload))
        return started[-1]

    crews_by(monkeypatch, start)
    return started

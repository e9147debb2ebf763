"""A runner for real tasks on the CPU, without a machine: plans with small blocks of `m` are fastest, by far."""

from __future__ import annotations

import pytest

from tests.support.fake_runner import FakeRunner
from tiledsl.api.calls import cpu_tasks


class TableRunner(FakeRunner):
    """In place of `ChildRunner`."""

    def __init__(self, workload: object) -> None:
        super().__init__({})
        self.workload = workload

    def _sample(self, plan: str) -> float:
        block = int(plan.split(",")[0].removeprefix("m="))
        self.now += 1e-3
        return block * 1e-6


def started_by_searches(monkeypatch: pytest.MonkeyPatch) -> list[TableRunner]:
    """Those that searches on the CPU start from now on, in place of processes."""
    started: list[TableRunner] = []

    def start(workload: object) -> TableRunner:
        started.append(TableRunner(workload))
        return started[-1]

    monkeypatch.setattr(cpu_tasks, "ChildRunner", start)
    return started

"""A runner for real tasks on the CPU, without a machine: plans with small blocks of `m` are fastest, by far."""

from __future__ import annotations

from tests.support.fake_runner import FakeRunner


class TableRunner(FakeRunner):
    """In place of `ChildRunner`."""

    def __init__(self, workload: object) -> None:
        super().__init__({})
        self.workload = workload

    def _sample(self, plan: str) -> float:
        block = int(plan.split(",")[0].removeprefix("m="))
        self.now += 1e-3
        return block * 1e-6

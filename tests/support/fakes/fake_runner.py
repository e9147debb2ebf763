"""A runner without a machine: seconds from a table, noise from a seed, and a clock that only it moves on."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.support.fakes.tuning_records import QUESTION
from tiledsl.autotune.candidates.candidate import Candidate
from tiledsl.autotune.measuring.runner import Checked, Failed, Rounds
from tiledsl.autotune.searching.task import Task
from tiledsl.runtime.programs.plan_source import PlanQuestion

CHECK_SECONDS = 0.01


@dataclass
class FakeRunner:
    """`seconds`: of each plan; `states`: of those that are not `ok`; `dies_at`: in which round, from 0 on, of all that
    are made, a plan ends the process; `confirmations`: as `states`, on other inputs. All plans of a round are as much
    slower as the machine is then."""

    seconds: Mapping[str, float]
    states: Mapping[str, Checked] = field(default_factory=dict[str, Checked])
    dies_at: Mapping[str, int] = field(default_factory=dict[str, int])
    confirmations: Mapping[str, Checked] = field(default_factory=dict[str, Checked])
    noise: float = 0.02
    seed: int = 0
    busy: float = 0.0
    on_round: Callable[[int], None] = lambda number: None

    def __post_init__(self) -> None:
        self.now = 0.0
        self.checks: list[str] = []
        self.confirmed: list[str] = []
        self.waited = 0.0
        self.begun = False
        self.made_ready: list[list[str]] = []
        self.calls: dict[str, int] = {}
        self.told: list[str] = []
        self.made = 0
        self.processes = 1
        self.closed = False
        self._random = random.Random(self.seed)

    def clock(self) -> float:
        return self.now

    def begin(self) -> None:
        self.begun = True

    def confirm(self, plan: str) -> Checked:
        self.now += CHECK_SECONDS
        self.confirmed.append(plan)
        return self.confirmations.get(plan, Checked("ok", "", 2e-7, ("random", "odd", "repeated")))

    def ahead(self, plans: Sequence[str]) -> None:
        self.told = list(plans)

    def check(self, plan: str) -> Checked:
        self.now += CHECK_SECONDS
        self.checks.append(plan)
        return self.states.get(plan, Checked("ok", "", 1e-7, ("given", "repeated"), "c" * 40))

    def ready(self, plans: Sequence[str]) -> None:
        self.made_ready.append(list(plans))

    def rounds(self, plans: Sequence[str], count: int) -> Rounds:
        times: list[tuple[float, ...]] = []
        for _ in range(count):
            self.on_round(self.made)
            dying = [plan for plan in plans if self.dies_at.get(plan, self.made + 1) <= self.made]
            if dying:
                return Rounds(times, Failed(dying[0], "crash", "the process ended by SIGSEGV"))
            slow = 1 + self.busy * self._random.random()
            times.append(tuple(self._sample(plan) * slow for plan in plans))
            self.made += 1
        return Rounds(times)

    def renew(self) -> None:
        self.processes += 1

    def close(self) -> None:
        self.closed = True

    def _sample(self, plan: str) -> float:
        self.calls[plan] = self.calls.get(plan, 0) + 1
        seconds = self.seconds[plan] * (1 + self.noise * abs(self._random.gauss(0, 1)))
        self.now += seconds
        return seconds


def task_of(plans: Sequence[str], pick: str = "pick", question: PlanQuestion = QUESTION) -> Task:
    """A task with these candidates."""
    found = [Candidate(plan, 1e-3, "near") for plan in plans]

    def candidates(winners: Sequence[str], most: int) -> list[Candidate]:
        return [*(Candidate(winner, None, "the winner at other sizes") for winner in winners), *found][:most]

    return Task("gemm", question, "func @gemm() {\n}\n", pick, candidates, lambda: 1e-3)

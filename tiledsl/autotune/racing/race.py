"""Which of some plans is faster than the model's pick, with how much certainty.

All plans of a round run one after the other, so that what slows the machine for a while slows all of them: ratios of
one round vary much less than times. Plans that are certainly slower leave early. The best ones meet the pick in finals
of their own, on new samples: who was chosen for its luck has none there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tiledsl.autotune.measuring.runner import FINAL_PARTS, Failed, Runner
from tiledsl.autotune.racing.intervals import CONFIDENCE, ratio_of
from tiledsl.autotune.records.record import Ratio, Times

HEATS = ((8, 1.02), (32, 1.005))
"""So many rounds in all, after which plans leave that certainly take longer than so many times the pick's time."""
FINALISTS = 3
FINAL_ROUNDS = 200
FEWEST_FINAL_ROUNDS = 24
"""Fewer cannot show a gain of some percent."""
WINS_BELOW = 0.99
"""A plan wins that certainly takes less than this part of the pick's time; ties go to the model."""
FINALS_SHARE = 0.4
"""Of the time for a race, that is kept for its finals."""


@dataclass
class Runs:
    """Samples of one plan beside the pick's of the same rounds."""

    own: list[float] = field(default_factory=list[float])
    ratios: list[float] = field(default_factory=list[float])

    def add(self, own: float, pick: float) -> None:
        self.own.append(own)
        self.ratios.append(own / pick if pick > 0 else 1.0)

    @property
    def times(self) -> Times:
        return Times.of(self.own)


@dataclass
class RaceResult:
    """`runs`: of each plan that was timed; those of finals replace what was before. `finals`: ratios of the finalists
    that came to their end.
    `finished`: whether there was time for finals; then `winner` is who won them."""

    winner: str
    finished: bool = False
    runs: dict[str, Runs] = field(default_factory=dict[str, Runs])
    finals: dict[str, Ratio] = field(default_factory=dict[str, Ratio])
    failed: list[Failed] = field(default_factory=list[Failed])

    def ratio(self, plan: str) -> Ratio | None:
        """Of a plan to the pick, as well as it is known."""
        if plan in self.finals:
            return self.finals[plan]
        runs = self.runs.get(plan)
        return None if runs is None or not runs.ratios else ratio_of(runs.ratios)


class Race:
    """One race. `clock` gives seconds; `deadline` is when it has to be over; `told` is called as it goes on."""

    def __init__(
        self,
        runner: Runner,
        clock: Callable[[], float],
        deadline: float,
        told: Callable[[RaceResult], None],
        confirm: Callable[[str], bool] = lambda plan: True,
    ) -> None:
        """`confirm`: whether a plan that goes to the finals is right on all inputs."""
        self._runner = runner
        self._clock = clock
        self._deadline = deadline
        self._told = told
        self._confirm = confirm
        self.heats_ended: float | None = None
        """When finalists were chosen."""

    def first_heat(self, result: RaceResult, pick: str, plans: Sequence[str], end: float) -> list[str]:
        """The rounds that every plan makes; gives the plans that survive them. `end`: when it has to be over."""
        return self._rounds(result, pick, plans, HEATS[0][0], end, result.runs)

    def run(self, pick: str, challengers: Sequence[str], result: RaceResult | None = None) -> RaceResult:
        """Races challengers against the pick; all of them are right. `result`: of first heats that some have made."""
        result = RaceResult(pick) if result is None else result
        if not challengers:
            result.finished = not result.failed
            return result
        heats_end = self._clock() + (1 - FINALS_SHARE) * (self._deadline - self._clock())
        made = [plan for plan in challengers if plan in result.runs]
        new = [plan for plan in challengers if plan not in result.runs]
        left, done = [*made, *self.first_heat(result, pick, new, heats_end)], 0
        for rounds, allowed in HEATS:
            if done:
                left = self._rounds(result, pick, left, rounds - done, heats_end, result.runs)
            done = rounds
            left = [plan for plan in left if _low(result, plan) <= allowed]
            if not left or self._clock() >= heats_end:
                break
        self.heats_ended = self._clock()
        able = [plan for plan in left if _low(result, plan) < WINS_BELOW]  # to win
        able.sort(key=lambda plan: _median(result, plan))
        if able:
            self._runner.ready([pick, *able[:FINALISTS]])
        self._finals(result, pick, self._confirmed(pick, able))
        out = {failed.plan for failed in result.failed}
        if any(plan not in result.runs and plan not in out for plan in challengers):
            result.finished = False  # somebody was never timed
        return result

    def _confirmed(self, pick: str, plans: Sequence[str]) -> list[str]:
        """The finalists: the first plans that are right on all inputs, if the pick is."""
        found: list[str] = []
        for plan in plans:
            if len(found) < FINALISTS and self._confirm(plan):
                found.append(plan)
        return found if found and self._confirm(pick) else []

    def _finals(self, result: RaceResult, pick: str, finalists: Sequence[str]) -> None:
        if not finalists or pick not in result.runs:
            result.finished = pick in result.runs and all(failed.plan != pick for failed in result.failed)
            return
        each = sum(result.runs[plan].times.median for plan in (pick, *finalists))
        rounds = min(FINAL_ROUNDS, int(max(0.0, self._deadline - self._clock()) / max(each, 1e-9)))
        if rounds < FEWEST_FINAL_ROUNDS:
            return
        each_part, left = rounds // FINAL_PARTS, list(finalists)
        parts: list[dict[str, Runs]] = []
        while left and len(parts) < FINAL_PARTS:
            runs: dict[str, Runs] = {}
            self._runner.renew()
            left = self._rounds(result, pick, left, 1, math.inf, {})  # the first calls of a process are slow
            left = self._rounds(result, pick, left, each_part, math.inf, runs)
            parts.append(runs)
            if left and (pick not in runs or len(runs[pick].own) < each_part):
                return
            # who has to win everywhere, and has not won here, needs no more rounds
            left = [plan for plan in left if ratio_of(runs[plan].ratios).median < WINS_BELOW]
        if any(failed.plan == pick for failed in result.failed):
            return
        for plan in (pick, *left):
            own = [part[plan] for part in parts if plan in part]
            result.runs[plan] = Runs([t for one in own for t in one.own], [r for one in own for r in one.ratios])
        # several may win by luck, so each has to be as much more certain
        confidence = 1 - (1 - CONFIDENCE) / len(finalists)
        result.finals = {plan: ratio_of(result.runs[plan].ratios, confidence) for plan in left}
        won = [plan for plan, ratio in result.finals.items() if ratio.high < WINS_BELOW]
        result.winner = min(won, key=lambda plan: result.finals[plan].median, default=pick)
        result.finished = True

    def _rounds(
        self,
        result: RaceResult,
        pick: str,
        plans: Sequence[str],
        count: int,
        end: float,
        runs: dict[str, Runs],
    ) -> list[str]:
        """Makes rounds, as many as there is time for; gives the plans that survive them."""
        left = list(plans)
        while count > 0 and left and self._clock() < end:
            part = min(count, HEATS[0][0]) if end != math.inf else count
            found = self._runner.rounds([pick, *left], part)
            for times in found.times:
                runs.setdefault(pick, Runs()).add(times[0], times[0])
                for plan, time in zip(left, times[1:]):
                    runs.setdefault(plan, Runs()).add(time, times[0])
            count -= len(found.times)
            if found.failed is not None:
                result.failed.append(found.failed)
                if found.failed.plan == pick:
                    left.clear()
                else:
                    left.remove(found.failed.plan)
            self._told(result)
        return left


def _low(result: RaceResult, plan: str) -> float:
    ratio = result.ratio(plan)
    return math.inf if ratio is None else ratio.low


def _median(result: RaceResult, plan: str) -> float:
    ratio = result.ratio(plan)
    return math.inf if ratio is None else ratio.median

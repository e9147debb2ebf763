"""One search: candidates are checked, raced, and all that was seen is recorded.

Nothing is measured that is not right, and nothing is lost that was measured: each trial is written when it is known,
also where the user interrupts. What failed once is not tried again.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Protocol

from tiledsl.autotune.candidates.candidate import Candidate, different, in_turns
from tiledsl.autotune.candidates.evolve import Breeder
from tiledsl.autotune.measuring.runner import Checked, Runner
from tiledsl.autotune.racing.race import HEATS, Race, RaceResult
from tiledsl.autotune.records.database import Database, Writer
from tiledsl.autotune.records.record import ProgramText, Search, Trial
from tiledsl.autotune.searching.outcome import Outcome, busy_note
from tiledsl.autotune.searching.task import Budget, Task
from tiledsl.runtime.programs.plan_source import PlanQuestion
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail
from tiledsl.support.version import VERSION

RACE_SHARE = 0.5
"""Of the time after the pick was checked, that is kept for the race."""
FIRST_SHARE = 0.4
"""Of the trials, that are not bred, where plans are bred."""
MOST_SIZES = 8
"""Other sizes whose trials teach what the model gets wrong."""
SEEDS = 3
"""Winners at other sizes that are tried."""
PHASES: tuple[str, ...] = ("start", "builds", "checks", "race", "finals")
"""What the seconds of a search go to: until the model's pick was checked, in which processes start and the reference is
run; waiting for compilers; checking the others; first samples; checks on all inputs and the finals."""
FEWEST_SECONDS = 0.01
"""Less than this is no time to run anything."""


class Listener(Protocol):
    """Is told how a search goes on. It must not take long."""

    def trying(self, task: Task, tried: int, best: float | None, what: str, /) -> None:
        """`tried`: plans so far; `best`: seconds of the best one; `what` is done now."""
        ...

    def done(self, task: Task, outcome: Outcome, /) -> None:
        """A task is done, or was known."""
        ...


class Silent:
    """Says nothing."""

    def trying(self, task: Task, tried: int, best: float | None, what: str) -> None:
        """Nothing."""

    def done(self, task: Task, outcome: Outcome) -> None:
        """Nothing."""


@dataclass
class Searches:
    """Searches that share a database. `clock` gives seconds."""

    writer: Writer
    listener: Listener = field(default_factory=Silent)
    clock: Callable[[], float] = time.monotonic

    @property
    def database(self) -> Database:
        return self.writer.database

    def known(self, task: Task) -> Outcome | None:
        """What the database has for a question, if a search for it was finished, and tried the library if it is to."""
        found = self.database.best(task.question)
        if found is None or not found.finished or found.pick != task.plan:
            return None
        if task.libraries and found.versions.get("library") != task.libraries:
            return None
        return Outcome(
            task.kernel, task.sizes, task.question.device, found.pick, found.winner, found.ratio, known=True
        )  # fmt: skip

    def run(self, task: Task, runner: Runner, budget: Budget) -> Outcome:
        """Searches, unless the answer is known. Raises TileTypeError for a budget that is none, TileRuntimeError where
        the model's pick cannot be measured."""
        check_budget(budget)
        return self.known(task) or _Session(self, task, runner, budget).run()


def check_budget(budget: Budget) -> None:
    """Raises TileTypeError for one with which nothing can be tried."""
    if not budget.seconds >= FEWEST_SECONDS:
        least = f"{FEWEST_SECONDS} seconds; 10 or more find what there is"
        fail("tuning-budget", caller_location(), what="seconds", value=budget.seconds, least=least)
    if budget.trials < 1:
        fail(
            "tuning-budget", caller_location(), what="trials", value=budget.trials, least="one trial; the default is 20"
        )


class _Session:
    """A search that is under way."""

    def __init__(self, searches: Searches, task: Task, runner: Runner, budget: Budget) -> None:
        self._searches = searches
        self._task = task
        self._runner = runner
        self._budget = budget
        self._name = secrets.token_hex(4)
        self._started = searches.clock()
        self._checked: dict[str, tuple[Candidate, Checked]] = {}
        self._race = RaceResult(task.pick.plan)
        self._written: dict[str, Trial] = {}
        self._failed: set[str] = set()
        """Plans that need not be tried, by earlier searches."""
        self._unpredicted: list[Candidate] = []
        """Candidates that nobody can say whether they are worth a trial, beyond the first ones."""
        self._until = 0.0
        """When checks are to be over."""
        self._first = 0.0
        """Seconds until the pick was checked."""
        self._phases = dict.fromkeys(PHASES, 0.0)

    def run(self) -> Outcome:
        """The whole search."""
        searches, task = self._searches, self._task
        searches.writer.add(ProgramText(task.question.program, task.kernel, task.text))
        try:
            self._runner.begin()
            candidates = self._candidates()
            self._runner.ahead([plan.plan for plan in (task.pick, *candidates)])
            pick = self._check(task.pick)
            if pick.state != "ok":
                self._fail_pick(pick)
            self._first = searches.clock() - self._started
            self._phases["start"] = self._first - self._runner.waited
            right, complete = self._right_ones(candidates)
            deadline = self._started + self._budget.seconds
            race = Race(self._runner, searches.clock, deadline, self._on_race, self._confirm)
            if complete and task.breeder is not None:
                others = trials_at_other_sizes(searches.database, task.question)
                right, complete = self._bred(race, right, task.breeder(others))
            self._run_race(race, right)
            _, pick = self._checked[task.pick.plan]
            if pick.state != "ok":
                self._fail_pick(pick)
        finally:
            for candidate, checked in self._checked.values():
                if checked.state == "ok":
                    self._write(candidate, checked)
        finished = complete and self._race.finished
        return self._end(finished)

    def _run_race(self, race: Race, right: Sequence[str]) -> None:
        """Heats and finals."""
        clock, phases = self._searches.clock, self._phases
        began = clock()
        self._race = race.run(self._task.pick.plan, right, self._race)
        ended = clock()
        heats = began if race.heats_ended is None else race.heats_ended
        phases["builds"] = self._runner.waited
        phases["race"] += heats - began
        phases["finals"] = ended - heats
        phases["checks"] = ended - self._started - sum(phases[name] for name in phases if name != "checks")

    def _right_ones(self, candidates: Sequence[Candidate]) -> tuple[list[str], bool]:
        """The plans whose results are right, and whether there was time to check all candidates."""
        searches, budget = self._searches, self._budget
        began, end = searches.clock(), self._started + budget.seconds
        self._until = until = end - RACE_SHARE * (end - began)
        right: list[str] = []
        for candidate in candidates:
            if searches.clock() >= until:
                return right, False
            if self._check(candidate).state == "ok":
                right.append(candidate.plan)
        return right, True

    def _bred(self, race: Race, right: list[str], breeder: Breeder) -> tuple[list[str], bool]:
        """Generations of plans beside those that are right; and whether there was time for all of them."""
        clock, pick, trials = self._searches.clock, self._task.pick.plan, self._budget.trials
        new = right = list(right)
        for _ in range(self._task.generations):
            began = clock()
            race.first_heat(self._race, pick, new, self._until)
            self._phases["race"] += clock() - began
            failed = {one.plan for one in self._race.failed}
            right = [plan for plan in right if plan not in failed]
            timed = {plan: ratio.median for plan in (pick, *right) if (ratio := self._race.ratio(plan)) is not None}
            if clock() >= self._until or (new and pick not in timed):
                return right, False
            timed.setdefault(pick, 1.0)  # where nothing else is right
            left = trials - (len(self._checked) - 1)
            count = min(left, -(-(trials - round(FIRST_SHARE * trials)) // self._task.generations))
            known = {*self._checked, *self._failed}
            bred = breeder.next(timed, known, count) if count > 0 else []
            bred = in_turns([bred, self._unpredicted], max(0, count))
            self._unpredicted = [one for one in self._unpredicted if one not in bred]
            self._runner.ahead([candidate.plan for candidate in bred])
            new = [candidate.plan for candidate in bred if self._check(candidate).state == "ok"]
            right += new
            if not bred:
                break
        return right, True

    def _candidates(self) -> list[Candidate]:
        """What is to be tried first: earlier winners, then what the target proposes; not what failed or was slow."""
        task, database = self._task, self._searches.database
        known = database.entries.trials.get(task.question, [])
        failed = {trial.plan for trial in known if trial.state != "ok" or _was_slow(trial)} | {task.pick.plan}
        self._failed = failed
        best = database.best(task.question)
        former = [] if best is None else [Candidate(best.winner, None, "a former winner")]
        winners = winners_at_other_sizes(database, task.question)
        found = different([*former, *task.candidates(winners, self._budget.trials + len(failed))])
        found = [one for one in found if one.plan not in failed]
        if task.breeder is None:
            return found[: self._budget.trials]
        first = max(1, round(FIRST_SHARE * self._budget.trials))
        self._unpredicted = [one for one in found[first:] if one.predicted is None]
        return found[:first]

    def _check(self, candidate: Candidate) -> Checked:
        self._tell(f"checks {candidate.plan}")
        checked = self._runner.check(candidate.plan)
        self._checked[candidate.plan] = candidate, checked
        if checked.state != "ok":
            self._write(candidate, checked)
        return checked

    def _confirm(self, plan: str) -> bool:
        """Whether a plan is right on all inputs."""
        self._tell(f"checks {plan} on other inputs")
        candidate, checked = self._checked[plan]
        checked = checked.and_then(self._runner.confirm(plan))
        self._checked[plan] = candidate, checked
        if checked.state != "ok":
            self._write(candidate, checked)
        return checked.state == "ok"

    def _on_race(self, result: RaceResult) -> None:
        self._race = result
        for failed in result.failed:
            candidate, checked = self._checked[failed.plan]
            if checked.state == "ok":
                checked = replace(checked, state=failed.state, reason=failed.reason)
                self._checked[failed.plan] = candidate, checked
                self._write(candidate, checked)
        self._tell("times plans beside each other")

    def _tell(self, what: str) -> None:
        known = [runs.times.median for runs in self._race.runs.values()]
        self._searches.listener.trying(self._task, max(0, len(self._checked) - 1), min(known, default=None), what)

    def _write(self, candidate: Candidate, checked: Checked) -> None:
        """Writes what is known of a plan."""
        runs = self._race.runs.get(candidate.plan)
        trial = Trial(
            self._task.question, candidate.plan, checked.state, candidate.why, checked.reason, candidate.predicted,
            None if runs is None or checked.state != "ok" else runs.times,
            None if checked.state != "ok" else self._race.ratio(candidate.plan),
            checked.error, checked.checked, checked.code, self._name, now(),
        )  # fmt: skip
        self._written[candidate.plan] = trial
        self._searches.writer.add(trial)

    def _end(self, finished: bool) -> Outcome:
        task, race, writer = self._task, self._race, self._searches.writer
        seconds = self._searches.clock() - self._started
        trials = tuple(self._written.values())
        pick = self._written.get(task.pick.plan)
        ratio = race.finals.get(race.winner)
        measured = sum(trial.times is not None for trial in trials) - (pick is not None and pick.times is not None)
        _, winner = self._checked[race.winner]
        versions = {"tiledsl": VERSION, "python": ".".join(map(str, sys.version_info[:3]))}
        if task.libraries:
            versions["library"] = task.libraries
        writer.add(
            Search(
                task.question, self._name, task.kernel, task.pick.plan, race.winner, finished, measured, seconds, ratio,
                winner.code, versions, now(), dict(self._phases),
            )
        )  # fmt: skip
        notes = busy_note(None if pick is None else pick.times)
        if not finished:
            notes.append(
                f"{self._budget.seconds:.3g} s were too short to finish: {self._reached()}; "
                "a search with more time goes on from here"
            )
        if writer.unwritten:
            notes.append(
                f"{len(writer.unwritten)} records could not be written to {writer.path} ({writer.trouble}): "
                "this process knows them, and no other will"
            )
        return Outcome(
            task.kernel, task.sizes, task.question.device, task.pick.plan, race.winner, ratio, trials,
            None if pick is None else pick.times, seconds, False, finished, tuple(notes), self._phases,
        )  # fmt: skip

    def _reached(self) -> str:
        """How far a search came that has no more time."""
        checked = len(self._checked) - 1
        if checked == 0:
            return f"it took {self._first:.3g} s to run the reference and the model's pick"
        if not self._race.runs:
            return f"{checked} plans were checked, none was timed"
        return f"{checked} plans were checked, {len(self._race.runs) - 1} timed, and there were no finals"

    def _fail_pick(self, checked: Checked) -> None:
        task = self._task
        code = "tuning-pick-wrong" if checked.state == "wrong" else "tuning-pick-fails"
        fail(
            code, caller_location(),
            kernel=task.kernel, plan=task.pick.plan, state=checked.state, reason=checked.reason,
        )  # fmt: skip


def _was_slow(trial: Trial) -> bool:
    """Whether a plan certainly took longer than the pick."""
    return trial.ratio is not None and trial.ratio.low > HEATS[0][1]


def winners_at_other_sizes(database: Database, question: PlanQuestion) -> list[str]:
    """The winners of searches for the same program on the same device, those for the nearest sizes first."""
    found = [database.best(other) for other in at_other_sizes(database.entries.searches, question)]
    return list(dict.fromkeys(search.winner for search in found if search is not None))[:SEEDS]


def trials_at_other_sizes(database: Database, question: PlanQuestion) -> list[tuple[PlanQuestion, Sequence[Trial]]]:
    """What was tried for the same program on the same device, the nearest sizes first."""
    trials = database.entries.trials
    return [(other, trials[other]) for other in at_other_sizes(trials, question)[:MOST_SIZES]]


def at_other_sizes(questions: Iterable[PlanQuestion], question: PlanQuestion) -> list[PlanQuestion]:
    """Those of some questions that differ in sizes, and how tensors lie, alone; the nearest first."""
    same = replace(question, sizes=(), strides=(), alignment=(), lying=())
    found = [
        (_distance(dict(question.sizes), dict(other.sizes)), other.sizes, number, other)
        for number, other in enumerate(questions)
        if other != question and replace(other, sizes=(), strides=(), alignment=(), lying=()) == same
    ]
    return [other for *_, other in sorted(found, key=lambda one: one[:3])]


def _distance(one: dict[str, int], other: dict[str, int]) -> float:
    """How many times sizes differ, over all of them."""
    total = 1.0
    for name in one.keys() | other.keys():
        a, b = max(1, one.get(name, 1)), max(1, other.get(name, 1))
        total *= max(a, b) / min(a, b)
    return total


def now() -> str:
    """The time, in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")

"""Races: who wins, who leaves, and what happens when time is up or a plan ends the process."""

from __future__ import annotations

import pytest

from tests.support.fakes.fake_runner import FakeRunner
from tiledsl.autotune.measuring.runner import FINAL_PARTS
from tiledsl.autotune.racing.race import FEWEST_FINAL_ROUNDS, FINAL_ROUNDS, HEATS, Race, RaceResult


def race(runner: FakeRunner, challengers: list[str], seconds: float = 1e9) -> RaceResult:
    return Race(runner, runner.clock, runner.clock() + seconds, lambda result: None).run("pick", challengers)


def test_the_faster_plan_wins() -> None:
    result = race(FakeRunner({"pick": 1e-3, "fast": 0.9e-3, "slow": 1.1e-3}), ["slow", "fast"])
    assert result.finished
    assert result.winner == "fast"
    assert result.finals["fast"].high < 0.99
    assert result.finals["fast"].pairs == FINAL_ROUNDS


@pytest.mark.parametrize("seed", range(10))
def test_ties_go_to_the_model(seed: int) -> None:
    plans = [f"same {number}" for number in range(19)]
    runner = FakeRunner(dict.fromkeys(["pick", *plans], 1e-3), noise=0.1, seed=seed)
    result = race(runner, plans)
    assert (result.winner, result.finished) == ("pick", True)


def test_a_gain_of_half_a_percent_is_none() -> None:
    result = race(FakeRunner({"pick": 1e-3, "hardly": 0.995e-3}, noise=0.001), ["hardly"])
    assert result.winner == "pick"


def test_what_is_certainly_slower_leaves_after_the_first_heat() -> None:
    runner = FakeRunner({"pick": 1e-3, "slow": 1.5e-3, "near": 1e-3, "fast": 0.9e-3}, noise=0.001)
    race(runner, ["slow", "near", "fast"])
    assert runner.calls["slow"] == HEATS[0][0]
    assert runner.calls["near"] == HEATS[1][0], "it cannot win"
    assert runner.calls["fast"] == HEATS[1][0] + FINAL_ROUNDS + FINAL_PARTS


def test_who_does_not_win_in_one_process_ends_the_finals() -> None:
    class Placed(FakeRunner):
        def _sample(self, plan: str) -> float:
            return super()._sample(plan) * (0.9 if plan == "lucky" and self.processes == 1 else 1.0)

    runner = Placed({"pick": 1e-3, "lucky": 1e-3})
    result = race(runner, ["lucky"])
    assert (result.winner, result.finished, runner.processes) == ("pick", True, 2)
    assert runner.calls["lucky"] == HEATS[1][0] + FINAL_ROUNDS // FINAL_PARTS + 1


def test_only_finalists_are_checked_on_all_inputs_and_who_fails_makes_room() -> None:
    asked: list[str] = []

    def confirm(plan: str) -> bool:
        asked.append(plan)
        return plan not in ("p0", "p2")

    times = {"pick": 1e-3, **{f"p{n}": (0.90 + n / 100) * 1e-3 for n in range(6)}}
    runner = FakeRunner(times, noise=0.001)
    made = Race(runner, runner.clock, 1e9, lambda result: None, confirm).run("pick", [f"p{n}" for n in range(6)])
    assert asked == ["p0", "p1", "p2", "p3", "p4", "pick"]
    assert (set(made.finals), made.winner) == ({"p1", "p3", "p4"}, "p1")


def test_a_machine_that_is_busy_slows_all_plans_of_a_round() -> None:
    runner = FakeRunner({"pick": 1e-3, "fast": 0.93e-3}, busy=3.0)
    assert race(runner, ["fast"]).winner == "fast"


def test_three_finalists_meet_the_pick() -> None:
    times = {"pick": 1e-3, **{f"p{n}": (0.90 + n / 100) * 1e-3 for n in range(6)}}
    result = race(FakeRunner(times, noise=0.001), [f"p{n}" for n in range(6)])
    assert set(result.finals) == {"p0", "p1", "p2"}
    assert result.winner == "p0"


def test_without_time_for_finals_nobody_wins() -> None:
    runner = FakeRunner({"pick": 1.0, "fast": 0.5})
    result = race(runner, ["fast"], seconds=30)
    assert (result.winner, result.finished) == ("pick", False)
    assert result.ratio("fast") is not None, "what was measured is known"


def test_fewer_final_rounds_where_time_is_short() -> None:
    runner = FakeRunner({"pick": 1e-3, "fast": 0.5e-3}, noise=0.0)
    result = race(runner, ["fast"], seconds=0.12)
    assert result.finished
    assert FEWEST_FINAL_ROUNDS <= result.finals["fast"].pairs < FINAL_ROUNDS
    assert runner.now < 0.13


def test_no_challengers() -> None:
    runner = FakeRunner({"pick": 1e-3})
    assert (race(runner, []).finished, runner.made) == (True, 0)


def test_no_time_at_all_is_not_finished() -> None:
    assert not race(FakeRunner({"pick": 1e-3, "a": 1e-3}), ["a"], seconds=0).finished


@pytest.mark.parametrize("round_", [0, 5, 20, 100])
def test_who_ends_the_process_is_out_and_the_others_go_on(round_: int) -> None:
    runner = FakeRunner({"pick": 1e-3, "bad": 0.5e-3, "fast": 0.9e-3}, dies_at={"bad": round_})
    result = race(runner, ["bad", "fast"])
    assert [failed.plan for failed in result.failed] == ["bad"]
    assert "bad" not in result.finals
    assert (result.winner, result.finished) == ("fast", True)


def test_a_pick_that_ends_the_process_ends_the_race() -> None:
    result = race(FakeRunner({"pick": 1e-3, "fast": 0.9e-3}, dies_at={"pick": 3}), ["fast"])
    assert (result.winner, result.finished) == ("pick", False)
    assert [failed.plan for failed in result.failed] == ["pick"]


def test_a_race_that_had_no_time_for_some_is_not_finished() -> None:
    runner = FakeRunner({"pick": 1e-3, "fast": 0.5e-3, "late": 0.4e-3})
    made = Race(runner, runner.clock, runner.clock() + 1e9, lambda result: None)
    result = RaceResult("pick")
    made.first_heat(result, "pick", ["fast"], 1e9)
    ticks = iter([0.0, 0.0, *[1e9] * 100])  # time is up as soon as the race begins
    late = Race(runner, lambda: next(ticks), 1.0, lambda result: None)
    assert not late.run("pick", ["fast", "late"], result).finished


def test_who_is_favoured_by_the_memory_of_one_process_does_not_win() -> None:
    class Placed(FakeRunner):
        def _sample(self, plan: str) -> float:
            seconds = super()._sample(plan)
            return seconds * (0.7 if plan == "lucky" and self.processes != 3 else 1.0)

    runner = Placed({"pick": 1e-3, "lucky": 1e-3, "fast": 0.95e-3})
    result = race(runner, ["lucky", "fast"])
    assert "lucky" not in result.finals, "it has lost in one process"
    assert (result.winner, result.finished) == ("fast", True)
    assert runner.processes == 1 + FINAL_PARTS

"""Which task of a module comes next."""

from __future__ import annotations

import pytest

from tiledsl.autotune.searching.scheduler import Scheduler, Weighed

TASKS = [
    Weighed("small", "fold", 1, 1e-3),
    Weighed("often", "product", 100, 1e-3),
    Weighed("large", "product", 1, 50e-3),
    Weighed("at its floor", "fold", 1, 40e-3, floor=40e-3),
    Weighed("nothing", "fold", 1, 1e-5),
]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def order(scheduler: Scheduler, gains: dict[int, float], clock: Clock) -> list[int]:
    found: list[int] = []
    while (task := scheduler.next()) is not None:
        number, seconds = task
        clock.now += seconds
        scheduler.gained(number, gains.get(number, 0.1))
        found.append(number)
    return found


def test_what_weighs_most_above_its_floor_comes_first() -> None:
    clock = Clock()
    assert order(Scheduler(TASKS, 100, clock), {}, clock)[:2] == [1, 2]


def test_what_is_not_worth_a_search_is_left_out() -> None:
    assert Scheduler(TASKS, 100, Clock()).skipped == [4]
    assert Scheduler(TASKS, 100, Clock()).left == [0, 1, 2, 3]


def test_a_family_that_gains_nothing_waits() -> None:
    tasks = [Weighed("a", "product", 1, 10.0), Weighed("b", "product", 1, 9.0), Weighed("c", "fold", 1, 2.0)]
    clock = Clock()
    assert order(Scheduler(tasks, 100, clock), {0: 0.0}, clock) == [0, 2, 1]
    clock = Clock()
    assert order(Scheduler(tasks, 100, clock), {0: 0.3}, clock) == [0, 1, 2]


def test_time_is_shared_by_worth_and_kept() -> None:
    tasks = [Weighed("a", "x", 3, 1.0), Weighed("b", "x", 1, 1.0)]
    clock = Clock()
    scheduler = Scheduler(tasks, 40, clock)
    assert scheduler.next() == (0, pytest.approx(30))
    clock.now = 10.0  # it took less than it was given, so there is more for the others
    assert scheduler.next() == (1, pytest.approx(30))
    assert scheduler.next() is None


def test_when_time_is_up_the_rest_is_left() -> None:
    clock = Clock()
    scheduler = Scheduler(TASKS, 10, clock)
    scheduler.next()
    clock.now = 11.0
    assert scheduler.next() is None
    assert scheduler.left == [0, 2, 3]

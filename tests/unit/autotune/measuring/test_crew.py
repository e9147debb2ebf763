"""Several processes with one workload: who checks, who times, and that they are kept from one program to the next."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.fakes.tuning_faults import Faulty
from tiledsl.autotune.measuring.child import Children
from tiledsl.autotune.measuring.crew import Crew
from tiledsl.autotune.measuring.host import HostRunner, Limits, NewHosts
from tiledsl.autotune.measuring.messages import Check, Open, Ready, Time
from tiledsl.autotune.measuring.runner import FINAL_PARTS, Checked, Rounds
from tiledsl.autotune.measuring.staff import MOST_SHARED, ON_CPU, ON_GPU, Staff


@dataclass
class Desk:
    """A host in this process. `meet`: those that check wait for each other there."""

    name: int
    log: list[tuple[int, object]]
    meet: threading.Barrier | None = None

    def send(self, request: object) -> None:
        self.log.append((self.name, request))
        self.request = request

    def answer(self, seconds: float) -> Any:
        match self.request:
            case Check():
                if self.meet is not None:
                    self.meet.wait(timeout=seconds)
                return Checked("ok")
            case Time():
                return Rounds([(1.0,) * len(self.request.plans)] * self.request.count)
            case _:
                return None

    def place(self) -> int:
        return 0

    def end(self) -> None:
        pass


def crew_of(size: int, checkers: int, log: list[tuple[int, object]], meet: threading.Barrier | None = None) -> Crew:
    members = [HostRunner(Faulty(), NewHosts(lambda n=n: Desk(n, log, meet)), Limits(60, 60, 60)) for n in range(size)]
    return Crew(members, checkers)


def of_kind(log: Sequence[tuple[int, object]], kind: type) -> list[int]:
    return [name for name, request in log if isinstance(request, kind)]


def test_all_processes_start_at_once() -> None:
    log: list[tuple[int, object]] = []
    crew_of(3, 1, log).begin()
    assert of_kind(log, Open) == [0, 1, 2]


def test_those_that_hold_finals_start_when_there_is_a_finalist() -> None:
    log: list[tuple[int, object]] = []
    members = [HostRunner(Faulty(), NewHosts(lambda n=n: Desk(n, log)), Limits(60, 60, 60)) for n in range(3)]
    crew = Crew(members, at_once=False)
    crew.begin()
    crew.check("a")
    crew.rounds(["a"], 1)
    assert of_kind(log, Open) == [0]
    crew.confirm("a")
    assert of_kind(log, Open) == [0, 1, 2]
    crew.close()


def test_who_confirms_has_made_itself_ready_for_it_while_others_checked() -> None:
    log: list[tuple[int, object]] = []
    members = [
        HostRunner(Faulty(), NewHosts(lambda n=n: Desk(n, log)), Limits(60, 60, 60), prepares=role)
        for n, role in enumerate(ON_GPU)
    ]
    crew = Crew(members, ON_GPU.count("check"))
    crew.begin()
    crew.check("a")
    crew.confirm("a")
    (ready,) = [name for name, request in log if isinstance(request, Open) and request.prepares == "confirm"]
    (asked,) = [name for name, request in log if isinstance(request, Check) and request.confirms]
    assert ready == asked == len(ON_GPU) - 1
    crew.close()


def test_several_check_at_once() -> None:
    """Each check waits for the other: one by one they would not come to an end."""
    log: list[tuple[int, object]] = []
    crew = crew_of(3, 2, log, threading.Barrier(2))
    crew.ahead(["a", "b"])
    assert [crew.check(plan).state for plan in ("a", "b")] == ["ok", "ok"]
    assert sorted(of_kind(log, Check)) == [0, 1]
    crew.close()


def test_a_plan_is_checked_once() -> None:
    log: list[tuple[int, object]] = []
    crew = crew_of(1, 1, log)
    crew.ahead(["a"])
    crew.check("a")
    crew.check("a")
    assert of_kind(log, Check) == [0]
    crew.close()


def test_each_part_of_the_finals_has_a_process_of_its_own() -> None:
    log: list[tuple[int, object]] = []
    crew = crew_of(3, 1, log)
    for _ in range(4):
        crew.rounds(["a"], 1)
        crew.renew()
    assert of_kind(log, Time) == [0, 1, 2, 2], "where there are no more, the last one starts anew"
    assert of_kind(log, Open) == [0, 1, 2, 2]
    crew.close()


def test_those_that_hold_finals_make_themselves_ready_at_once() -> None:
    """The last one has other things to do: it says whether the plans are right on other inputs."""
    log: list[tuple[int, object]] = []
    crew = crew_of(5, 2, log)
    crew.begin()
    crew.rounds(["pick", "a"], 1)
    crew.ready(["pick", "a"])
    assert [request.plans for _, request in log if isinstance(request, Ready)] == [("pick", "a")] * 3
    assert of_kind(log, Ready) == [1, 2, 3]
    crew.close()


def test_those_that_have_not_started_make_nothing_ready() -> None:
    log: list[tuple[int, object]] = []
    members = [HostRunner(Faulty(), NewHosts(lambda n=n: Desk(n, log)), Limits(60, 60, 60)) for n in range(3)]
    crew = Crew(members, at_once=False)
    crew.rounds(["pick", "a"], 1)
    crew.ready(["pick", "a"])
    assert of_kind(log, Open) == [0]
    assert not of_kind(log, Ready)
    crew.close()


def test_nobody_is_timed_before_all_checks_are_over_or_left() -> None:
    log: list[tuple[int, object]] = []
    meet = threading.Barrier(2)
    crew = crew_of(1, 1, log, meet)
    crew.ahead(["a", "b", "c"])
    while not of_kind(log, Check):
        pass
    threading.Timer(0.05, meet.wait).start()
    crew.rounds(["x"], 1)
    assert [type(request).__name__ for _, request in log] == ["Open", "Check", "Time"], "`b` and `c` were left"
    crew.close()


def test_processes_are_kept_for_the_next_workload() -> None:
    with Staff() as staff:
        crew = staff.crew(Faulty(), 8)
        crew.begin()
        assert crew.check("good").state == "ok"
        assert crew.confirm("good").state == "ok"
        crew.close()
        kept = list(staff.measurers._idle)  # pyright: ignore[reportPrivateUsage]
        assert len(kept) == 1 + FINAL_PARTS
        again = staff.crew(Faulty(), 8)
        again.begin()
        assert again.check("good").state == "ok"
        assert again.confirm("good").state == "ok"
        assert len(again.rounds(["good"], 3).times) == 3
        assert staff.measurers._idle == []  # pyright: ignore[reportPrivateUsage]
        again.close()
        assert set(staff.measurers._idle) == set(kept)  # pyright: ignore[reportPrivateUsage]
    assert all(child._process.poll() is not None for child in kept)  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("plan", ["wrong", "crashes"])
def test_a_process_in_which_something_went_wrong_is_not_kept(plan: str) -> None:
    with Children() as children:
        runner = HostRunner(Faulty(), children)
        assert runner.check(plan).state in ("wrong", "crash")
        runner.close()
        assert children._idle == []  # pyright: ignore[reportPrivateUsage]


def test_a_process_that_is_at_a_plan_is_ended_when_the_search_is() -> None:
    with Staff() as staff:
        crew = staff.crew(Faulty(), 8)
        crew.ahead(["hangs"])
        while not ((host := crew._members[0]._host) and host.place()):  # pyright: ignore[reportPrivateUsage]
            pass
        crew.close()
        assert crew._results["hangs"].result().state == "crash"  # pyright: ignore[reportPrivateUsage]


def test_large_arguments_are_in_one_process_at_a_time() -> None:
    with Staff() as staff:
        assert len(staff.crew(Faulty(), MOST_SHARED + 1)._members) == 1  # pyright: ignore[reportPrivateUsage]


def test_more_than_a_pipe_holds_is_sent_while_the_process_starts() -> None:
    with Children() as children:
        child = children.take()
        child.send(Open(Faulty("well" + " " * 10_000_000)))
        assert child._process.poll() is None  # pyright: ignore[reportPrivateUsage]
        assert child.answer(60) is None
        child.end()
        assert not os.path.exists(child._folder.name)  # pyright: ignore[reportPrivateUsage]


def test_each_part_of_the_finals_has_somebody() -> None:
    assert len(ON_GPU) == len(ON_CPU) == 1 + FINAL_PARTS

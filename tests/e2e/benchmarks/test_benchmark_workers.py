"""Tasks of benchmarks in processes of their own: what is found, what fails, who measures."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

from benchmarks.gpu.workers import Failure, Turn, in_workers


def work(task: str, turn: Turn, log: Path) -> str:
    """What a task is told to do by its name."""
    if task.startswith("wrong"):
        raise ValueError(f"of {task}")
    if task.startswith("broken"):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    if task.startswith("gone in its turn"):
        with turn:
            os._exit(3)
    if task.startswith("gone"):
        os._exit(3)
    if task.startswith("slow"):
        time.sleep(60)
    with turn, log.open("a") as file:
        file.write(f"{task} begins {os.getpid()}\n")
        file.flush()
        time.sleep(0.02)
        file.write(f"{task} ends {os.getpid()}\n")
    return task.upper()


def test_everybody_measures_alone(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tasks = [f"task{number}" for number in range(8)]
    assert dict(in_workers(tasks, partial(work, log=log), 3)) == {task: task.upper() for task in tasks}
    lines = [line.split()[:2] for line in log.read_text().splitlines()]
    assert len(lines) == 16
    for begins, ends in zip(lines[::2], lines[1::2]):
        assert (begins, ends) == ([begins[0], "begins"], [begins[0], "ends"])


def test_what_fails_stops_nobody_else(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tasks = ["a", "wrong b", "broken c", "gone d", "gone in its turn e", "slow f", "g", "h"]
    found = dict(in_workers(tasks, partial(work, log=log), 2, patience=5))
    reasons = {task: value.reason for task, value in found.items() if isinstance(value, Failure)}
    assert {task: value for task, value in found.items() if task not in reasons} == {"a": "A", "g": "G", "h": "H"}
    assert reasons.pop("wrong b").startswith("ValueError: of wrong b [work:")
    assert "illegal memory access" in reasons.pop("broken c")
    assert reasons == {
        "gone d": "the process ended",
        "gone in its turn e": "the process ended",
        "slow f": "took more than 5 s",
    }


def test_nothing_to_do() -> None:
    assert list(in_workers([], partial(work, log=Path()), 2)) == []

from __future__ import annotations

from tiledsl.support.progress import Progress


def lines_of(seconds_per_step: float, steps: int) -> list[str]:
    said: list[str] = []
    now = [0.0]
    progress = Progress("checking `f`", steps, said.append, lambda: now[0])
    for _ in range(steps):
        now[0] += seconds_per_step
        progress.step()
    return said


def test_what_is_short_is_not_mentioned() -> None:
    assert lines_of(0.1, 50) == []
    assert lines_of(3.0, 2) == []
    assert lines_of(60.0, 1) == []


def test_what_is_long_is_told_after_a_second_and_then_from_time_to_time() -> None:
    assert lines_of(0.5, 60) == [
        "checking `f`: 2 of 60 done, about 29 s left",
        "checking `f`: 22 of 60 done, about 19 s left",
        "checking `f`: 42 of 60 done, about 9 s left",
    ]

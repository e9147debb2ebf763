"""Recursive questions, answered without recursion."""

from __future__ import annotations

import sys
from collections.abc import Generator

from tiledsl.support.follow import follow


def test_depth_is_no_limit_and_places_are_asked_once() -> None:
    asked: list[int] = []

    def sums(place: int) -> Generator[int, int, int]:
        """Fibonacci numbers, modulo a prime: a tree of 2**place calls."""
        asked.append(place)
        return (1 if place < 2 else (yield place - 1) + (yield place - 2)) % 1009

    steps = 10 * sys.getrecursionlimit()
    before, last = 1, 1
    for _ in range(steps - 1):
        before, last = last, (before + last) % 1009
    assert follow(sums, steps) == last
    assert sorted(asked) == list(range(steps + 1))


def test_answers_from_before_are_kept() -> None:
    def length(text: str) -> Generator[str, int, int]:
        return 1 + (yield text[1:])

    known = {"": 0}
    assert follow(length, "abc", known) == 3
    assert known == {"": 0, "c": 1, "bc": 2, "abc": 3}
    assert follow(length, "bc", known) == 2

"""Where the buffers within a call lie: all in one arena, in which memory is used again once nobody needs it.

a = step 0          a: 0..400     lives in steps 0 to 1
b = step 1(a)       b: 512..912   lives in steps 1 to 2
c = step 2(b)       c: 0..400     a is dead
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiledsl.runtime.programs.schedule import Schedule

ALIGNMENT = 256
"""Of each buffer in the arena, in bytes: the widest access, and the lines of every cache, divide it."""


MOST_DIRECT = 2
"""Steps up to which a GPU is given them one by one at each call."""


@dataclass(frozen=True)
class MemoryPlan:
    """`offsets`: bytes into the arena, by the number of the buffer. `unshared_bytes`: what the buffers would take if
    each had memory of its own."""

    offsets: Mapping[int, int]
    bytes: int
    unshared_bytes: int


@dataclass(frozen=True)
class _Life:
    """A buffer with its size, rounded up, and the first and the last step that touch it."""

    buffer: int
    size: int
    first: int
    last: int

    def meets(self, other: _Life) -> bool:
        return self.first <= other.last and other.first <= self.last


def plan_memory(schedule: Schedule) -> MemoryPlan:
    """First fit, the largest buffers first: each goes to the lowest place where none lies that lives when it does."""
    lives = sorted(_lives(schedule), key=lambda life: (-life.size, life.first))
    placed: list[tuple[int, _Life]] = []
    for life in lives:
        place = 0
        for start, other in sorted((p for p in placed if p[1].meets(life)), key=lambda p: p[0]):
            if place + life.size <= start:
                break
            place = max(place, start + other.size)
        placed.append((place, life))
    total = max((place + life.size for place, life in placed), default=0)
    offsets = {life.buffer: place for place, life in placed}
    return MemoryPlan(offsets, total, sum(life.size for life in lives))


def is_direct(schedule: Schedule, memory: MemoryPlan) -> bool:
    """Whether a GPU runs the steps as launches of their own: they are few, and have nothing between them."""
    return len(schedule.steps) <= MOST_DIRECT and not memory.offsets


def _lives(schedule: Schedule) -> list[_Life]:
    spans: dict[int, tuple[int, int]] = {}
    for number, step in enumerate(schedule.steps):
        for buffer in step.buffers:
            if schedule.buffers[buffer].role == "inner":
                first, _ = spans.get(buffer, (number, number))
                spans[buffer] = (first, number)
    return [
        _Life(buffer, -(-schedule.buffers[buffer].bytes // ALIGNMENT) * ALIGNMENT, first, last)
        for buffer, (first, last) in sorted(spans.items())
    ]

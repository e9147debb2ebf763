"""Which launches of a module repeat each other: the layers of a model, the steps of an unrolled loop.

launches a b c b c b c d    parts: a; (b c) 3 times; d
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tiledsl.runtime.programs.schedule import Operand, Schedule, Step

FEW = 12
"""Launches up to which all are shown."""
LONGEST = 256
"""Launches of the longest sequence whose repetition is looked for."""
SMALLEST = 4
"""Launches that are worth to be shown as one part."""


@dataclass(frozen=True)
class Part:
    """Launches that follow each other, from number `first` on: a single one, or `count` times `inside`."""

    first: int
    inside: tuple[Part, ...] = ()
    """The parts of the first repetition; none for a single launch."""
    count: int = 1

    @property
    def period(self) -> int:
        """The launches of one repetition."""
        return sum(len(part.launches) for part in self.inside) if self.inside else 1

    @property
    def launches(self) -> range:
        return range(self.first, self.first + self.period * self.count)


def all_parts(schedule: Schedule) -> list[Part]:
    """Every launch by itself."""
    return [Part(number) for number in range(len(schedule.steps))]


def repeated_parts(schedule: Schedule) -> list[Part]:
    """The launches, with what repeats shown once; every launch by itself where there are few."""
    ids: dict[object, int] = {}
    return _parts([ids.setdefault(_likeness(schedule, step), len(ids)) for step in schedule.steps], 0)


def _likeness(schedule: Schedule, step: Step) -> object:
    """Equal for launches of one program on tensors of the same shapes, weights at the same places."""
    tensors = [(t.view.shape, schedule.buffers[t.buffer].role == "constant") for t in step.tensors]
    numbers = [isinstance(number, Operand) or number for number in step.numbers]
    return step.name.rstrip("0123456789"), step.program, tuple(tensors), tuple(map(repr, numbers))


def _parts(likenesses: Sequence[int], first: int) -> list[Part]:
    if len(likenesses) <= FEW:
        return [Part(first + number) for number in range(len(likenesses))]
    parts: list[Part] = []
    repeats = _repeats(likenesses)
    here = 0
    while here < len(likenesses):
        covered, negative = max(((p * repeats[p][here], -p) for p in repeats if repeats[p][here] > 1), default=(0, 0))
        if covered < SMALLEST:
            parts.append(Part(first + here))
            here += 1
        else:
            inside = _parts(likenesses[here : here - negative], first + here)
            parts.append(Part(first + here, tuple(inside), covered // -negative))
            here += covered
    return parts


def _repeats(likenesses: Sequence[int]) -> dict[int, list[int]]:
    """For each period and each place, how often the launches of one period from there on follow each other."""
    count = len(likenesses)
    found: dict[int, list[int]] = {}
    for period in range(1, min(LONGEST, count // 2) + 1):
        same = [0] * (count + 1)  # how many launches from here on are what comes a period later
        for place in range(count - period - 1, -1, -1):
            same[place] = same[place + 1] + 1 if likenesses[place] == likenesses[place + period] else 0
        if max(same) >= period:
            found[period] = [length // period + 1 for length in same]
    return found

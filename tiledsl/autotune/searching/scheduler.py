"""Which task of a module is searched next, and for how long: what a gain there is worth to the whole.

weight of a task = launches x predicted seconds
worth            = weight above the floor x the part that tasks of its family have gained so far
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

FIRST_GAIN = 0.1
"""The part of their time that tasks of a family are expected to gain before one was searched."""
LEAST_SHARE = 0.005
"""Of the time of the module: tasks that take less are not worth a search."""
LEAST_GAIN = 0.01
"""What a family that has gained nothing may still gain."""


@dataclass(frozen=True)
class Weighed:
    """A task as the scheduler sees it. `seconds`: of one launch; `floor`: that no code could be below, or 0."""

    name: str
    family: str
    launches: int
    seconds: float
    floor: float = 0.0

    @property
    def weight(self) -> float:
        return self.launches * self.seconds

    @property
    def above_floor(self) -> float:
        return self.launches * max(0.0, self.seconds - self.floor)


class Scheduler:
    """Hands out tasks, what is worth most first."""

    def __init__(
        self,
        tasks: Sequence[Weighed],
        seconds: float,
        clock: Callable[[], float],
        workers: int = 1,
        known: Sequence[Weighed] = (),
    ) -> None:
        """`seconds`: for all of them; `clock` gives seconds; `workers`: how many tasks are searched at once; `known`:
        the tasks of the module that need no search."""
        self._workers = workers
        total = sum(task.weight for task in (*tasks, *known))
        self._left = [number for number, task in enumerate(tasks) if task.weight >= LEAST_SHARE * total]
        self.skipped = [number for number, task in enumerate(tasks) if task.weight < LEAST_SHARE * total]
        """Tasks that are not worth a search."""
        self._tasks = tasks
        self._clock = clock
        self._end = clock() + seconds
        self._gains: dict[str, list[float]] = {}

    def next(self) -> tuple[int, float] | None:
        """The number of the next task, and the seconds for it; None when all are done or time is up."""
        time_left = self._end - self._clock()
        if not self._left or time_left <= 0:
            return None
        worths = {number: self._worth(self._tasks[number]) for number in self._left}
        number = max(worths, key=lambda one: worths[one])
        self._left.remove(number)
        total = sum(worths.values())
        share = worths[number] / total if total else 1.0
        return number, time_left * min(1.0, self._workers * share)

    @property
    def left(self) -> list[int]:
        """Tasks that were not handed out."""
        return list(self._left)

    def gained(self, number: int, part: float) -> None:
        """Is told what part of its time a task has gained: 0.1 of a tenth."""
        self._gains.setdefault(self._tasks[number].family, []).append(max(0.0, part))

    def _worth(self, task: Weighed) -> float:
        gains = self._gains.get(task.family)
        expected = FIRST_GAIN if not gains else max(LEAST_GAIN, sum(gains) / len(gains))
        return task.above_floor * expected

"""Plans of which hardly anybody asks for more than the best: the others are made when somebody does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import overload

from tiledsl.passes.gpu.plan import Plan


class PlansOnDemand(Sequence[Plan]):
    """`best`, and behind it what `every` gives, which begins with it."""

    def __init__(self, best: Plan, every: Callable[[], Sequence[Plan]]) -> None:
        self._best, self._make = best, every

    @cached_property
    def _every(self) -> list[Plan]:
        return [self._best, *(plan for plan in self._make() if plan != self._best)]

    @overload
    def __getitem__(self, place: int) -> Plan: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Plan]: ...
    def __getitem__(self, place: int | slice) -> Plan | Sequence[Plan]:
        return self._best if place == 0 else self._every[place]

    def __len__(self) -> int:
        return len(self._every)

    def chained(self, chained: bool) -> PlansOnDemand:
        """The same for a kernel of a chain, or for one by itself."""
        best = replace(self._best, chained=chained)
        return PlansOnDemand(best, lambda: [replace(plan, chained=chained) for plan in self._every])

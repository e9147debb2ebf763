"""Plans for a GPU as a breeder sees them. Which combinations of decisions are plans, and what they are predicted to
take, is known of those that the model has ranked: they are bred among themselves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cached_property

from tiledsl.passes.gpu.plan import Plan, parse_plan

MOST_APART = 2
"""Decisions that a mutated plan may have otherwise: the number of stages follows the size of blocks."""
FOLLOWING = frozenset({"programs", "rows", "copied", "lines"})
"""What follows from other decisions, or from the arguments."""


class BredCudaPlans:
    """The plans of one question that the model has ranked."""

    def __init__(self, ranked: Mapping[str, float]) -> None:
        """`ranked`: seconds by the model, of each plan as text."""
        self._seconds = ranked
        self._decisions = {plan: decisions_of(parse_plan(plan)) for plan in ranked}

    def mutated(self, plan: str) -> Iterator[str]:
        """As `BredSpace.mutated`, with at most two decisions that are others."""
        own = self._of(plan)
        for other, theirs in self._decisions.items():
            if 0 < _apart(own, theirs) <= MOST_APART:
                yield other

    def crossed(self, one: str, other: str) -> Iterator[str]:
        """As `BredSpace.crossed`."""
        first, second = self._of(one), self._of(other)
        for plan, theirs in self._decisions.items():
            if theirs not in (first, second) and all(
                value in (first.get(name), second.get(name)) for name, value in theirs.items()
            ):
                yield plan

    def predicted(self, plan: str) -> float:
        """As `BredSpace.predicted`."""
        return self._seconds.get(plan, 0.0)

    def terms(self, plan: str) -> tuple[float, ...]:
        """Logarithms of decisions that are numbers, and for each other decision whether it was made."""
        own = self._of(plan)
        return tuple(_term(own.get(name), value) for name, value in self._asked)

    @cached_property
    def _asked(self) -> list[tuple[str, object]]:
        """What terms say: the decisions that are not the same in all plans. Of those that are no numbers, each choice
        but one is a term."""
        choices: dict[str, set[object]] = {}
        for decisions in self._decisions.values():
            for name in {*choices, *decisions}:
                choices.setdefault(name, set()).add(decisions.get(name))
        asked: list[tuple[str, object]] = []
        for name, found in sorted(choices.items()):
            if len(found) < 2:
                continue
            if all(value is None or _is_number(value) for value in found):
                asked.append((name, None))
            else:
                asked += [(name, value) for value in sorted(found, key=str)[1:]]
        return asked

    def _of(self, plan: str) -> Mapping[str, object]:
        found = self._decisions.get(plan)
        return decisions_of(parse_plan(plan)) if found is None else found


def decisions_of(plan: Plan) -> dict[str, object]:
    """The decisions of a plan by name: `block m`, `threads of 0`."""
    found: dict[str, object] = {f"block {name}": size for name, size in plan.blocks}
    found.update({"parts": plan.parts, "turned": plan.turned, "forwarded": plan.forwarded})
    for number, grid in enumerate(plan.grids):
        for name, value in asdict(grid).items():
            if name not in FOLLOWING:
                found[f"{name} of {number}"] = value
        found[f"one after the other of {number}"] = grid.programs > 0
    return found


def _apart(one: Mapping[str, object], other: Mapping[str, object]) -> int:
    return sum(one.get(name) != other.get(name) for name in {*one, *other})


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _term(own: object, value: object) -> float:
    if value is not None:
        return float(own == value)
    return math.log2(own) if isinstance(own, int) and own > 0 else 0.0

"""Plans bred from those that were timed: mutated by one decision, or crossed, and the best by model x residual taken.

parents: the best plans so far    children: all of their neighbours, and mixtures of two    taken: few, one at random
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from tiledsl.autotune.candidates.candidate import Candidate
from tiledsl.autotune.candidates.residual import Sample, learned

PARENTS = 4
"""Plans that are bred from."""


class BredSpace(Protocol):
    """Plans of one question, as text."""

    def mutated(self, plan: str, /) -> Iterable[str]:
        """Legal plans that differ from one by a single decision."""
        ...

    def crossed(self, one: str, other: str, /) -> Iterable[str]:
        """Legal plans that have each decision from one of two plans."""
        ...

    def predicted(self, plan: str, /) -> float:
        """Seconds by the model."""
        ...

    def terms(self, plan: str, /) -> tuple[float, ...]:
        """What the model's time is made of."""
        ...


class Breeder:
    """Breeds plans of a space. `uses_residual`: whether what the model got wrong is learned; `others`: samples of
    searches for other sizes, one group for each."""

    def __init__(
        self,
        space: BredSpace,
        seed: int = 0,
        *,
        uses_residual: bool = True,
        others: Sequence[Sequence[Sample]] = (),
    ) -> None:
        self._space = space
        self._others = others
        self._random = random.Random(seed)
        self._uses_residual = uses_residual

    def next(self, timed: Mapping[str, float], known: Iterable[str], count: int) -> list[Candidate]:
        """At most so many plans that are not `known`. `timed`: seconds, in any unit, of plans that are right."""
        space, known = self._space, {*known, *timed}
        parents = sorted(timed, key=lambda plan: timed[plan])[:PARENTS]
        children: dict[str, str] = {}
        for parent in parents:
            for child in space.mutated(parent):
                children.setdefault(child, "bred: one decision of a good plan is another")
        for place, one in enumerate(parents):
            for other in parents[place + 1 :]:
                for child in space.crossed(one, other):
                    children.setdefault(child, "bred: of two good plans")
        new = [child for child in children if child not in known]
        residual = learned(self._samples(timed), self._others) if self._uses_residual else None

        def score(plan: str) -> float:
            factor = 1.0 if residual is None else residual.factor(space.terms(plan))
            return space.predicted(plan) * factor

        ranked = sorted(new, key=score)
        taken = ranked[:count]
        if len(ranked) > count > 1:  # one by chance: the model may be wrong where nothing was timed
            taken[-1] = self._random.choice(ranked[count - 1 :])
        return [Candidate(plan, space.predicted(plan), children[plan]) for plan in taken]

    def _samples(self, timed: Mapping[str, float]) -> list[Sample]:
        space = self._space
        return [Sample(space.terms(plan), space.predicted(plan), seconds) for plan, seconds in timed.items()]

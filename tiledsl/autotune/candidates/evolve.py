"""Plans bred from those that were timed: mutated by one decision, or crossed, and the best by model x residual taken.

parents: the best plans so far    children: all of their neighbours, and mixtures of two    taken: few, one at random
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from statistics import NormalDist, fmean, stdev
from typing import Protocol

from tiledsl.autotune.candidates.candidate import Candidate
from tiledsl.autotune.candidates.residual import Residual, Sample, learned

PARENTS = 4
"""Plans that are bred from."""
FEWEST_TO_TELL = 4
"""Plans that have to be timed before others are given up."""
LEAST_SPREAD = 0.03
"""In the logarithm of time: a model that seems better than that was lucky."""
WORTH_IT = 0.99
"""Of the best time so far: what is nearer to it is not worth a trial."""


class BredSpace(Protocol):
    """Plans of one question, as text."""

    def mutated(self, plan: str, /) -> Iterable[str]:
        """Legal plans that differ from one by a single decision."""
        ...

    def crossed(self, one: str, other: str, /) -> Iterable[str]:
        """Legal plans that have each decision from one of two plans."""
        ...

    def predicted(self, plan: str, /) -> float:
        """Seconds by the model; 0 for a plan that it has no opinion of."""
        ...

    def terms(self, plan: str, /) -> tuple[float, ...]:
        """What the model's time is made of."""
        ...


class Breeder:
    """Breeds plans of a space. `uses_residual`: whether what the model got wrong is learned; `others`: samples of
    searches for other sizes, one group for each. `least_chance`: of being faster by a hundredth than the best plan so
    far, below which a plan is not tried."""

    def __init__(
        self,
        space: BredSpace,
        seed: int = 0,
        *,
        uses_residual: bool = True,
        others: Sequence[Sequence[Sample]] = (),
        least_chance: float = 0.0,
    ) -> None:
        self._space = space
        self._least_chance = least_chance
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
        samples = self._samples(timed)
        residual = learned(samples, self._others) if self._uses_residual else None

        def score(plan: str) -> float:
            factor = 1.0 if residual is None else residual.factor(space.terms(plan))
            return space.predicted(plan) * factor

        ranked = sorted(new, key=score)
        if self._least_chance and len(samples) >= FEWEST_TO_TELL:
            chances = Chances([(score_of(sample, residual), sample) for sample in samples])
            ranked = [plan for plan in ranked if chances.of(score(plan)) >= self._least_chance]
        taken = ranked[:count]
        if len(ranked) > count > 1:  # one by chance: the model may be wrong where nothing was timed
            taken[-1] = self._random.choice(ranked[count - 1 :])
        return [Candidate(plan, space.predicted(plan), children[plan]) for plan in taken]

    def _samples(self, timed: Mapping[str, float]) -> list[Sample]:
        space = self._space
        return [
            Sample(space.terms(plan), space.predicted(plan), seconds)
            for plan, seconds in timed.items()
            if space.predicted(plan) > 0
        ]


def score_of(sample: Sample, residual: Residual | None) -> float:
    """What a plan that was timed was expected to take, up to a constant."""
    return sample.predicted * (1.0 if residual is None else residual.factor(sample.terms))


class Chances:
    """How likely plans are to win, by how far the model was off for those that were timed: whatever is learned of that,
    the spread is that of the model alone, since few samples flatter who learns from them."""

    def __init__(self, scored: Sequence[tuple[float, Sample]]) -> None:
        """Of at least two plans."""
        self._scale = fmean(math.log(sample.measured / score) for score, sample in scored)
        errors = [math.log(sample.measured / sample.predicted) for _, sample in scored]
        self._spread = max(LEAST_SPREAD, stdev(errors))
        self._goal = math.log(WORTH_IT * min(sample.measured for _, sample in scored))

    def of(self, score: float) -> float:
        """That a plan of such a score takes less than 0.99 of the best time so far."""
        return NormalDist().cdf((self._goal - math.log(score) - self._scale) / self._spread)

"""What a model gets wrong, learned from plans that were timed: a factor on its time, by the terms of its own cost.

    seconds  ~  predicted seconds x exp(weights . terms)

The weights are those of a ridge regression. They are kept only where they would have foretold each sample from the
others better than the model alone did.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

FEWEST = 6
"""Fewer samples teach nothing."""
RIDGE = 1.0
"""How strongly weights are held near 0, in units of one sample."""


class Sample(NamedTuple):
    """A plan that was timed: its terms, and seconds as predicted and as measured, in any unit."""

    terms: tuple[float, ...]
    predicted: float
    measured: float


@dataclass(frozen=True)
class Residual:
    """The factor. `weights` are empty where nothing was learned."""

    means: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()

    def factor(self, terms: Sequence[float]) -> float:
        """What to multiply a predicted time by, up to a constant that is the same for all plans."""
        return math.exp(sum(w * (term - mean) for w, term, mean in zip(self.weights, terms, self.means)))


def learned(samples: Sequence[Sample]) -> Residual:
    """The residual of these samples, if it is of use."""
    if len(samples) < FEWEST:
        return Residual()
    terms: Any = np.array([sample.terms for sample in samples], np.float64)
    errors: Any = np.array([math.log(sample.measured / sample.predicted) for sample in samples])
    means: Any = terms.mean(axis=0)
    centred, wanted = terms - means, errors - errors.mean()
    solve: Any = np.linalg.solve
    inner = centred.T @ centred + RIDGE * np.eye(len(means))
    weights: Any = solve(inner, centred.T @ wanted)
    # each sample by what the others teach, and by their mean (the mean is fitted too)
    hat: Any = centred @ solve(inner, centred.T)
    count = len(samples)
    left_out: Any = (wanted - hat @ wanted) / (1 - hat.diagonal() - 1 / count)
    by_mean: Any = wanted * count / (count - 1)
    if float((left_out**2).sum()) >= float((by_mean**2).sum()):
        return Residual()
    return Residual(tuple(map(float, means)), tuple(map(float, weights)))

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
FEWEST_OF_A_SIZE = 3
"""Of samples, for a size to be heard."""
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


def learned(samples: Sequence[Sample], others: Sequence[Sequence[Sample]] = ()) -> Residual:
    """The residual of these samples, if it is of use. `others`: samples of searches for other sizes, one group for
    each: they count where sizes foretell each other, of which a constant factor for each size says nothing."""
    groups = [group for group in (*others, samples) if len(group) >= FEWEST_OF_A_SIZE]
    if len(groups) >= 2 and _foretell_each_other(groups):
        return _of(*_centred(groups))
    alone = samples if len(samples) >= FEWEST or len(groups) != 1 else groups[0]
    return _learned_alone(alone)


def _learned_alone(samples: Sequence[Sample]) -> Residual:
    if len(samples) < FEWEST:
        return Residual()
    terms, errors, means = _centred([samples])
    # each sample by what the others teach, and by their mean (the mean is fitted too)
    solve: Any = np.linalg.solve
    hat: Any = terms @ solve(_inner(terms), terms.T)
    count = len(samples)
    left_out: Any = (errors - hat @ errors) / (1 - hat.diagonal() - 1 / count)
    by_mean: Any = errors * count / (count - 1)
    if float((left_out**2).sum()) >= float((by_mean**2).sum()):
        return Residual()
    return _of(terms, errors, means)


def _foretell_each_other(groups: Sequence[Sequence[Sample]]) -> bool:
    """Whether what the others teach makes predictions for a size better, over all sizes."""
    with_it = without = 0.0
    for number, group in enumerate(groups):
        rest = [other for place, other in enumerate(groups) if place != number]
        terms, errors, _ = _centred([group])
        weights: Any = np.array(_of(*_centred(rest)).weights)
        off: Any = errors - terms @ weights
        with_it += float((off**2).sum())
        without += float((errors**2).sum())
    return with_it < without


def _centred(groups: Sequence[Sequence[Sample]]) -> tuple[Any, Any, Any]:
    """Terms and logarithms of errors, less the means of their group; and the means of all terms."""
    terms: list[Any] = [np.array([sample.terms for sample in group], np.float64) for group in groups]
    errors: list[Any] = [np.log([sample.measured / sample.predicted for sample in group]) for group in groups]
    return (
        np.concatenate([one - one.mean(axis=0) for one in terms]),
        np.concatenate([one - one.mean() for one in errors]),
        np.concatenate(terms).mean(axis=0),
    )


def _of(terms: Any, errors: Any, means: Any) -> Residual:
    """The ridge regression."""
    solve: Any = np.linalg.solve
    weights: Any = solve(_inner(terms), terms.T @ errors)
    return Residual(tuple(map(float, means)), tuple(map(float, weights)))


def _inner(terms: Any) -> Any:
    return terms.T @ terms + RIDGE * np.eye(terms.shape[1])

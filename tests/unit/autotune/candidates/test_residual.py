"""What a model gets wrong, learned."""

from __future__ import annotations

import math
import random

import pytest

from tiledsl.autotune.candidates.residual import FEWEST, Residual, Sample, learned


def samples(count: int, weight: float, noise: float, seed: int = 0) -> list[Sample]:
    source = random.Random(seed)
    found: list[Sample] = []
    for _ in range(count):
        terms = (source.uniform(0, 8), source.random())
        found.append(Sample(terms, 1e-3, 5e-3 * math.exp(weight * terms[0] + noise * source.gauss(0, 1))))
    return found


def test_what_depends_on_a_term_is_found() -> None:
    found = learned(samples(16, 0.2, 0.02))
    assert found.weights[0] == pytest.approx(0.2, abs=0.02)
    ratio = found.factor((8, 0.5)) / found.factor((0, 0.5))
    assert ratio == pytest.approx(math.exp(1.6), rel=0.15)


@pytest.mark.parametrize("seed", range(10))
def test_noise_teaches_nothing_much(seed: int) -> None:
    found = learned(samples(12, 0.0, 0.1, seed))
    assert 0.5 < found.factor((8, 0.5)) / found.factor((0, 0.5)) < 2


def test_few_samples_teach_nothing() -> None:
    assert learned(samples(FEWEST - 1, 0.2, 0.0)) == Residual()
    assert Residual().factor((1, 2)) == 1.0


def test_terms_that_are_all_alike_teach_nothing() -> None:
    assert learned([Sample((1.0, 2.0), 1e-3, 1e-3 * (1 + n / 100)) for n in range(10)]) == Residual()


def test_other_sizes_teach_what_they_have_in_common() -> None:
    """Two samples of a size say nothing; those of two other sizes, slower by whatever factor, do."""
    others = [samples(16, 0.2, 0.02, 1), [s._replace(measured=7 * s.measured) for s in samples(16, 0.2, 0.02, 2)]]
    found = learned(samples(2, 0.2, 0.0), others)
    assert abs(found.weights[0] - 0.2) < 0.02


def test_other_sizes_that_do_not_foretell_each_other_are_not_heard() -> None:
    others = [samples(16, 0.2, 0.02, 1), samples(16, -0.3, 0.02, 2)]
    assert learned([], others) == Residual()
    own = samples(16, 0.2, 0.02, 3)
    assert learned(own, [samples(16, -0.3, 0.02, 2)]) == learned(own)


def test_one_other_size_is_heard_until_there_are_own_samples() -> None:
    other = samples(16, 0.2, 0.02, 1)
    assert learned([], [other]) == learned(other)

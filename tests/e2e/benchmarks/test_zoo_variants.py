"""Drawn formulas of movement and elementwise work: none is predicted far from its floor."""

from __future__ import annotations

import pytest

from benchmarks.zoo.variants import CLASSES, Variant, variants

FAR = 2.1
"""A predicted time over the floor: rows that begin anywhere are accessed element by element, and divided in f32."""


@pytest.mark.parametrize("variant", list(variants(seed=0, rounds=1)), ids=str)
def test_predicted_beside_the_floor(variant: Variant) -> None:
    audit = variant.audit("sm_90")
    assert audit.ratio < FAR, f"{variant}\n{audit}"


@pytest.mark.slow
@pytest.mark.parametrize("variant", list(variants(seed=100, rounds=12)), ids=str)
def test_more_of_them(variant: Variant) -> None:
    audit = variant.audit("sm_90")
    assert audit.ratio < FAR, f"{variant}\n{audit}"


def test_the_same_seed_draws_the_same() -> None:
    assert list(map(str, variants(3, 1))) == list(map(str, variants(3, 1)))
    assert len(list(variants(3, 2))) == 2 * len(CLASSES)

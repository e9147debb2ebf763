from __future__ import annotations

import gc

import pytest

from tiledsl.support.fewer_collections import NEW_OBJECTS, fewer_collections


@pytest.fixture(autouse=True)
def thresholds():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_thresholds_are_those_of_before_when_the_last_one_leaves():
    gc.set_threshold(700, 10, 10)
    with fewer_collections():
        with fewer_collections():
            assert gc.get_threshold() == (NEW_OBJECTS, 10, 10)
        assert gc.get_threshold() == (NEW_OBJECTS, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


def test_an_error_restores_them_too():
    gc.set_threshold(700, 10, 10)
    with pytest.raises(ValueError), fewer_collections():
        raise ValueError
    assert gc.get_threshold() == (700, 10, 10)


def test_what_somebody_else_sets_meanwhile_stays():
    gc.set_threshold(700, 10, 10)
    with fewer_collections():
        gc.set_threshold(5, 5, 5)
    assert gc.get_threshold() == (5, 5, 5)


@pytest.mark.parametrize("first", [0, 2 * NEW_OBJECTS])
def test_a_collector_that_is_off_or_waits_longer_stays_so(first: int):
    gc.set_threshold(first, 10, 10)
    with fewer_collections():
        assert gc.get_threshold() == (first, 10, 10)
    assert gc.get_threshold() == (first, 10, 10)

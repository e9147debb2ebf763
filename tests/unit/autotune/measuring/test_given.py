"""What calls are given: what somebody has, and what each process draws for itself."""

from __future__ import annotations

import pickle

import numpy as np

from gemm import gemm
from tiledsl.autotune.measuring.given import DRAWN, DrawnArrays, GivenArrays

SIZES = {"M": 300, "K": 400, "N": 8}


def drawn() -> DrawnArrays:
    a, b = np.empty((300, 400), np.float16), np.empty((400, 8), np.float16)
    return DrawnArrays.of(gemm.compile(a, b, arch="sm_90").interface, SIZES)


def test_every_process_draws_the_same_and_nobody_sends_them() -> None:
    given = drawn()
    sent = pickle.dumps(given)
    assert len(sent) < 5000
    there = pickle.loads(sent).arrays()
    assert [array.shape for array in there] == [(300, 400), (400, 8)]
    for one, other in zip(given.arrays(), there):
        assert one.dtype == np.float16
        assert np.array_equal(one, other)
        one[:] = 0
        assert not np.array_equal(given.arrays()[0], one), "each time anew"
    assert given.nbytes == sum(array.nbytes for array in there)


def test_they_are_normal_and_no_two_rows_are_alike() -> None:
    large, _ = drawn().arrays()
    assert large.size > DRAWN
    assert abs(large.astype(np.float64).mean()) < 0.02
    assert abs(large.astype(np.float64).std() - 1) < 0.02
    assert len(np.unique(large, axis=0)) == len(large)


def test_what_somebody_has_is_passed_on() -> None:
    array = np.ones(8, np.float32)
    assert GivenArrays((array,)).arrays() == (array,)
    assert GivenArrays((array, array)).nbytes == 64

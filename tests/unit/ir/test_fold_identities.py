"""What folds start from, in every element type."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

from tiledsl.ir import dtypes, fold_identities
from tiledsl.ir.dtypes import DType, to_numpy
from tiledsl.ir.fold_identities import least, most

STORED = [dtype for dtype in dtypes.ALL if dtype.bits >= 8]


def test_the_examples_hold() -> None:
    assert doctest.testmod(fold_identities, extraglobs={"BY_NAME": dtypes.BY_NAME}).failed == 0


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_extremes_are_numbers_of_the_type(dtype: DType) -> None:
    for number in (least(dtype), most(dtype)):
        stored = np.asarray(number).astype(to_numpy(dtype))
        assert not np.isnan(stored.astype(np.float64))
        assert stored.astype(np.float64) == np.float64(number)


@pytest.mark.parametrize("dtype", [d for d in STORED if d.kind in ("int", "uint")], ids=str)
def test_extremes_of_integers_are_those_of_numpy(dtype: DType) -> None:
    limits = np.iinfo(to_numpy(dtype))
    assert (least(dtype), most(dtype)) == (limits.min, limits.max)

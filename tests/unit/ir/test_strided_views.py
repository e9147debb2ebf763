"""Views as strides: held against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tiledsl.ir.strided_views import StridedView, broadcast, reshaped, simplest, sliced, strided_view, transposed, whole

BASE: Any = np.arange(24)


def seen(view: StridedView) -> Any:
    """What a view shows of `BASE`."""
    strides = [8 * stride for stride in view.strides]
    return np.lib.stride_tricks.as_strided(BASE[view.offset :], view.shape, strides)


X = whole((2, 3, 4))
XS = BASE.reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (X, XS),
        (transposed(X, (2, 0, 1)), XS.transpose(2, 0, 1)),
        (sliced(X, (1, 0, 1), (2, 3, 4), (1, 2, 2)), XS[1:2, 0:3:2, 1:4:2]),
        (
            broadcast(sliced(X, (0, 1, 0), (2, 2, 4), (1, 1, 1)), (5, 2, 3, 4)),
            np.broadcast_to(XS[:, 1:2], (5, 2, 3, 4)),
        ),
        (reshaped(X, (6, 2, 2)), XS.reshape(6, 2, 2)),
        (reshaped(transposed(X, (2, 0, 1)), (4, 1, 6)), XS.transpose(2, 0, 1).reshape(4, 1, 6)),
        (reshaped(sliced(X, (0, 1, 0), (2, 3, 4), (1, 1, 1)), (2, 8, 1)), XS[:, 1:].reshape(2, 8, 1)),
        (reshaped(sliced(X, (0, 1, 0), (2, 3, 4), (1, 1, 1)), (16,)), None),
        (reshaped(transposed(X, (2, 1, 0)), (24,)), None),
        (reshaped(whole((1, 1)), ()), np.zeros(())),
        (reshaped(whole((0, 3)), (3, 0)), np.zeros((3, 0))),
    ],
)
def test_views(view: StridedView | None, expected: Any) -> None:
    if expected is None or view is None:
        assert view is expected
    else:
        np.testing.assert_array_equal(seen(view), expected)


def test_short_axes_are_settled() -> None:
    assert strided_view(0, (1, 4, 1), (7, 2, 9)) == strided_view(0, (1, 4, 1), (0, 2, 1))
    assert strided_view(0, (1, 4), (9, 1)).is_contiguous


def test_places_and_axes_are_counted_once() -> None:
    assert broadcast(whole((1, 4)), (3, 4)).distinct == 4
    assert broadcast(whole((1, 4)), (3, 4)).count == 12
    assert simplest(whole((2, 3, 4))) == whole((24,))
    assert simplest(sliced(X, (0, 1, 0), (2, 3, 4), (1, 1, 1))) == strided_view(4, (2, 8), (12, 1))
    assert simplest(whole(())) == whole((1,))

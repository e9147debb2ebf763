"""Products of very small matrices by elements: kernels compute the same, and are near their floor."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

import tiledsl
from tests.support.compare import assert_close
from tests.support.emulated import emulated
from tests.support.op_checks import F16, F32, normal
from tiledsl import tile
from tiledsl.passes.graph.rewrites import small_products

SMALL: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "four by four": (lambda x, y: x @ y, ((9, 4, 4), (9, 4, 4))),
    "few columns": (lambda x, w: tile.einsum("b m k, n k -> b n m", x, w), ((2, 19, 8), (5, 8))),
    "points": (lambda m, p: tile.einsum("b i j, b n j -> b n i", m, p) * 2, ((2, 4, 3), (2, 9, 3))),
    "heads mixed": (
        lambda s, w: (
            tile.transpose(
                tile.reshape(
                    tile.reshape(tile.transpose(s * 2, (0, 2, 3, 1)), (1, s.shape[0] * 30, s.shape[1])) @ w,
                    (s.shape[0], 5, 6, w.shape[2]),
                ),
                (0, 3, 1, 2),
            )
            + 1
        ),
        ((2, 4, 5, 6), (1, 4, 3)),
    ),
    "nothing to sum": (lambda x, y: tile.einsum("b m, b n -> b m n", x, y), ((37, 5), (37, 3))),
}


@pytest.mark.parametrize("dtype", [F16, F32], ids=str)
@pytest.mark.parametrize("name", SMALL)
def test_kernels_compute_the_same(name: str, dtype: Any) -> None:
    formula, shapes = SMALL[name]
    arrays = [normal(*shape, dtype=dtype) for shape in shapes]
    with patch.object(small_products, "LARGE", 1):
        found, expected = emulated(formula, arrays, seed=1)
    assert_close(found, expected, relative=4e-3 if dtype == F16 else 1e-5, terms=8)


def test_rows_stay_apart_that_strides_cannot_tell_as_one() -> None:
    """Scores of heads, which are mixed, and what is made of them: nothing is copied in another order."""

    def mixed(s: Any, w: Any) -> Any:
        rows = tile.reshape(tile.transpose(s * 2, (0, 2, 3, 1)), (1, 8 * 512 * 512, 8))
        return tile.transpose(tile.reshape((rows @ w).to(tile.f16), (8, 512, 512, 8)), (0, 3, 1, 2)) + 1

    specs = (tile.spec((8, 8, 512, 512), tile.f16), tile.spec((1, 8, 8), tile.f16))
    audit = tiledsl.fuse(tiledsl.trace(mixed, *specs)).audit("sm_90")
    assert not [kernel for kernel in audit.kernels if "copy" in kernel.kernel.name]


def test_predicted_beside_the_floor() -> None:
    specs = [tile.spec((1000000, 4, 4), tile.f32)] * 2
    assert tiledsl.fuse(tiledsl.trace(lambda x, y: x @ y, *specs)).audit("sm_90").ratio < 1.5

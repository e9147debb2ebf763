"""Image filters of a few columns: kernels compute the same, and elementwise ops are of one kernel with them."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tiledsl
from tests.support.compare import assert_close
from tests.support.emulated import emulated
from tests.support.op_checks import F16, F32, normal
from tiledsl import ops, tile
from tiledsl.ir.graph_ops import Call
from tiledsl.passes.graph.rewrites.windows import split_columns


def _magnitude(x: Any, w: Any) -> Any:
    g = ops.conv2d(x, w)
    return tile.sqrt(tile.sum(g * g, axis=1))


def _biased(x: Any, w: Any) -> Any:
    return ops.relu(ops.conv2d(x, w, padding=1) + w[:, 0, :1, :1])


FILTERS: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]] = {
    "magnitude": (_magnitude, (2, 1, 11, 15), (2, 1, 3, 3)),
    "biased": (_biased, (2, 1, 9, 14), (3, 1, 3, 3)),
    "one of them": (lambda x, w: ops.conv2d(x, w)[:, 1] * 2, (2, 1, 9, 14), (2, 1, 3, 5)),
}


@pytest.mark.parametrize("dtype", [F16, F32], ids=str)
@pytest.mark.parametrize("name", FILTERS)
def test_kernels_compute_the_same(name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_columns, "LARGE", 1)
    formula, *shapes = FILTERS[name]
    found, expected = emulated(formula, [normal(*shape, dtype=dtype) for shape in shapes], seed=1)
    assert_close(found, expected, relative=1e-2 if dtype == F16 else 1e-5)


def test_one_kernel() -> None:
    specs = [tile.spec(shape, tile.f32) for shape in ((2, 1, 200, 300), (2, 1, 3, 3))]
    lowered = tiledsl.fuse(tiledsl.trace(_magnitude, *specs)).lowered("sm_90").entry.body.ops
    assert sum(isinstance(op, Call) for op in lowered) == 1

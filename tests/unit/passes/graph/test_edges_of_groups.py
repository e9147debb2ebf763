"""An elementwise op at the edge of a group goes to the kernel that reads it, where that costs less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tiledsl import ops, tile
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir.type_rules import tensor_type
from tiledsl.passes.graph.analysis.shapes import volume


def normed_product(x: Any, w: Any) -> Any:
    wide = (x @ w).to(tile.f32)
    return (wide * tile.rsqrt(tile.mean(wide * wide, axis=-1, keepdims=True) + 1e-5)).to(x.dtype)


def test_squares_are_made_where_they_are_summed() -> None:
    half = tile.spec((2048, 4096), tile.f16), tile.spec((4096, 4096), tile.f16)
    audit = tiledsl.fuse(tiledsl.trace(normed_product, *half)).audit("sm_90")
    assert sum(kernel.runs for kernel in audit.kernels) == 2  # the product; all of the norm
    assert audit.ratio < 1.5


def groups_of_product(x: Any, w: Any) -> Any:
    y = (x @ w).reshape((x.shape[0], 8, -1))
    return y - tile.max(y, axis=2, keepdims=True)


def column_sums(x: Any, w: Any) -> Any:
    return tile.sum(x @ w, axis=0)


@pytest.mark.parametrize("formula", [normed_product, groups_of_product, column_sums])
def test_what_a_product_hands_on_is_as_narrow_as_the_formula_says(formula: Any) -> None:
    """Rows of groups, and columns that are folded in two steps, are views of it."""
    half = tile.spec((2048, 4096), tile.f16), tile.spec((4096, 4096), tile.f16)
    module = tiledsl.fuse(tiledsl.trace(formula, *half)).lowered("sm_90")
    large = [value for op in module.entry.body.ops for value in op.results if volume(value) >= 2048 * 4096]
    assert large
    assert {tensor_type(value).dtype for value in large} == {tile.f16}


def test_results_are_the_same() -> None:
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(shape).astype(np.float16) for shape in ((64, 32), (32, 48)))
    graph = tiledsl.trace(normed_product, x, w)
    expected = execute_graph(graph.module.entry, [x, w], graph.module)
    lowered = tiledsl.fuse(graph).lowered("sm_90")
    for actual, wanted in zip(execute_graph(lowered.entry, [x, w], lowered), expected):
        assert_close(actual, wanted, relative=4e-3)


def separable(x: Any, along: Any, across: Any) -> Any:
    return ops.conv2d(ops.conv2d(x, along, padding=1, groups=x.shape[1]).to(x.dtype), across)


def test_a_product_by_threads_stays_out_of_one_of_matrices() -> None:
    """A depthwise convolution would be made again for each block of the pointwise one, by loads that wait."""
    specs = [tile.spec(shape, tile.f16) for shape in ((16, 64, 128, 128), (64, 1, 3, 3), (128, 64, 1, 1))]
    audit = tiledsl.fuse(tiledsl.trace(separable, *specs)).audit("sm_90")
    assert len(audit.kernels) == 2
    assert audit.ratio < 2.5


def softmax_of_rows(x: Any, w: Any) -> Any:
    return tile.softmax(ops.conv2d(x, w, padding=1), axis=-1)


def test_rows_of_images_are_folded_behind_products_of_planes() -> None:
    """What has columns along two axes is multiplied element by element, as the planes stand for it."""
    specs = [tile.spec(shape, tile.f32) for shape in ((1, 64, 64, 256), (128, 64, 3, 3))]
    assert tiledsl.fuse(tiledsl.trace(softmax_of_rows, *specs)).audit("sm_90").kernels

"""Convolutions that read windows in place: which do, and that they mean what they did."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tiledsl
from tests.support.compare import assert_close
from tiledsl import ops, tile
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir import graph_ops
from tiledsl.passes.graph.rewrites.canonicalise_graph import CanonicaliseGraph
from tiledsl.passes.graph.rewrites.windows.copy_windows import CopyWindows
from tiledsl.passes.manager import PassContext, PassManager

REMARK = "windows are read in place"


def convolution(**options: Any) -> Any:
    """Of an image and weights."""

    def formula(x: Any, w: Any) -> Any:
        return ops.conv2d(x, w, **options)

    return formula


def numbers(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def rewritten(*shapes: tuple[int, ...], **options: Any) -> Any:
    """The module of a convolution of tensors of these shapes before the pass and after it."""
    specs = [tile.spec(shape, tile.f32) for shape in shapes]
    before, after = (tiledsl.trace(convolution(**options), *specs).module for _ in range(2))
    return before, PassManager([CanonicaliseGraph(), CopyWindows()]).run(after, PassContext())


def axes_of(*shapes: tuple[int, ...], **options: Any) -> list[str]:
    """Those of the products after the pass."""
    _, module = rewritten(*shapes, **options)
    return [op.axes for op in module.entry.body.ops if isinstance(op, graph_ops.Contract)]


def test_a_row_of_a_window_is_one_axis() -> None:
    last = ((2, 8, 8, 32), (16, 3, 3, 32))
    assert axes_of(*last, layout="NHWC") == ["n p q r s, k r s -> n p q k"]
    assert axes_of(*last, layout="NHWC", dilation=2) == ["n p q r s c, k r s c -> n p q k"]
    first = ((2, 32, 8, 8), (16, 32, 3, 3))
    assert axes_of(*first) == ["n p q r s, k r s -> n k p q"]  # of a copy whose channels are last
    assert axes_of((2, 32, 8, 8), (32, 16, 3, 3), groups=2) == ["n g p q r s, g k r s -> n g k p q"]


def test_a_product_of_little_depth_reads_a_copy() -> None:
    assert axes_of((2, 9, 9, 3), (16, 3, 3, 3), layout="NHWC") == ["n p q r s, k r s -> n p q k"]
    for channels, parts in ((3, [graph_ops.Transpose]), (2, [graph_ops.Call])):
        _, module = rewritten((2, 9, 9, channels), (16, 3, 3, channels), layout="NHWC", dilation=2)
        assert [type(op.a.op) for op in module.entry.body.ops if isinstance(op, graph_ops.Contract)] == parts


def test_one_axis_for_all_rows() -> None:
    """Programs are of rows of all images, and know that coordinates of rows lie within."""
    x, w = numbers(3, 7, 6, 16), numbers(16, 3, 3, 16)
    built = tiledsl.fuse(tiledsl.trace(convolution(layout="NHWC"), x, w)).build("cpu")
    assert REMARK in built.explain()
    product = product_of(built)
    assert "shape = [60, " in product
    assert ", :, :]) {in_bounds = [0, 1, 2, 3, 4]} : tile<f32, [i, 3, 48]" in product


def product_of(built: Any) -> str:
    """The program that multiplies."""
    (product,) = (text for text in (kernel.ir("tile") for kernel in built.kernels.values()) if "tile.dot" in text)
    return product


def test_short_axes_are_summed_as_one() -> None:
    """As many as a row of a packed operand has room for; the others are loops."""

    def text(*image: int) -> str:
        specs = tile.spec((2, *image), tile.f32), tile.spec((16, *(3 for _ in image[1:]), image[-1]), tile.f32)
        return product_of(tiledsl.fuse(tiledsl.trace(convolution(layout="NHWC"), *specs)).build("cpu"))

    few, many = text(9, 9, 16), text(9, 9, 64)
    assert "tile<f32, [i, 144]" in few
    assert "tile.range" not in few
    assert "tile.reshape" not in many
    assert "tile<f32, [i, l]" in many


@given(st.data())
def test_the_same_numbers(data: st.DataObject) -> None:
    draw = data.draw
    groups = draw(st.sampled_from((1, 1, 2)))
    channels, columns = draw(st.sampled_from((1, 3, 8, 16, 18))), draw(st.sampled_from((16, 17, 32)))
    within = draw(st.tuples(st.integers(1, 3), st.integers(1, 4)))
    options: dict[str, Any] = {
        "stride": draw(st.tuples(st.integers(1, 2), st.integers(1, 3))),
        "padding": draw(st.tuples(st.integers(0, 2), st.integers(0, 2))),
        "dilation": draw(st.tuples(st.integers(1, 2), st.integers(1, 2))),
        "groups": groups, "layout": draw(st.sampled_from(("NCHW", "NHWC"))),
    }  # fmt: skip
    image: Any = (draw(st.integers(1, 2)), draw(st.integers(7, 9)), draw(st.integers(7, 9)), groups * channels)
    weights: Any = (groups * columns, *within, channels)
    if options["layout"] == "NCHW":
        image, weights = ((n, c, h, w) for n, h, w, c in (image, weights))
    before, after = rewritten(image, weights, **options)
    x, w = (numbers(*shape) for shape in (image, weights))
    (expected,), (actual,) = (execute_graph(module.entry, [x, w], module) for module in (before, after))
    assert_close(actual, expected, terms=channels * within[0] * within[1])


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("channels", "dilation", "columns"), [(32, 1, 36), (6, 1, 34), (6, 2, 32), (256, 1, 32)])
def test_on_a_cpu(layout: str, groups: int, channels: int, dilation: int, columns: int) -> None:
    image: Any = (2, 9, 7, channels)
    weights: Any = (columns, 3, 3, channels // groups)
    if layout == "NCHW":
        image, weights = ((n, c, h, w) for n, h, w, c in (image, weights))
    x, w = (numbers(*shape) for shape in (image, weights))
    traced = tiledsl.trace(convolution(padding=1, groups=groups, layout=layout, dilation=dilation), x, w)
    (expected,) = execute_graph(traced.module.entry, [x, w], traced.module)
    built = tiledsl.fuse(traced).build("cpu")
    in_place = layout == "NHWC" or channels // groups >= 16
    assert (REMARK in built.explain()) == in_place
    assert_close(built(x, w), expected, terms=9 * channels)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_weights_of_neighbours_lie_side_by_side(layout: str) -> None:
    """Of channels, if neighbours of the image are channels."""
    image, weights = ((1, 7, 6, 20), (20, 3, 3, 1)) if layout == "NHWC" else ((1, 20, 7, 6), (20, 1, 3, 3))
    _, module = rewritten(image, weights, groups=20, layout=layout)
    copies = [op for op in module.entry.body.ops if isinstance(op, graph_ops.Call)]
    assert [str(op.result.type) for op in copies] == (["tensor<f32, [1, 3, 3, 20]>"] if layout == "NHWC" else [])
    x, w = numbers(*image), numbers(*weights)
    traced = tiledsl.trace(convolution(groups=20, layout=layout, padding=1), x, w)
    (expected,) = execute_graph(traced.module.entry, [x, w], traced.module)
    assert_close(tiledsl.fuse(traced).build("cpu")(x, w), expected, terms=9)


def test_rows_of_pixels_are_copied_at_once() -> None:
    _, module = rewritten((2, 9, 9, 3), (16, 3, 3, 3), layout="NHWC", padding=(2, 1))
    (copy,) = (op for op in module.entry.body.ops if isinstance(op, graph_ops.Call))
    assert str(copy.inputs[0].type) == "tensor<f32, [2, 9, 27]>"
    assert str(copy.result.type) == "tensor<f32, [2, 13, 33]>"

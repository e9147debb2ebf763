"""Products of windows that read copies: in the order of the result, of all layouts, and only where it pays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tiledsl import ops, tile
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir import graph_ops
from tiledsl.passes.graph.rewrites.canonicalise_graph import CanonicaliseGraph
from tiledsl.passes.graph.rewrites.windows import copy_windows
from tiledsl.passes.graph.rewrites.windows.copy_windows import CopyWindows
from tiledsl.passes.manager import PassContext, PassManager

CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "stem": ((1, 3, 17, 17), (16, 3, 7, 7), {"stride": 2, "padding": 3}),
    "square": ((2, 5, 6, 7), (17, 5, 3, 3), {"padding": 1}),
    "dilated": ((1, 4, 9, 9), (16, 4, 3, 2), {"dilation": (2, 1), "stride": (1, 3)}),
    "groups": ((2, 6, 5, 5), (32, 3, 3, 3), {"groups": 2, "padding": 1}),
    "one pixel": ((1, 8, 3, 3), (16, 8, 3, 3), {}),
}


def contracts(*shapes: tuple[int, ...], arch: str = "cpu", dtype: Any = tile.f32, **options: Any) -> list[Any]:
    """The products of a convolution after the pass, as the texts of their axes and what their first operands are of."""

    def convolution(x: Any, w: Any) -> Any:
        return ops.conv2d(x, w, **options)

    graph = tiledsl.trace(convolution, *(tile.spec(shape, dtype) for shape in shapes))
    module = PassManager([CanonicaliseGraph(), CopyWindows(arch=arch)]).run(graph.module, PassContext())
    found = [op for op in module.entry.body.ops if isinstance(op, graph_ops.Contract)]
    return [(op.axes, type(op.a.op)) for op in found]


def test_axes_lie_behind_each_other() -> None:
    copied = graph_ops.Call
    square = ((2, 3, 8, 8), (16, 3, 3, 3))
    assert contracts(*square) == [("n c r s p q, k c r s -> n k p q", copied)]
    last = ((2, 8, 8, 2), (16, 3, 3, 2))
    assert contracts(*last, layout="NHWC", dilation=2) == [("n p q r s c, k r s c -> n p q k", copied)]
    grouped = ((2, 8, 8, 8), (32, 4, 3, 3))
    assert contracts(*grouped, groups=2) == [("n g c r s p q, g k c r s -> n g k p q", copied)]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_few_output_channels_on_gpus(arch: str) -> None:
    """In place they have tiles that are mostly filled up: of one channel, or three, and few places along an axis."""
    copied, windows = graph_ops.Call, graph_ops.Window
    assert contracts((4096, 1, 32, 32), (6, 1, 5, 5), arch=arch)[0][1] is copied
    assert contracts((128, 3, 64, 64), (8, 3, 3, 3), arch=arch)[0][1] is copied
    assert contracts((128, 3, 64, 64), (2, 3, 3, 3), arch=arch)[0][1] is windows
    assert contracts((128, 64, 64, 64), (8, 64, 3, 3), arch=arch)[0][1] is windows  # channels fill the tile
    assert contracts((1, 3, 8, 8), (8, 3, 3, 3), arch=arch)[0][1] is windows  # too little for a kernel of its own


def test_only_where_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    windows, square = graph_ops.Window, ((2, 32, 8, 8), (16, 32, 3, 3))
    assert contracts(*square, arch="sm_90", dtype=tile.f16)[0][1] is windows
    assert contracts(*square, arch="sm_90")[0][1] is graph_ops.Call  # no tensor cores
    assert contracts(*square)[0][1] is graph_ops.Reshape  # of windows in place
    assert contracts((2, 32, 8, 8), (15, 32, 3, 3))[0][1] is windows  # few channels
    assert contracts((2, 32, 8, 8), (32, 1, 3, 3), groups=32)[0][1] is windows
    assert contracts((2, 32, 8, 8), (16, 32, 1, 1))[0][1] is graph_ops.Reshape  # no windows at all
    monkeypatch.setattr(copy_windows, "MOST_BYTES", 1000)
    assert contracts((2, 3, 8, 8), (16, 3, 3, 3))[0][1] is windows


def test_large_copies_are_made_of_some_images_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = (np.random.default_rng(0).standard_normal(s).astype(np.float32) for s in ((5, 4, 6, 7), (16, 4, 3, 3)))
    graph = tiledsl.trace(lambda x, w: tile.relu(ops.conv2d(x, w, padding=1)), x, w)  # pyright: ignore
    (expected,) = execute_graph(graph.module.entry, [x, w], graph.module)
    monkeypatch.setattr(copy_windows, "MOST_ON_GPU", 2 * 4 * 9 * 42 * 4)
    module = PassManager([CanonicaliseGraph(), CopyWindows(arch="sm_90")]).run(graph.module, PassContext())
    sizes = [op.result.type for op in module.entry.body.ops if isinstance(op, graph_ops.Contract)]
    assert [str(size) for size in sizes] == ["tensor<f32, [2, 16, 6, 7]>"] * 2 + ["tensor<f32, [1, 16, 6, 7]>"]
    assert_close(execute_graph(module.entry, [x, w], module)[0], expected, terms=36)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("name", CASES)
def test_convolutions(name: str, layout: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers as from windows in place."""
    sizes, weights, options = CASES[name]
    generator = np.random.default_rng(len(name))
    x: Any = generator.standard_normal(sizes).astype(dtype)
    w: Any = generator.standard_normal(weights).astype(dtype)
    if layout == "NHWC":
        x, w = (np.ascontiguousarray(np.transpose(array, (0, 2, 3, 1))) for array in (x, w))

    def convolution(x: Any, w: Any) -> Any:
        return ops.conv2d(x, w, **options, layout=layout)

    def convolved() -> Any:
        return tiledsl.fuse(tiledsl.trace(convolution, x, w)).build(arch="cpu")(x, w)

    copied = convolved()
    monkeypatch.setattr(copy_windows, "LEAST_USES", 1000)
    assert_close(copied, convolved(), terms=200)

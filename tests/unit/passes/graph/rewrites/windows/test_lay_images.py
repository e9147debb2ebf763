"""Images laid for TMA: the graph means the same, and all products are by warpgroups."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tests.support.op_checks import F16, normal
from tiledsl import ops, tile
from tiledsl.api.graphs.emulate_graph import emulate_graph
from tiledsl.api.programs.emulate import Request
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir.graph_ops import Call
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.graph.pipeline import graph_pipeline
from tiledsl.passes.graph.rewrites.canonicalise_graph import CanonicaliseGraph
from tiledsl.passes.graph.rewrites.windows import lay_images
from tiledsl.passes.graph.rewrites.windows.lay_images import LayImages
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.support.location import BUILTIN

Formula = Callable[..., Any]


def _conv(**options: Any) -> Formula:
    return lambda x, w: ops.conv2d(x, w, **options)


def _turned(x: Any, w: Any) -> Any:
    windows = tile.window(tile.pad(x, ((0, 0), (1, 3), (0, 1), (0, 0))), (3, 2), (1, 2), 1, (2, 1))
    return tile.einsum("n p q c r s, r s c k -> n p q k", windows, w[::-1, ::-1]).to(x.dtype)


LAID: dict[str, tuple[Formula, tuple[int, ...], tuple[int, ...]]] = {
    "channels first": (_conv(padding=1), (2, 16, 5, 6), (24, 16, 3, 3)),
    "channels first, every other": (_conv(padding=1, stride=2), (2, 16, 5, 6), (24, 16, 3, 3)),
    "channels first, one image, relu": (lambda x, w: tile.relu(ops.conv2d(x, w, padding=1)), (1, 16, 5, 6),
                                        (24, 16, 3, 3)),
    "no padding": (_conv(layout="NHWC"), (2, 5, 6, 32), (24, 3, 3, 32)),
    "three channels": (_conv(layout="NHWC", padding=1), (2, 5, 6, 3), (24, 3, 3, 3)),
    "three channels first": (_conv(padding=3, stride=2), (2, 3, 9, 10), (24, 3, 7, 7)),
    "three channels, wide apart": (_conv(layout="NHWC", padding=2, dilation=(1, 2)), (2, 7, 8, 3), (24, 3, 3, 3)),
    "twenty channels": (_conv(layout="NHWC", padding=((1, 0), (0, 2))), (2, 5, 6, 20), (24, 3, 3, 20)),
    "transposed, residues of the same windows": (
        lambda x, w: ops.conv_transpose2d(x, w, stride=2), (2, 16, 5, 6), (16, 24, 4, 4)
    ),
    "turned weights": (_turned, (2, 5, 6, 16), (3, 2, 16, 24)),
    "patches": (_conv(layout="NHWC", stride=4), (2, 8, 9, 3), (24, 4, 4, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAID)
def test_it_means_the_same(name: str) -> None:
    formula, *shapes = LAID[name]
    arrays = [normal(*shape, dtype=F16) for shape in shapes]
    graph = tiledsl.trace(formula, *arrays)
    expected = execute_graph(graph.module.entry, arrays, graph.module)
    context = PassContext()
    module = PassManager([LayImages("sm_90")]).run(graph.module.clone(), context)
    assert context.remarks
    for actual, wanted in zip(execute_graph(module.entry, arrays, module), expected):
        assert_close(actual, wanted, relative=4e-3, terms=9 * 32)


@pytest.mark.parametrize("name", LAID)
def test_kernels_multiply_windows_by_tma(name: str) -> None:
    formula, *shapes = LAID[name]
    arrays = [normal(*shape, dtype=F16) for shape in shapes]
    graph = tiledsl.trace(formula, *arrays)
    (expected,) = execute_graph(graph.module.entry, arrays, graph.module)
    kernels = tiledsl.fuse(graph).build(arch="sm_90").kernels
    assert sum("gpu.tma_windows" in kernel.ir("gpu") for kernel in kernels.values()) == 1
    actual = emulate_graph(graph, arrays, {}, None, Request(arch="sm_90")).result
    assert_close(np.asarray(actual), expected, relative=4e-3, terms=9 * 32)


BY_ROWS: dict[str, tuple[Formula, tuple[int, ...], tuple[int, ...]]] = {
    "eight channels": (_conv(), (2, 8, 7, 9), (24, 8, 3, 3)),
    "eight channels, padded, every other": (_conv(padding=1, stride=2), (2, 8, 7, 9), (24, 8, 3, 3)),
    "48 channels, three axes": (lambda x, w: ops.conv3d(x, w, padding=1), (1, 48, 3, 4, 5), (16, 48, 3, 3, 3)),
    "channels last": (_conv(layout="NHWC", padding=1), (2, 7, 9, 24), (24, 3, 3, 24)),
}


@pytest.mark.parametrize("name", BY_ROWS)
def test_narrow_pixels_come_by_rows_of_windows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lay_images, "LEAST_SECONDS", -1.0)  # small images gain nothing worth a word
    formula, *shapes = BY_ROWS[name]
    arrays = [normal(*shape, dtype=F16) for shape in shapes]
    graph = tiledsl.trace(formula, *arrays)
    (expected,) = execute_graph(graph.module.entry, arrays, graph.module)
    context = PassContext()
    module = PassManager([LayImages("sm_90")]).run(graph.module.clone(), context)
    assert "channels of a row of a window" in str(context.remarks)
    for laid in execute_graph(module.entry, arrays, module):
        assert_close(laid, expected, relative=4e-3, terms=27 * 48)
    kernels = tiledsl.fuse(graph).build(arch="sm_90").kernels
    assert sum("gpu.tma_windows" in kernel.ir("gpu") for kernel in kernels.values()) == 1
    actual = emulate_graph(graph, arrays, {}, None, Request(arch="sm_90")).result
    assert_close(np.asarray(actual), expected, relative=4e-3, terms=27 * 48)


@pytest.mark.parametrize(
    ("x", "w", "by_rows"),
    [
        ((128, 8, 128, 128), (64, 8, 3, 3), True),
        ((128, 24, 128, 128), (64, 24, 3, 3), True),  # half of every other 32 bytes would be outside
        ((128, 32, 128, 128), (64, 32, 3, 3), False),  # 64 bytes of a pixel: rows of three are no wider
        ((128, 64, 128, 128), (64, 64, 3, 3), False),
        ((1, 8, 16, 16), (64, 8, 3, 3), False),  # nothing to gain
        ((128, 32, 128, 128), (64, 32, 1, 3), False),
    ],
)
def test_pixels_or_rows(x: tuple[int, ...], w: tuple[int, ...], by_rows: bool) -> None:
    context = PassContext()
    PassManager([LayImages("sm_90")]).run(tiledsl.trace(_conv(padding=1), *_specs(x, w)).module, context)
    assert ("channels of a row of a window" in str(context.remarks)) == by_rows


def test_windows_of_neighbours_come_from_l2_row_by_row() -> None:
    """537 MB, nine windows of each pixel: memory brings it once, TMA brings nine times as many rows."""
    given = _specs((16, 512, 512, 64), (32, 3, 3, 64))
    graph = tiledsl.trace(_conv(layout="NHWC", padding=2, dilation=2), *given)  # positions stay rows
    (one,) = tiledsl.fuse(graph).audit("sm_90").kernels
    assert one.kernel.memory_bytes < 1.1 * one.kernel.must_bytes
    speeds = gpu_machine("sm_90", BUILTIN).speeds
    rows = 16 * 512 * 512 * 9 * speeds.row_of_windows(128) / 132 / speeds.clock
    assert rows < one.kernel.predicted < 1.5 * rows
    assert speeds.row_of_windows(32, 16) > 2 * speeds.row_of_windows(32)


@pytest.mark.parametrize("arch", ["cpu", "sm_80"])
def test_other_targets_read_them_as_they_are(arch: str) -> None:
    formula, *shapes = LAID["channels first"]
    graph = tiledsl.trace(formula, *(normal(*shape, dtype=F16) for shape in shapes))
    context = PassContext()
    PassManager([LayImages(arch)]).run(graph.module.clone(), context)
    assert not context.remarks


@pytest.mark.parametrize(
    ("formula", "x", "w"),
    [
        (_conv(layout="NHWC", padding=1), (2, 5, 6, 64), (24, 3, 3, 64)),  # lies as it should
        (_conv(padding=1), (2, 16, 5, 6), (8, 16, 3, 3)),  # few output channels
        (_conv(padding=1, groups=4), (2, 32, 5, 6), (64, 8, 3, 3)),  # a row would have channels of two groups
    ],
)
def test_what_is_left_alone(formula: Formula, x: tuple[int, ...], w: tuple[int, ...]) -> None:
    graph = tiledsl.trace(formula, normal(*x, dtype=F16), normal(*w, dtype=F16))
    context = PassContext()
    PassManager(graph_pipeline("sm_90")).run(graph.module, context)
    assert not [remark for remark in context.remarks if remark.pass_name == LayImages.name]


def test_what_is_between_layers_stays_as_it_was_laid() -> None:
    def block(x: Any, w: Any, v: Any) -> Any:
        y = tile.relu(ops.conv2d(x, w, padding=1))
        return tile.relu(ops.conv2d(y, v, padding=1) + y)

    arrays = [normal(*shape, dtype=F16) for shape in ((2, 16, 5, 6), (16, 16, 3, 3), (16, 16, 3, 3))]
    graph = tiledsl.trace(block, *arrays)
    (expected,) = execute_graph(graph.module.entry, arrays, graph.module)
    module = PassManager(graph_pipeline("sm_90")).run(graph.module, PassContext())
    calls = [op for op in module.entry.body.ops if isinstance(op, Call)]
    assert len(calls) == 5  # the image, two weights, two convolutions
    actual = emulate_graph(graph, arrays, {}, None, Request(arch="sm_90")).result
    assert_close(np.asarray(actual), expected, relative=4e-3, terms=9 * 32)


def test_joins_are_written_as_they_are_laid() -> None:
    """A dense block: each layer writes, normed for each of those that follow, to its channels of their images."""

    def block(x: Any, *weights: Any) -> Any:
        parts = [x]
        for scale, shift, w in zip(weights[::3], weights[1::3], weights[2::3]):
            joined = tile.concat(parts, axis=1) if len(parts) > 1 else x
            normed = joined.to(tile.f32) * scale[:, None, None] + shift[:, None, None]
            parts.append(ops.conv2d(tile.relu(normed).to(tile.f16), w, padding=1))
        return tile.concat(parts, axis=1)

    arrays = [normal(2, 16, 5, 6, dtype=F16)]
    for layer in range(3):
        channels = 16 * (layer + 1)
        arrays += [
            normal(channels, dtype=F16),
            normal(channels, dtype=F16),
            normal(16, channels, 3, 3, dtype=F16) / F16(16),
        ]
    graph = tiledsl.trace(block, *arrays)
    (expected,) = execute_graph(graph.module.entry, arrays, graph.module)
    module = PassManager(graph_pipeline("sm_90")).run(graph.module, PassContext())
    calls = [op for op in module.entry.body.ops if isinstance(op, Call)]
    assert len(calls) == 8  # three weights, three convolutions, the first image normed, and copied to the last join
    actual = emulate_graph(graph, arrays, {}, None, Request(arch="sm_90")).result
    assert_close(np.asarray(actual), expected, relative=2e-2, terms=9 * 48)


def _specs(*shapes: tuple[int, ...]) -> list[Any]:
    return [tile.spec(shape, tile.f16) for shape in shapes]


def test_large_images_are_laid_too() -> None:
    """4 GiB: read in place, each product would touch as many lines as it has elements."""
    given = _specs((64, 64, 524280), (128, 64, 3))
    graph = tiledsl.trace(lambda x, w: ops.conv1d(x, w, stride=3, dilation=4), *given)
    context = PassContext()
    PassManager([CanonicaliseGraph(), LayImages("sm_90")]).run(graph.module, context)
    assert "the image is copied" in " ".join(map(str, context.remarks))


def test_windows_of_one_pixel_need_no_copy() -> None:
    graph = tiledsl.trace(lambda x, w: ops.conv2d(x, w), *_specs((32, 64, 56, 56), (256, 64, 1, 1)))
    context = PassContext()
    PassManager([CanonicaliseGraph(), LayImages("sm_90")]).run(graph.module, context)
    assert not context.remarks

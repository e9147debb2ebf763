"""f32 products with windows by planes of the image: the graph means the same, and kernels give what f32 gives."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportPrivateUsage=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.gpu_code.f32_planes import Formula, assert_digits, exact_of, normals_of, remarks_of
from tiledsl import ops, tile
from tiledsl.api.graphs.emulate_graph import emulate_graph
from tiledsl.api.programs.emulate import Request
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.passes.graph.rewrites.windows import split_windows
from tiledsl.passes.graph.rewrites.windows.split_windows import SplitWindows
from tiledsl.passes.manager import PassContext, PassManager

DIGITS, IN_TURN = 2.0**-21, 2.0**-19
"""Of the sum of magnitudes: by planes, and of some 200 products that are added up in f32 one after the other."""

FORMULAS: dict[str, tuple[Formula, tuple[int, ...], tuple[int, ...]]] = {
    "channels first": (lambda x, w: ops.conv2d(x, w, padding=1), (2, 16, 5, 6), (24, 16, 3, 3)),
    "channels last": (lambda x, w: ops.conv2d(x, w, padding=1, layout="NHWC"), (3, 5, 6, 8), (32, 3, 3, 8)),
    "no padding": (lambda x, w: ops.conv2d(x, w), (2, 8, 7, 9), (16, 8, 3, 2)),
    "every other": (lambda x, w: ops.conv2d(x, w, padding=1, stride=2, dilation=2), (2, 8, 9, 7), (16, 8, 3, 3)),
    "one image": (lambda x, w: ops.conv2d(x, w, padding=2), (1, 40, 6, 6), (48, 40, 5, 5)),
    "along a line": (lambda x, w: ops.conv1d(x, w, padding=1), (3, 24, 21), (16, 24, 3)),
    "of a volume": (lambda x, w: ops.conv3d(x, w, padding=1), (2, 8, 3, 4, 5), (16, 8, 3, 3, 3)),
    "a volume's channels last": (lambda x, w: ops.conv3d(x, w, layout="NDHWC"), (2, 3, 4, 5, 8), (16, 2, 3, 2, 8)),
    "transposed": (lambda x, w: ops.conv_transpose2d(x, w), (2, 8, 4, 5), (8, 16, 3, 3)),
    "in turns": (lambda x, w: ops.conv_transpose2d(x, w, stride=2, padding=1), (2, 8, 4, 5), (8, 16, 4, 4)),
    "three channels": (lambda x, w: ops.conv2d(x, w, padding=1), (2, 3, 5, 6), (16, 3, 3, 3)),
    "three channels of a volume, 15 positions": (lambda x, w: ops.conv3d(x, w), (1, 3, 3, 4, 17), (16, 3, 2, 3, 3)),
    "five channels last, every other": (
        lambda x, w: ops.conv2d(x, w, w[:, 0, 0, 0], stride=2, padding=2, layout="NHWC"),
        (2, 7, 9, 5),
        (17, 3, 5, 5),
    ),
    "with more behind it": (lambda x, w: tile.relu(ops.conv2d(x, w, w[:, 0, 0, 0])) * 2, (2, 8, 6, 6), (16, 8, 3, 3)),
}


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_windows, "GAIN", 1e9)


def _assert_as_f32(formula: Formula, arrays: list[Any], plan: int, digits: float = DIGITS) -> None:
    graph = tiledsl.trace(formula, *arrays)
    actual = emulate_graph(graph, arrays, {}, None, Request(arch="sm_90", plan=plan)).result
    assert_digits(actual, *exact_of(formula, arrays), digits)


@pytest.mark.parametrize("name", FORMULAS)
def test_it_means_the_same(name: str) -> None:
    formula, *shapes = FORMULAS[name]
    arrays = normals_of(*shapes)
    graph = tiledsl.trace(formula, *arrays)
    (expected,) = execute_graph(graph.module.entry, arrays, graph.module)
    context = PassContext()
    module = PassManager([SplitWindows("sm_90")]).run(graph.module.clone(), context)
    assert any(remark.pass_name == "split-windows" for remark in context.remarks)
    (actual,) = execute_graph(module.entry, arrays, module)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("plan", [0, 99])
@pytest.mark.parametrize("name", FORMULAS)
def test_kernels_have_the_digits_of_f32(name: str, plan: int) -> None:
    formula, *shapes = FORMULAS[name]
    _assert_as_f32(formula, normals_of(*shapes), plan)


@pytest.mark.parametrize("name", ["channels first", "channels last", "of a volume"])
def test_special_numbers_are_those_of_f32(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_windows, "MOST_CHANNELS", 0)  # rows see more than their windows
    formula, *shapes = FORMULAS[name]
    x, w = normals_of(*shapes)
    x[0].flat[[3, 50]], x[1].flat[[7, 31]] = (np.inf, 2.0**118), (np.nan, -(2.0**118))
    w.flat[[5, 40]] = 2.0**12, 1e-39
    _assert_as_f32(formula, [x, w], 0, IN_TURN)


def test_planes_of_an_image_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_windows, "MOST_CHANNELS", 0)
    formula, *shapes = FORMULAS["in turns"]
    graph = tiledsl.trace(formula, *normals_of(*shapes))
    module = PassManager([SplitWindows("sm_90")]).run(graph.module.clone(), PassContext())
    assert sum(function.name.startswith("image_planes") for function in module.functions) == 1 + 4


def _remarks(formula: Formula, *shapes: tuple[int, ...], arch: str = "sm_90") -> list[Any]:
    return remarks_of(SplitWindows(arch), formula, *shapes)


def test_only_large_ones_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    formula: Formula = lambda x, w: ops.conv2d(x, w, padding=1)  # noqa: E731
    assert _remarks(formula, (16, 64, 64, 64), (128, 64, 3, 3))
    assert not _remarks(formula, (1, 16, 14, 14), (16, 16, 3, 3))
    assert not _remarks(formula, (16, 64, 64, 64), (128, 64, 3, 3), arch="sm_80")


@pytest.mark.parametrize(
    ("x", "w", "options"),
    [
        ((4, 28, 32, 32), (64, 28, 3, 3), {}),  # pixels of 56 bytes
        ((4, 16, 8, 8), (3, 16, 3, 3), {}),
        ((4, 3, 32, 32), (64, 3, 3, 3), {"dilation": 2}),
    ],
)
def test_odd_pixels_and_few_columns_are_left_to_copies(
    x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any]
) -> None:  # fmt: skip
    assert not _remarks(lambda x, w: ops.conv2d(x, w, padding=1, **options), x, w)


@pytest.mark.parametrize(
    ("x", "w", "said"),
    [
        ((64, 8, 32, 64, 64), (32, 8, 3, 3, 3), "rows of 4 pixels, 2 positions as columns"),
        ((128, 3, 24, 32, 32), (24, 3, 3, 3, 3), "positions as columns"),
        ((128, 3, 16, 64, 64), (16, 3, 3, 3, 3), "positions as columns"),  # 62 of them, which few numbers divide
        ((128, 8, 16, 64, 64), (64, 8, 3, 3, 3), "rows of 4 pixels"),
    ],
)
def test_pixels_of_few_channels_come_by_rows(
    x: tuple[int, ...], w: tuple[int, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.undo()
    (remark,) = _remarks(lambda x, w: ops.conv3d(x, w), x, w)
    assert said in str(remark)


COLUMNS: dict[str, tuple[Formula, tuple[int, ...], tuple[int, ...]]] = {
    "15 positions of a volume": (lambda x, w: ops.conv3d(x, w), (1, 3, 3, 4, 17), (16, 3, 2, 3, 3)),
    "every other, bias, relu": (
        lambda x, w: tile.relu(ops.conv2d(x, w, w[:, 0, 0, 0], stride=2, padding=1, layout="NHWC")),
        (2, 5, 12, 5), (17, 3, 3, 5),
    ),
    "one channel to six": (lambda x, w: ops.conv2d(x, w), (2, 1, 7, 12), (6, 1, 5, 5)),
    "whole pixels": (lambda x, w: ops.conv2d(x, w, padding=(1, 0)), (2, 8, 4, 10), (24, 8, 3, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_positions_are_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ways = split_windows._ways
    monkeypatch.setattr(split_windows, "_ways", lambda *given: [way for way in ways(*given) if way.together > 1])
    formula, *shapes = COLUMNS[name]
    assert "positions as columns" in str(_remarks(formula, *shapes))
    _assert_as_f32(formula, normals_of(*shapes), 0)


@pytest.mark.parametrize(("x", "w"), [((2, 3, 5, 6), (16, 3, 3, 3)), ((64, 3, 64, 64), (16, 3, 3, 3))])
def test_rows_of_planes_come_by_tma(x: tuple[int, ...], w: tuple[int, ...]) -> None:
    formula: Formula = lambda x, w: ops.conv2d(x, w, padding=(1, 0))  # noqa: E731
    assert "rows of" in str(_remarks(formula, x, w))
    graph = tiledsl.trace(formula, *(tile.spec(shape, tile.f32) for shape in (x, w)))
    kernels = tiledsl.fuse(graph).build(arch="sm_90").kernels
    assert sum("gpu.tma_windows" in kernel.ir("gpu") for kernel in kernels.values()) == 1

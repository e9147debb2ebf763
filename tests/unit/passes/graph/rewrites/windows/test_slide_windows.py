"""Windows that overlap slide within kernels, where they are folded: kernels compute the same, and nothing is copied."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tests.support.emulated import emulated
from tests.support.op_checks import F16, F32, normal
from tiledsl import ops, tile
from tiledsl.backend_ref.execute_graph import execute_graph

Formula = Callable[..., Any]


def _variance(x: Any) -> Any:
    """Of windows: a fold of what another fold of them gave, which no group takes as windows that slide."""
    windows = tile.window(x, (3,), (1,)).to(tile.f32)
    apart = windows - windows.mean(axis=-1, keepdims=True)
    return (apart * apart).mean(axis=-1)


FOLDED: dict[str, tuple[Formula, tuple[tuple[int, ...], ...]]] = {
    "depthwise": (lambda x, w: ops.conv2d(x, w, groups=4), ((2, 4, 9, 37), (4, 1, 3, 3))),
    "depthwise, every other": (lambda x, w: ops.conv2d(x, w, groups=4, stride=2), ((2, 4, 9, 37), (4, 1, 3, 3))),
    "depthwise, apart": (lambda x, w: ops.conv2d(x, w, groups=4, dilation=2), ((2, 4, 9, 37), (4, 1, 3, 3))),
    "depthwise, channels last": (
        lambda x, w: tile.relu(ops.conv2d(x, w, groups=40, layout="NHWC")),
        ((2, 7, 9, 40), (40, 3, 3, 1)),
    ),
    "largest": (lambda x: ops.max_pool2d(x, 3, 2), ((3, 2, 9, 35),)),
    "moving average": (lambda x: tile.window(x, (5,), (1,)).to(tile.f32).mean(axis=-1), ((6, 133),)),
    "of what is computed": (lambda x: tile.window(tile.exp(x), (3,), (1,)).sum(axis=-1), ((6, 69),)),
    "images of one row": (lambda x: ops.max_pool2d(x, (1, 5), 1, (0, 2)), ((2, 3, 1, 69),)),
    "variance": (_variance, ((6, 69),)),
    "not folded": (lambda x: tile.window(x, (3,), (1,)) * 2, ((6, 69),)),
}


@pytest.mark.parametrize("dtype", [F16, F32], ids=str)
@pytest.mark.parametrize("name", FOLDED)
def test_kernels_compute_the_same(name: str, dtype: Any) -> None:
    formula, shapes = FOLDED[name]
    arrays = [normal(*shape, dtype=dtype) for shape in shapes]
    found, expected = emulated(formula, arrays)
    assert_close(found, expected, relative=4e-3 if dtype == F16 else 1e-5, terms=9)


@pytest.mark.parametrize("name", FOLDED)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nothing_is_copied(name: str, arch: str) -> None:
    formula, shapes = FOLDED[name]
    fused = tiledsl.fuse(tiledsl.trace(formula, *(normal(*shape, dtype=F16) for shape in shapes)))
    assert not [kernel for kernel in fused.audit(arch).kernels if "pad" in kernel.kernel.name]


def test_windows_are_loaded_once() -> None:
    given = [tile.spec((16, 64, 512, 512), tile.f16), tile.spec((64, 1, 3, 3), tile.f16)]
    fused = tiledsl.fuse(tiledsl.trace(lambda x, w: ops.conv2d(x, w, groups=64), *given))
    (kernel,) = fused.build(arch="sm_90").kernels.values()
    assert "gpu.slice" in kernel.ir("gpu")
    assert fused.audit("sm_90").ratio < 1.5


@pytest.mark.parametrize("name", FOLDED)
def test_a_cpu_computes_the_same(name: str) -> None:
    formula, shapes = FOLDED[name]
    arrays = [normal(*shape, dtype=F32) for shape in shapes]
    graph = tiledsl.trace(formula, *arrays)
    (expected,) = execute_graph(graph.module.entry, arrays, graph.module)
    assert_close(np.asarray(tiledsl.fuse(graph).build("cpu")(*arrays)), expected, relative=1e-5, terms=9)


def test_channels_are_vectors_on_a_cpu() -> None:
    given = [tile.spec((2, 20, 20, 48), tile.f32), tile.spec((48, 3, 3, 1), tile.f32)]
    fused = tiledsl.fuse(tiledsl.trace(lambda x, w: ops.conv2d(x, w, groups=48, layout="NHWC"), *given))
    texts = [kernel.ir("tile") for kernel in fused.build("cpu").kernels.values()]
    assert any("tile.shift" in text for text in texts)
    assert not any("tile.reduce" in text for text in texts)  # sums are of whole tiles, from turn to turn

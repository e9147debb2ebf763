"""Groups become tile programs, and those that are alike share one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl
from tiledsl import ops, tile
from tiledsl.api.graphs.emulate_graph import emulate_graph
from tiledsl.api.programs.emulate import Request
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.verifier import is_tile_function


def whole_then_columns(x: Any, y: Any) -> Any:
    """One operation on a whole tensor, then on columns of another, whose rows do not lie behind each other."""
    return tile.tanh(tile.exp(x)), tile.tanh(tile.exp(y)[..., :4])


def test_equal_groups_of_other_strides() -> None:
    given = np.random.default_rng(0)
    x, y = given.standard_normal((3, 1, 4), np.float32), given.standard_normal((3, 1, 8), np.float32)
    graph = tiledsl.trace(whole_then_columns, x, y)
    found = tiledsl.fuse(graph, fusion=False).build(arch="cpu")(x, y)
    for actual, expected in zip(found, graph(x, y)):
        np.testing.assert_allclose(actual, expected, rtol=1e-5)


def tanh_twice(x: Any) -> Any:
    return tile.tanh(tile.tanh(x))


def test_equal_groups_share_a_program() -> None:
    x = np.ones((3, 5, 8), np.float32)
    lowered = tiledsl.fuse(tiledsl.trace(tanh_twice, x), fusion=False).lowered("cpu")
    assert len([function for function in lowered.functions if is_tile_function(function)]) == 1


def means(x: Any) -> Any:
    return tile.mean(x.reshape((x.shape[0], x.shape[1] // 2, 2, x.shape[2] // 2, 2, 8)), axis=(2, 4))


def test_short_axes_go_by_blocks_together() -> None:
    """A program of a few elements takes longer to start than to run."""
    module = tiledsl.fuse(tiledsl.trace(means, np.ones((64, 56, 56, 8), np.float32))).lowered("sm_90")
    (text,) = [print_module(module).partition("tile.grid")[2].splitlines()[0]]
    assert text.count("auto") >= 3


def normed_across_lines(x: Any) -> Any:
    """Rows of an image whose channels lie side by side: they are folded, and stored with channels first."""
    return ops.layer_norm(x.transpose((0, 3, 1, 2)), x.shape[2])


def test_rows_that_lie_across_lines_come_by_whole_lines() -> None:
    graph = tiledsl.trace(normed_across_lines, tile.spec((32, 64, 64, 64), tile.f16))
    (kernel,) = tiledsl.fuse(graph).audit("sm_90").kernels
    assert kernel.kernel.predicted < 1.5 * kernel.kernel.floor  # 7 times the floor where one channel came at a time


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_they_are_right(arch: str) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 20, 24), np.float32)
    graph = tiledsl.trace(normed_across_lines, x)
    found: Any = emulate_graph(graph, [x], {}, None, Request(arch=arch)).result
    np.testing.assert_allclose(np.asarray(found), np.asarray(graph(x)), rtol=1e-4, atol=1e-5)

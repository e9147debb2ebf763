"""Groups become tile programs, and those that are alike share one."""

from __future__ import annotations

from typing import Any

import numpy as np

import tiledsl
from tiledsl import tile
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

"""Rooms of tiles: short axes whose sizes are known are shared out among threads."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tests.support.op_checks import F32, normal
from tiledsl import ops, tile
from tiledsl.api.graphs.emulate_graph import emulate_graph
from tiledsl.api.programs.emulate import Request
from tiledsl.backend_ref.execute_graph import execute_graph


def convolved(x: Any, w: Any) -> Any:
    return ops.conv2d(x, w, padding=1)


@pytest.mark.parametrize(("arch", "pixels"), [("sm_80", 7), ("sm_80", 13), ("sm_80", 27), ("sm_90", 7), ("sm_90", 13)])
def test_all_threads_copy_windows_of_odd_images(arch: str, pixels: int) -> None:
    """14 x 14 elements, as much room as 13 x 13 need, are four parts: four threads had copied a block."""
    graph = tiledsl.trace(convolved, tile.spec((64, 32, pixels, pixels), tile.f32), tile.spec((32, 32, 3, 3), tile.f32))
    kernel = next(k for name, k in tiledsl.fuse(graph).build(arch=arch).kernels.items() if name.startswith("windows"))
    text = kernel.ir("gpu")
    (threads,) = (int(found) for found in re.findall(r"threads = (\d+)", text))
    (load,) = (line for line in text.splitlines() if "gpu.load(" in line)
    layout = re.search(r"layout = (.*?)\}", load)
    assert layout is not None
    parts = 1
    for spatial in re.findall(r"spatial\((.*?)\)", layout[1]):
        for part in spatial.split(","):
            parts *= int(part)
    assert parts == threads


@pytest.mark.parametrize("pixels", [36, 40])
def test_threads_have_runs_of_images_that_a_block_covers(pixels: int) -> None:
    """40 pixels, as much room as 36 need, are five runs of eight: threads had taken single pixels, each anew for
    each place of the window."""

    def depthwise(x: Any, w: Any) -> Any:
        return ops.conv2d(x, w, padding=2, groups=64)

    given = tile.spec((8, 64, pixels, pixels), tile.f16), tile.spec((64, 1, 5, 5), tile.f16)
    (kernel,) = tiledsl.fuse(tiledsl.trace(depthwise, *given)).build(arch="sm_90").kernels.values()
    images, weights = (kernel.ir("gpu").count(f"gpu.load(%{name}, ") for name in ("source", "w"))
    assert images < weights


def test_they_hold_what_they_should() -> None:
    arrays = [normal(2, 16, 7, 13, dtype=F32), normal(16, 16, 3, 3, dtype=F32)]
    graph = tiledsl.trace(convolved, *arrays)
    (expected,) = execute_graph(graph.module.entry, arrays, graph.module)
    actual = emulate_graph(graph, arrays, {}, None, Request(arch="sm_90")).result
    assert_close(np.asarray(actual), expected, terms=9 * 16)


@tile.kernel
def two_parts(x: tile.Tensor) -> Any:
    """Rows of 65 in two parts, of 25 and of 40 elements."""
    M, _ = x.shape
    y, z = tile.empty((M, 25), tile.f32), tile.empty((M, 40), tile.f32)
    for m in tile.grid(M):
        y[m, 0:25] = tile.load(x[m, 0:25]) * 2.0
        z[m, 0:40] = tile.load(x[m, 25:65]) * 3.0
    return y, z


def test_all_large_tiles_are_shared_out() -> None:
    """25 elements have room for 32, as 40 have for 64: else four lanes would have seven each."""
    text = two_parts.compile(tile.spec((999, 65), tile.f32), arch="sm_90").ir("gpu")
    rooms = {int(found) for found in re.findall(r"shape = \[\d+, (\d+)\]", text)}
    assert {32, 64} <= rooms, text

"""Gradients of weights: products that sum over all positions of windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tiledsl import tile
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir import graph_ops
from tiledsl.passes.graph.rewrites.canonicalise_graph import CanonicaliseGraph
from tiledsl.passes.graph.rewrites.windows import sum_positions
from tiledsl.passes.graph.rewrites.windows.copy_windows import CopyWindows
from tiledsl.passes.graph.rewrites.windows.sum_positions import SumPositions
from tiledsl.passes.manager import PassContext, PassManager

AS_ROWS = "sum-positions, positions are one axis; places of windows are rows of a view"
LAID = "sum-positions, windows are of an image with its channels last"
COPIED = "copy-windows, windows are copied, so that they are one matrix"


def gradient(
    positions: tuple[int, ...], channels: tuple[int, int], places: tuple[int, ...], groups: int = 1, stride: int = 1,
    dilation: int = 1, padding: int = 0, last: bool = False, images: int = 2, dtype: Any = tile.f16,
) -> tuple[Any, list[np.ndarray]]:  # fmt: skip
    """The function, and an image and what comes of it at each position."""
    rank = len(positions)
    reach = [(size - 1) * dilation + 1 for size in places]
    pixels = [(n - 1) * stride + r - 2 * padding for n, r in zip(positions, reach)]

    def of_weights(x: Any, d: Any) -> Any:
        if last:
            x, d = (v.transpose((0, rank + 1, rank + 2, *range(1, rank + 1))) for v in (x, d))
        x = tile.pad(x, (*((0, 0),) * 3, *((padding, padding),) * rank))
        windows = tile.window(x, places, tuple(range(3, 3 + rank)), (stride,) * rank, (dilation,) * rank)
        at, within = " ".join("pqo"[:rank]), " ".join("rst"[:rank])
        return tile.einsum(f"n g c {at} {within}, n g k {at} -> g k c {within}", windows, d).to(dtype)

    rng = np.random.default_rng(0)
    shapes = [(images, groups, channels[0], *pixels), (images, groups, channels[1], *positions)]
    if last:
        shapes = [(images, *shape[3:], *shape[1:3]) for shape in shapes]
    values = [rng.standard_normal(shape).astype(np.float16 if dtype is tile.f16 else np.float32) for shape in shapes]
    return of_weights, values


CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "square": ({"positions": (6, 5), "places": (3, 3), "padding": 1}, [AS_ROWS]),
    "channels last": ({"positions": (6, 5), "places": (3, 3), "padding": 1, "last": True}, [AS_ROWS]),
    "not padded": ({"positions": (3, 4), "places": (2, 3)}, [AS_ROWS]),
    "dilated": ({"positions": (6, 7), "places": (3, 2), "dilation": 2, "padding": 2}, [AS_ROWS]),
    "groups": ({"positions": (4, 4), "places": (3, 3), "padding": 1, "groups": 2}, [AS_ROWS]),
    "a signal": ({"positions": (20,), "places": (5,), "padding": 2}, [AS_ROWS]),
    "a volume": ({"positions": (4, 3, 5), "places": (3, 3, 3), "padding": 1}, [AS_ROWS]),
    "steps": ({"positions": (4, 3), "places": (3, 3), "padding": 1, "stride": 2}, [LAID, COPIED]),
    "steps, channels last": (
        {"positions": (4, 3), "places": (3, 3), "padding": 1, "stride": 2, "last": True},
        [LAID, COPIED],
    ),
    "patches": ({"positions": (4, 3), "places": (2, 2), "stride": 2}, [COPIED]),
    "dilated steps": (
        {"positions": (4, 4), "places": (3, 3), "padding": 2, "stride": 2, "dilation": 2, "groups": 2},
        [LAID, COPIED],
    ),
}


@pytest.mark.parametrize("dtype", [tile.f16, tile.f32], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_the_same_numbers(name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def always(*_: object) -> bool:
        return True

    monkeypatch.setattr(sum_positions, "pays", always)  # images are so small that their edges are half of them
    options, expected = CASES[name]
    function, values = gradient(channels=(16, 16), dtype=dtype, **options)
    graph = tiledsl.trace(function, *values)
    (before,) = execute_graph(graph.module.entry, values, graph.module)
    context = PassContext()
    module = PassManager([CanonicaliseGraph(), SumPositions(arch="sm_90"), CopyWindows(arch="sm_90")]).run(
        graph.module, context
    )
    (after,) = execute_graph(module.entry, values, module)
    assert_close(after, before, absolute=2e-2 if dtype is tile.f16 else 1e-4)
    assert [f"{remark.pass_name}, {remark.text}" for remark in context.remarks] == expected


def products(arch: str = "sm_90", **options: Any) -> list[type]:
    """What products read windows from."""
    function, values = gradient(**options)
    module = tiledsl.trace(function, *values).module
    module = PassManager([CanonicaliseGraph(), SumPositions(arch=arch)]).run(module, PassContext())
    return [type(op.a.op) for op in module.entry.body.ops if isinstance(op, graph_ops.Contract)]


def test_only_where_it_pays() -> None:
    square: dict[str, Any] = {"positions": (6, 5), "places": (3, 3), "padding": 1}
    assert products(channels=(64, 32), **square) == [graph_ops.Transpose]
    assert products("cpu", channels=(64, 32), **square) == [graph_ops.Window]
    assert products(channels=(3, 32), **square) == [graph_ops.Window]  # channels do not fill a tile
    assert products(channels=(32, 3), **square) == [graph_ops.Window]
    tall: dict[str, Any] = {"positions": (1, 400), "places": (3, 3)}
    assert products(channels=(16, 128), images=64, dtype=tile.f32, **tall) == [graph_ops.Window]  # three rows for one

"""Two layers on one row are two kernels, where one would be a single program; of many rows they are one kernel."""

from __future__ import annotations

from typing import Any

import pytest

from tiledsl import tile


@tile.kernel
def two_layers(x: Any, first: Any, second: Any) -> Any:
    return tile.relu(x @ first) @ second


@pytest.mark.parametrize(("rows", "kernels"), [(1, 2), (64, 1)])
def test_one_row_is_not_left_to_one_core(rows: int, kernels: int) -> None:
    specs = [tile.spec(shape, tile.f32) for shape in ((rows, 512), (512, 2048), (2048, 512))]
    assert f": {kernels} kernel" in two_layers.compile(*specs).explain()

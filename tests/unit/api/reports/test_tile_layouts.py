"""The layouts of a compiled kernel's tiles, by name."""

from __future__ import annotations

import pytest

from gemm import gemm
from tiledsl import tile
from tiledsl.api.reports.tile_layouts import tile_layouts
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.support.errors import TileError

SPECS = (tile.spec((512, 512), tile.bf16), tile.spec((512, 512), tile.bf16))


def test_a_product_by_warpgroups() -> None:
    compiled = gemm.compile(*SPECS, arch="sm_90")
    layouts = compiled.layouts
    assert {"a", "b", "acc"} <= set(layouts)
    assert not any("full" in name or "empty" in name for name in layouts), "barriers are no tiles"
    for name, found in layouts.items():
        assert found.name == name
        assert str(found.layout) in compiled.ir("gpu")
        assert str(found.layout) in str(found)
        assert "<svg" in found._repr_svg_()  # pyright: ignore[reportPrivateUsage]
        kind = RegisterLayout if found.level == "register" else SharedLayout
        assert isinstance(found.layout, kind)
    assert layouts["acc"].level == "register"
    assert layouts["acc"].dtype == tile.f32
    assert layouts["a"].level == "shared"
    assert len(layouts["a"].shape) == 3, "stages, rows, columns"


def test_a_variable_that_lies_in_two_ways_is_there_twice() -> None:
    text = """
    func @f(%x: tensor<f32, [64], unit=0>) {
      %N = tile.size() {value = 64} : i64
      gpu.launch([%N]) {blocks = [64], threads = 64, shared_bytes = 0} body(%n: i64) {
        %t = gpu.load(%x, [%n], []) {axes = [0], shape = [64], layout = spatial(64)}
        %t_1 = gpu.load(%x, [%n], []) {axes = [0], shape = [64], layout = spatial(64)}
        %t_2 = gpu.load(%x, [%n], []) {axes = [0], shape = [64], layout = spatial(32) * local(2)}
      }
      tile.return([])
    }
    """
    assert {name: str(found.layout) for name, found in tile_layouts(text).items()} == {
        "t": "spatial(64)",
        "t_2": "spatial(32) * local(2)",
    }


def test_a_cpu_has_none() -> None:
    with pytest.raises(TileError, match="layouts"):
        _ = gemm.compile(*SPECS).layouts

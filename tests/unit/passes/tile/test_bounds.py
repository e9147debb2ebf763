"""Extents that are known, and remarks on what is not."""

from __future__ import annotations

import pytest

from tests.support.pass_runs import remarks_of, run_passes
from tiledsl.ir.tile_ops import Grid, Load, Store
from tiledsl.ir.types import AxisType


def copy(size: str, block: str, facts: str = "") -> str:
    """Copies a vector of `size` elements in blocks."""
    return f"""
    func @copy(%a: tensor<f32, [{size}]>, %b: tensor<f32, [{size}]>, %t: tensor<f32, [M]>) {facts} {{
      %stop = tile.size() {{value = {size}}}
      tile.grid([%stop]) {{blocks = [{block}]}} body(%m: axis<m>) {{
        %x = tile.load(%a, [%m])
        tile.store(%b, [%m], %x)
      }}
      tile.return([])
    }}
    """


@pytest.mark.parametrize(
    ("size", "block", "facts", "extent"),
    [
        ("M", "16", "facts [M % 16 == 0]", "16"),
        ("M", "16", "facts [M % 8 == 0]", "m"),
        ("M", "32", "facts [M % 48 == 0]", "m"),
        ("32 * M", "16", "", "16"),
        ("M + 8", "8", "facts [M % 16 == 0]", "8"),
        ("100", "128", "", "100"),
        ("128", "100", "", "m"),
        ("M", "upto(64, 16)", "facts [M % 16 == 0]", "m"),
        ("M", "auto", "facts [M % 16 == 0]", "m"),
    ],
)
def test_extents(size: str, block: str, facts: str, extent: str) -> None:
    module = run_passes("bounds", copy(size, block, facts))
    (grid,) = [op for op in module.walk() if isinstance(op, Grid)]
    assert isinstance(grid.body.arguments[0].type, AxisType)
    assert str(grid.body.arguments[0].type.extent) == extent
    assert all(op.in_bounds == (0,) for op in module.walk() if isinstance(op, (Load, Store)))


def test_remarks() -> None:
    assert remarks_of("bounds", copy("M", "16", "facts [M % 16 == 0]")) == [
        "bounds: every block of %m has 16 coordinates, which divides M",
        "bounds: 2 of 2 accesses proved in bounds",
    ]
    ragged = copy("M", "16").replace("tile.load(%a, [%m])", "tile.load(%t, [%m])").replace("[M]>) ", "[N]>) ")
    assert remarks_of("bounds", ragged) == [
        "bounds: axis 0 of %t, of size N, is checked when the program runs",
        "bounds: 1 of 2 accesses proved in bounds",
    ]


def test_a_function_without_accesses_has_no_remark() -> None:
    assert remarks_of("bounds", "func @f() { tile.return([]) }") == []


def test_promises_that_are_given_stay() -> None:
    text = """
    func @f(%a: tensor<f32, [M, N]>, %i: i64) {
      %x = tile.load(%a, [%i, %i]) {in_bounds = [1]}
      tile.print([%x])
      tile.return([])
    }
    """
    (load,) = [op for op in run_passes("bounds", text).walk() if isinstance(op, Load)]
    assert load.in_bounds == (1,)

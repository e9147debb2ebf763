"""Which axes of a grid may have last blocks that begin earlier, and why others may not."""

from __future__ import annotations

from tests.unit.passes.gpu.test_streamed_loads import DOT, A, B, program
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Module
from tiledsl.passes.gpu.products.whole_ends import whole_ends


def ends(module: Module) -> tuple[bool, ...]:
    (grid,) = [op for op in module.entry.body.ops if isinstance(op, ops.Grid)]
    return whole_ends(grid)


def test_a_product() -> None:
    assert ends(program()) == (True, True)


def test_what_follows_from_where_a_block_begins() -> None:
    found = ends(program(before="%first = tile.start(%m)", start="%first"))
    assert found == (False, False)


def test_what_is_read_and_written() -> None:
    assert ends(program(inside=A.replace("%a,", "%c,") + f"\n{B}\n{DOT}", b="f32")) == (False, False)

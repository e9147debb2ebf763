"""Schedules of graphs: what a program reads lies as the program was compiled for."""

from __future__ import annotations

import pytest

from tiledsl.api.schedules.schedule_graph import schedule_graph
from tiledsl.ir.text.parser import parse_module

PROGRAM = """
func @f(%x: tensor<f32, [{rows}, {columns}], unit=3>) {{
  %t = graph.transpose(%x) {{permutation = [{order}]}} : tensor<f32, [{shape}]>
  %y = graph.call([%t]) {{callee = copy}} : tensor<f32, [{shape}]>
  graph.return([%y])
}}

func @copy(%x: tensor<f32, [A, B, C, D], unit={unit}>) {{
  %out = tile.empty() {{shape = [A, B, C, D], dtype = f32}} : tensor<f32, [A, B, C, D], unit=3>
  %0 = tile.size() {{value = A}} : i64
  %1 = tile.size() {{value = B}} : i64
  %2 = tile.size() {{value = C}} : i64
  %3 = tile.size() {{value = D}} : i64
  tile.grid([%0, %1, %2, %3]) {{blocks = [auto, auto, auto, auto]}} body(
      %a: axis<a>, %b: axis<b>, %c: axis<c>, %d: axis<d>) {{
    %4 = tile.load(%x, [%a, %b, %c, %d]) : tile<f32, [a, b, c, d]>
    tile.store(%out, [%a, %b, %c, %d], %4)
  }}
  tile.return([%out])
}}
"""


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 3, 1, 2), (3, 2, 1, 0)])
@pytest.mark.parametrize("unit", range(4))
def test_an_argument_has_the_axis_side_by_side_that_the_program_was_compiled_for(
    unit: int, order: tuple[int, ...]
) -> None:
    sizes = (2, 3, 4, 5)
    shape = ", ".join(str(sizes[axis]) for axis in order)
    text = PROGRAM.format(rows="2, 3", columns="4, 5", order=", ".join(map(str, order)), shape=shape, unit=unit)
    scheduled = schedule_graph(parse_module(text), ["x"], [])
    for step in scheduled.schedule.steps:
        for operand in step.tensors:
            assert operand.unit is None or operand.view.strides[operand.unit] == 1
    steps = [step.name for step in scheduled.schedule.steps]
    assert steps == (["copy"] if order[unit] == 3 else ["copy", "copy"])

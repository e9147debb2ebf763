"""Which accesses of one buffer may meet."""

from __future__ import annotations

import pytest

from tiledsl.ir.gpu.gpu_ops import Write
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.gpu.sync.memory_effects import accesses, overlap

PROGRAM = """
func @f(%x: tensor<f32, [64], unit=0>, %slot: i64, %next: i64) {{
  %zero = tile.constant() {{value = 0, dtype = i64}}
  %one = tile.constant() {{value = 1, dtype = i64}}
  %two = tile.constant() {{value = 2, dtype = i64}}
  gpu.launch([]) {{blocks = [], threads = 64}} body() {{
    %v = gpu.load(%x, [%zero], []) {{axes = [0], shape = [64], layout = spatial(64)}}
    %w = gpu.load(%x, [%zero], []) {{axes = [0], shape = [64], layout = replicate(2) * spatial(32) * local(2)}}
    %b = gpu.buffer() {{shape = [4, 64], dtype = f32, layout = rows(0, 1)}}
    {other}
    gpu.write(%b, %v, [%slot, %zero]) {{places = [1]}}
    gpu.write(%b, %w, [%there, %zero]) {{places = [1]}}
    tile.yield([])
  }}
  tile.return([])
}}
"""


@pytest.mark.parametrize(
    ("other", "meet"),
    [
        ("%there = tile.map([%one, %slot]) {fn = sub}", False),  # two places in turn
        ("%there = tile.map([%slot, %one]) {fn = add}", False),
        ("%there = tile.map([%two, %slot]) {fn = sub}", True),  # the same where the slot is 1
        ("%there = tile.map([%one, %next]) {fn = sub}", True),
        ("%there = tile.map([%slot, %zero]) {fn = add}", True),
    ],
)
def test_places_that_differ_by_an_odd_number_do_not_meet(other: str, meet: bool) -> None:
    module = parse_module(PROGRAM.format(other=other))
    first, second = (access for op in module.walk() if isinstance(op, Write) for access in accesses(op))
    assert overlap(second, first) == meet

"""What modules say of themselves: text, page, bytes."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

import tiledsl
from tests.support.graph_texts import LINEAR, VIEWS
from tiledsl.api.modules.build_module import build_module
from tiledsl.api.modules.module import Module
from tiledsl.api.pages.draw_module import arranged, draw_module
from tiledsl.api.pages.module_nodes import nodes_and_edges
from tiledsl.api.pages.repeated_launches import all_parts
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.graph.analysis.step_traffic import graph_traffic
from tiledsl.runtime.programs.artifact import Note


def linear() -> Module:
    weights = {"w": np.zeros((8, 6), np.float32), "b": np.zeros(6, np.float32)}
    notes = [Note("group", "model.py", 3, "@linear: bias is added in registers")]
    return build_module(parse_module(LINEAR), weights, ["x"], "cpu", notes, unfused_bytes=2000)


def test_the_text() -> None:
    text = linear().explain()
    shown = [
        "model, built for cpu: 1 kernel, 1 launch in a call",
        "  linear  1      376 B  120 B   dot, add",
        "  1. linear: 376 B read, 120 B written [<text>:3]\n     x f32[5, 8]; w f32[8, 6]; b f32[6] -> out[0] f32[5",
        "  weights     216 B",
        "  496 B read and written by all launches",
        "  1.953 KiB if each op of the graph ran by itself: 0.25 of that",
        "  @linear: bias is added in registers [group]",
    ]
    for line in shown:
        assert line in text


def test_plans_of_code_for_gpus_are_told() -> None:
    module = build_module(parse_module(VIEWS), {}, ["x", "y"], "sm_90")
    assert re.search(r"\n     plan: n0=\d+, .*\n? .*registers, 0 bytes\s+spilled", module.explain())


def test_bytes_of_kernels_and_of_ops() -> None:
    module = linear()
    assert module.traffic() == (4 * (40 + 48 + 6 + 30), 2000)
    graph = parse_module("""
func @model(%x: tensor<f32, [5, 8]>, %w: tensor<f32, [8, 6]>, %b: tensor<f32, [6]>, %i: tensor<i32, [2]>) {
  %p = graph.contract(%x, %w) {axes = "m k, k n -> m n", dtype = f32}
  %rows = graph.broadcast(%b) {shape = [5, 6]}
  %y = graph.map([%p, %rows]) {fn = add}
  %t = graph.transpose(%y) {permutation = [1, 0]}
  %z = graph.gather(%t, %i) {axis = 0}
  %v = graph.window(%z) {axes = [1], sizes = [2], strides = [1], dilations = [1]}
  %s = graph.reduce(%v) {axes = [2], fn = max}
  graph.return([%s])
}
""")
    contract, add, gather, reduce = 40 + 48 + 30, 30 + 6 + 30, 10 + 2 + 10, 10 + 8
    assert graph_traffic(graph.entry) == 4 * (contract + add + gather + reduce)


def test_rows_that_are_sought_count_as_often_as_they_are_written() -> None:
    text = """
func @model(%table: tensor<f32, [1000, 4]>, %ids: tensor<i32, [3]>) {
  %y = graph.call([%table, %ids]) {callee = rows} : tensor<f32, [3, 4]>
  graph.return([%y])
}
func @rows(%table: tensor<f32, [R, 4]>, %ids: tensor<i32, [N]>) {
  %y = tile.empty() {shape = [N, 4], dtype = f32}
  %N = tile.size() {value = N}
  tile.grid([%N]) {blocks = [1]} body(%n: i64) {
    %id = tile.load(%ids, [%n])
    %row = tile.cast(%id) {dtype = i64}
    %t = tile.load(%table, [%row, :])
    tile.store(%y, [%n, :], %t)
  }
  tile.return([%y])
}
"""
    module = build_module(parse_module(text), {}, ["table", "ids"], "cpu")
    assert module.traffic() == (4 * (12 + 3 + 12), None)
    table: Any = np.arange(4000, dtype=np.float32)
    table = table.reshape(1000, 4)
    ids = np.asarray([7, 0, 999], np.int32)
    np.testing.assert_array_equal(module(table, ids), table[ids])


def test_the_page_stands_alone(tmp_path: Path) -> None:
    module = linear()
    assert module.explain(html=tmp_path / "page.html") == module.explain()
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=|@import|url\((?!#)", page)
    assert "@linear: bias is added in registers" in page


def test_the_drawing() -> None:
    module = build_module(parse_module(VIEWS), {}, ["x", "y"], "cpu")
    schedule = module.built.schedule
    drawing = ElementTree.fromstring(draw_module(schedule, all_parts(schedule)))
    space = "{http://www.w3.org/2000/svg}"
    kinds = [group.get("class") for group in drawing.iter(f"{space}g")]
    assert kinds.count("kernel") == len(schedule.steps) == 8
    assert (kinds.count("input"), kinds.count("output")) == (2, 6)
    nodes, edges = nodes_and_edges(schedule, all_parts(schedule))
    found = arranged(nodes, edges)
    places = found.places
    for edge in edges:
        assert [nodes[n].row - nodes[edge.nodes[0]].row for n in edge.nodes] == list(range(len(edge.nodes)))
        assert all(nodes[n].kind == "way" for n in edge.nodes[1:-1])
    for one, other in combinations(range(len(nodes)), 2):
        (x, y), (to_x, to_y) = places[one], places[other]
        beside = x + nodes[one].width <= to_x or to_x + nodes[other].width <= x
        assert beside or y + nodes[one].height <= to_y or to_y + nodes[other].height <= y
    assert all(0 <= x <= x + nodes[n].width <= found.width for n, (x, _) in places.items())
    assert all(0 <= y <= y + nodes[n].height <= found.height for n, (_, y) in places.items())


def test_what_a_module_that_was_loaded_says(tmp_path: Path) -> None:
    module = linear()
    module.save(tmp_path / "m")
    text = tiledsl.load(tmp_path / "m").explain()
    first, rest = module.explain().split("\n", 1)
    assert text == f"{first.partition(';')[0]}\n{rest}"


def test_a_graph_with_nothing_to_run(tmp_path: Path) -> None:
    text = "func @model(%x: tensor<f32, [0, 3]>) {\n graph.return([%x])\n}\n"
    module = build_module(parse_module(text), {}, ["x"], "cpu")
    assert module(np.zeros((0, 3), np.float32)).shape == (0, 3)
    assert "0 kernels, 0 launches" in module.explain(html=tmp_path / "page.html")

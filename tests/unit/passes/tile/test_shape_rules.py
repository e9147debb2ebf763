"""Rules of shapes that the golden texts do not show."""

from __future__ import annotations

import pytest

from tests.support.pass_runs import ops_after

PARAMETERS = "%a: tensor<f32, [M, 1]>, %v: tensor<f32, [M]>, %z: f32"


def after(*lines: str, pipeline: str = "canonicalise,dce") -> list[str]:
    body = "\n".join(lines)
    return ops_after(pipeline, f"func @f({PARAMETERS}) {{\n{body}\ntile.print([%r])\ntile.return([])\n}}\n")


A = "%x = tile.load(%a, [:, :])"
V = "%y = tile.load(%v, [:])"


@pytest.mark.parametrize("fn", ["add", "mul", "max", "min"])
def test_a_fold_of_one_element(fn: str) -> None:
    lines = after(A, f"%r = tile.reduce([%x]) {{axes = [1], fn = {fn}}}")
    assert lines[-1] == "%r = tile.reshape(%x) {shape = [M]} : tile<f32, [M]>"
    assert len(after(A, f"%r = tile.reduce([%x]) {{axes = [1], fn = {fn}, keepdims = true}}")) == 1


def test_the_index_of_one_element_is_not_the_element() -> None:
    assert "argmax" in after(A, "%r = tile.reduce([%x]) {axes = [1], fn = argmax}")[-1]


def test_a_row_is_repeated_at_once_but_a_column_is_not() -> None:
    row = ["%s = tile.reshape(%y) {shape = [1, M]}", "%r = tile.broadcast(%s) {shape = [4, M]}"]
    assert after(V, *row)[1:] == ["%r = tile.broadcast(%y) {shape = [4, M]} : tile<f32, [4, M]>"]
    column = ["%s = tile.reshape(%y) {shape = [M, 1]}", "%r = tile.broadcast(%s) {shape = [M, 4]}"]
    assert len(after(V, *column)) == 3


def test_transposes_come_together() -> None:
    lines = after(
        "%s = tile.broadcast(%z) {shape = [2, 3]}",
        "%w = tile.load(%a, [:, 0:1])",
        "%t = tile.reshape(%w) {shape = [M, 1, 1]}",
        "%p = tile.transpose(%t) {permutation = [1, 2, 0]}",
        "%r = tile.transpose(%p) {permutation = [1, 0, 2]}",
    )
    assert lines[-1] == "%r = tile.transpose(%t) {permutation = [2, 1, 0]} : tile<f32, [1, 1, M]>"


def test_a_level_that_was_given_is_kept() -> None:
    load = "%y = tile.load(%v, [:]) : tile<f32, [M], register>"
    same = "%r = tile.reshape(%y) {shape = [M]} : tile<f32, [M], shared>"
    assert after(load, same) == [load, same]


def test_zero_is_what_loads_read_outside_anyway() -> None:
    for value, stays in (("0.0", False), ("-0.0", True), ("1.0", True)):
        lines = after(f"%o = tile.constant() {{value = {value}, dtype = f32}}", "%r = tile.load(%v, [0:4], %o)")
        assert ("%o" in lines[-1]) == stays


def test_an_extent_that_is_known() -> None:
    lines = after(
        "%M = tile.size() {value = M}",
        "%r = tile.constant() {value = 1, dtype = i64}",
        "tile.grid([%M]) {blocks = [16]} body(%m: axis<16>) {",
        "%shifted = tile.shift(%m, %r)",
        "%e = tile.extent(%shifted)",
        "tile.print([%e])",
        "}",
    )
    assert "%e = tile.constant() {value = 16, dtype = i64} : i64" in lines
